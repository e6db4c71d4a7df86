"""Pages solved by clicks: buttons, boxes to tick, tabs, menus, lists, shapes."""

import re

from envs.browser.miniwob.play import Play, Stuck
from envs.browser.miniwob.solvers.table import Table
from envs.gui.tree import Node

TABLE = Table()


@TABLE.solves("click-test", level="trivial", steps=3)
def only_button(play: Play) -> None:
    """One button."""
    play.click("Click Me!", "button")


@TABLE.solves("click-test-2", "click-test-transfer", level="trivial", steps=3)
def named_button(play: Play) -> None:
    """One of two buttons."""
    play.click(play.find(r"button (\w+)")[0], "button")


@TABLE.solves("click-button", level="trivial", steps=3)
def quoted_button(play: Play) -> None:
    """A button among other things."""
    play.click(play.quoted()[0], "button")


@TABLE.solves("click-button-sequence", level="easy", steps=4)
def two_buttons(play: Play) -> None:
    """Two buttons in order."""
    for name in re.findall(r"button (\w+)", play.goal):
        play.click(name, "button")


@TABLE.solves("click-link", level="trivial", steps=3)
def link(play: Play) -> None:
    """A link in a text."""
    play.click(play.quoted()[0], "link", "generic")


@TABLE.solves("click-dialog", level="trivial", steps=3)
def close_dialog(play: Play) -> None:
    """The x of a dialog."""
    play.click("Close", "button")


@TABLE.solves("click-dialog-2", level="trivial", steps=3)
def dialog_button(play: Play) -> None:
    """A button of a dialog."""
    name = play.quoted()[0]
    play.click("Close" if name == "x" else name, "button")


@TABLE.solves("click-option", level="easy", steps=4)
def option(play: Play) -> None:
    """A radio button."""
    play.click(play.find(r"Select (.*) and click")[0], "radio")
    play.submit()


@TABLE.solves("click-checkboxes", "click-checkboxes-transfer", level="medium", steps=10)
@TABLE.solves("click-checkboxes-large", level="hard", steps=16)
def boxes(play: Play) -> None:
    """Boxes to tick."""
    (names,) = play.find(r"Select (.*) and click Submit")
    for name in [] if names == "nothing" else names.split(", "):
        play.click(name, "checkbox")
    play.submit()


@TABLE.solves("click-tab", level="trivial", steps=3)
def tab(play: Play) -> None:
    """A tab by its number."""
    play.click(f"Tab #{play.find(r'Tab #(.+?)[.]?$')[0]}", "link", "tab")


@TABLE.solves("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard",
              level="medium", steps=10)  # fmt: skip
def link_in_tabs(play: Play) -> None:
    """A link on one of several tabs."""
    wanted = play.quoted()[0]
    _open_until(play, wanted, [node.name for node in play.all("tab")], "tab")


@TABLE.solves("click-collapsible", "click-collapsible-nodelay", level="easy", steps=5)
def section(play: Play) -> None:
    """A section that hides the button."""
    play.click(next(node for node in play.all("tab") if node.name.startswith("Section")))
    play.submit()


@TABLE.solves("click-collapsible-2", "click-collapsible-2-nodelay", level="medium", steps=10)
def link_in_sections(play: Play) -> None:
    """A link in one of several sections."""
    wanted = play.quoted()[0]
    _open_until(play, wanted, [node.name for node in play.all("tab")], "tab")


def _open_until(play: Play, wanted: str, names: list[str], role: str) -> None:
    for name in ["", *names]:
        if name:
            play.click(name, role)
        found = [n for n in play.all("generic", "link") if n.name == wanted]
        if found and "offscreen" not in found[0].states:
            return play.click(found[0])
    raise Stuck(f"no {wanted!r} in any of {names}")


@TABLE.solves("click-widget", level="easy", steps=3)
def widget(play: Play) -> None:
    """One widget of a kind."""
    kind = play.quoted()[0]
    role = {"text": "textbox", "textarea": "textbox"}.get(kind, kind)
    found = play.all(role)
    if role == "textbox":
        found = [n for n in found if ("multiline" in n.states) == (kind == "textarea")]
    if not found:
        raise Stuck(f"no {kind}")
    play.click(found[0])


