"""Pages that are small sites: mail, posts, a search, a phone book."""

from envs.browser.miniwob.play import Play, Stuck
from envs.browser.miniwob.solvers.table import Table
from envs.gui.tree import Node

TABLE = Table()


def _below(play: Play, name: str, *roles: str) -> list[Node]:
    """Return the elements of these roles from one of a name on, in document order."""
    nodes = play.all()
    start = next((i for i, n in enumerate(nodes) if n.name == name), None)
    if start is None:
        raise Stuck(f"no {name!r}")
    return [node for node in nodes[start:] if node.role in roles]


def _marked(nodes: list[Node], mark: str) -> Node:
    for node in nodes:
        if mark in node.name.split():
            return node
    raise Stuck(f"no {mark!r} among {[node.name for node in nodes]}")


ICONS = ("image", "img", "generic", "box", "button")


@TABLE.solves("email-inbox-important", "email-inbox-delete", level="medium", steps=6)
def mark_mail(play: Play) -> None:
    """A mail to be starred or deleted."""
    (name,) = play.find(r"email by (\S+) and")
    icon = "star" if "star" in play.goal else "trash"
    play.click(_marked(_below(play, name, *ICONS), icon))


@TABLE.solves("email-inbox-reply", "email-inbox-forward", "email-inbox", "email-inbox-noscroll",
              "email-inbox-star-reply", level="hard", steps=10)  # fmt: skip
def answer_mail(play: Play) -> None:
    """A mail to be answered, passed on, starred or deleted."""
    (name,) = play.find(r"email by (\S+) and")
    if "star icon" in play.goal or "trash icon" in play.goal:
        return mark_mail(play)
    play.click(name)
    if "reply" in play.goal:
        play.click(_marked(play.all(), "email-reply") if not play.has("Reply") else
                   play.named("Reply"))  # fmt: skip
        play.fill(play.all("textbox")[0], play.quoted()[0])
    else:
        play.click(_marked(play.all(), "email-forward") if not play.has("Forward") else
                   play.named("Forward"))  # fmt: skip
        (to,) = play.find(r"to (\w[\w-]*)\.?$")
        play.fill(play.all("textbox")[0], to)
    play.click(next(n for n in play.all() if "send" in n.name))
    return None


@TABLE.solves("search-engine", level="hard", steps=8)
def search(play: Play) -> None:
    """The n-th result of a search."""
    name, place = play.find(r'enter "(.*?)" .* the (\d+)\w\w')
    play.fill(play.all("textbox")[0], name)
    play.click("Search", "button")
    index = int(place) - 1
    if index >= 3:
        play.click(str(index // 3 + 1), "link")
    links = [n for n in play.all("link") if n.name not in "<>123"]
    play.click(links[index % 3])


@TABLE.solves("phone-book", level="hard", steps=10)
def phone_book(play: Play) -> None:
    """A detail of a person in a book of pages."""
    (name,) = play.find(r"Find (\S+) in")
    detail = next(d for d in ("phone", "email", "address") if d in play.goal.lower()
                  .replace("phone book", "").replace("contact book", ""))  # fmt: skip
    for _ in range(6):
        if play.has(name, "heading"):
            break
        play.click(">", "link")
    nodes = play.all()
    label = next(i for i, n in enumerate(nodes) if n.name.lower().startswith(detail))
    play.click(next(n for n in nodes[label + 1 :] if n.name))


@TABLE.solves("social-media-all", "social-media-some", level="hard", steps=20)
def posts(play: Play) -> None:
    """A button of several posts of somebody."""
    user = next(word for word in play.goal.split() if word.startswith("@")).rstrip(".,")
    icon = play.quoted()[0].lower()
    nodes = play.all()
    places = [i for i, n in enumerate(nodes) if n.name == user]
    if "all posts" not in play.goal:
        places = places[: int(play.find(r"on (\d+) posts?")[0])]
    for place in places:
        play.click(_marked([n for n in nodes[place:] if n.role in ICONS], icon))
    play.submit()


@TABLE.solves("form-sequence-3", level="medium", steps=6)
def drop_down_and_button(play: Play) -> None:
    """A drop-down that is no list of options, and a button."""
    (height,) = play.find(r"Choose (.*) from the dropdown")
    play.do(f'select {play.all("combobox")[0].id} "{height}"')
    play.click(play.quoted()[0], "button")