@TABLE.solves("click-color", level="easy", steps=3)
def colored_box(play: Play) -> None:
    """A box of a colour."""
    color = play.find(r"the (\w+) colored")[0]
    play.click(next(n for n in play.all("box") if n.name.split()[-1] == _same_color(color)))


def _same_color(name: str) -> str:
    return {"gray": "grey", "aqua": "cyan", "fuchsia": "magenta"}.get(name, name)


@TABLE.solves("click-menu", level="medium", steps=6)
def menu(play: Play) -> None:
    """An item of a menu in menus."""
    names = play.find(r"Select (.*)$")[0].split(">")
    for name in names[:-1]:
        play.do(f"hover {play.named(name, 'menuitem').id}")
        play.do("wait 0.5")
    play.click(names[-1], "menuitem")


@TABLE.solves("click-scroll-list", level="medium", steps=8)
def scroll_list(play: Play) -> None:
    """Options of a list."""
    names = play.find(r"Select (.*) from the scroll list")[0].split(", ")
    labels = " ".join(f'"{name}"' for name in names)
    play.do(f"select {play.all('listbox')[0].id} {labels}")
    play.submit()


@TABLE.solves("choose-list", level="easy", steps=4)
def drop_down(play: Play) -> None:
    """An option of a drop-down list."""
    name = play.find(r"Select (.*) from the list")[0]
    play.do(f'select {play.all("combobox")[0].id} "{name}"')
    play.submit()


@TABLE.solves("click-shades", level="hard", steps=16)
def shades(play: Play) -> None:
    """Boxes of all shades of a colour."""
    color = play.find(r"shades of (\w+)")[0]
    for node in play.all("box"):
        if _shade(node) == color:
            play.click(node)
    play.submit()


def _shade(node: Node) -> str:
    basic = {"red": (255, 0, 0), "lime": (0, 255, 0), "blue": (0, 0, 255), "maroon": (128, 0, 0),
             "green": (0, 128, 0), "navy": (0, 0, 128)}  # fmt: skip
    last = node.name.split()[-1] if node.name else ""
    rgb = basic.get(last) or tuple(int(n) for n in re.findall(r"\d+", node.name)[-3:])
    if len(rgb) != 3:
        return ""
    return ("red", "green", "blue")[max(range(3), key=lambda place: rgb[place])]


@TABLE.solves("ascending-numbers", level="medium", steps=8)
def ascending(play: Play) -> None:
    """Numbers in order."""
    numbers = sorted(play.all("text"), key=lambda n: int(n.name.split()[0]))
    for node in numbers:  # the first click hides them all
        play.do("click {} {}".format(*node.center))


@TABLE.solves("identify-shape", level="easy", steps=3)
def identify(play: Play) -> None:
    """The button that names the shape."""
    shape = play.all("circle", "rect", "polygon", "text")[0]
    if shape.role == "text":
        name = "Number" if shape.name.split()[0].isdigit() else "Letter"
    else:
        name = {"circle": "Circle", "rect": "Rectangle", "polygon": "Triangle"}[shape.role]
    play.click(name, "button")


@TABLE.solves("navigate-tree", level="medium", steps=14)
def folders(play: Play) -> None:
    """A file or folder of a tree."""
    wanted = play.quoted()[0]
    opened: set[str] = set()
    while not any(node.name == wanted for node in _leaves(play)):
        closed = [node for node in _leaves(play) if node.name not in opened]
        if not closed:
            raise Stuck(f"no {wanted!r} in the tree")
        opened.add(closed[0].name)
        play.click(closed[0])
    play.click(next(node for node in _leaves(play) if node.name == wanted))


def _leaves(play: Play) -> list[Node]:
    return [n for n in play.all("generic", "label") if re.fullmatch(r"[A-Z][\w-]+", n.name)]
