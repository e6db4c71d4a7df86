"""Pages solved by typing: fields, forms, dates, sliders, spinners."""

import re

from envs.browser.miniwob.play import Play, Stuck
from envs.browser.miniwob.solvers.table import Table
from envs.gui.tree import Node

TABLE = Table()
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December")  # fmt: skip


@TABLE.solves("enter-text", "enter-text-dynamic", level="easy", steps=4)
def text(play: Play) -> None:
    """A word in a field."""
    play.fill(play.all("textbox")[0], play.quoted()[0])
    play.submit()


@TABLE.solves("enter-text-2", level="easy", steps=4)
def cased(play: Play) -> None:
    """A word in upper or lower case."""
    word = play.quoted()[0]
    play.fill(play.all("textbox")[0], word.lower() if "lower case" in play.goal else word.upper())
    play.submit()


@TABLE.solves("enter-password", level="easy", steps=5)
def password(play: Play) -> None:
    """A password, twice."""
    for node in play.all("password"):
        play.fill(node, play.quoted()[0])
    play.submit()


@TABLE.solves("login-user", level="easy", steps=6)
@TABLE.solves("login-user-popup", level="medium", steps=10)
def login(play: Play) -> None:
    """A name and a password; a popup may come between."""
    for role, word in zip(("textbox", "password"), play.quoted(), strict=False):
        play.click(play.all(role)[0])
        if play.has("Cancel", "button"):
            play.click("Cancel", "button")
        play.fill(play.all(role)[0], word)
    play.click(play.all("button")[-1])


@TABLE.solves("enter-date", level="easy", steps=4)
def date(play: Play) -> None:
    """A date in a date field."""
    month, day, year = play.find(r"(\d+)/(\d+)/(\d+)")
    play.fill(play.all("date", "textbox")[0], f"{year}-{month}-{day}")
    play.submit()


@TABLE.solves("enter-time", level="easy", steps=4)
def time(play: Play) -> None:
    """A time in a time field."""
    hour, minute, half = play.find(r"(\d+):(\d+) ([AP]M)")
    play.fill(play.all("time")[0], f"{int(hour) % 12 + 12 * (half == 'PM'):02}:{minute}")
    play.submit()


@TABLE.solves("choose-date", "choose-date-nodelay", level="hard", steps=20)
@TABLE.solves("choose-date-easy", "choose-date-medium", level="medium", steps=8)
def calendar(play: Play) -> None:
    """A day in a calendar."""
    month, day, _ = (int(part) for part in play.find(r"(\d+)/(\d+)/(\d+)"))
    play.click(play.all("textbox")[0])
    for _ in range(12):
        shown = next((n.name for n in play.all() if n.name.split(" ")[0] in MONTHS), "")
        if not shown:
            raise Stuck("no calendar opened")
        distance = MONTHS.index(shown.split(" ")[0]) + 1 - month
        if not distance:
            break
        play.click("Prev" if distance > 0 else "Next")
    play.click(str(day), "link")
    play.submit()


@TABLE.solves("focus-text", level="trivial", steps=3)
def focus(play: Play) -> None:
    """The focus in the one field."""
    play.click(play.all("textbox")[0])


@TABLE.solves("focus-text-2", level="trivial", steps=3)
def focus_one(play: Play) -> None:
    """The focus in one of several fields."""
    (place,) = play.find(r"the (\d)\w\w input")
    play.click(play.all("textbox")[int(place) - 1])


@TABLE.solves("form-sequence", level="medium", steps=30)
def slider_and_box(play: Play) -> None:
    """A slider, a box, a button."""
    number, place = play.find(r"Select (-?\d+) with the slider, click the (\d)")
    _slide(play, _handles(play)[0], int(number))
    play.click(play.all("checkbox")[int(place) - 1])
    play.submit()


@TABLE.solves("form-sequence-2", level="medium", steps=6)
def radio_and_field(play: Play) -> None:
    """A radio button, a number, a button."""
    radio, field = play.find(r"the (\d)\w\w radio .* the (\d)\w\w textbox")
    play.click(play.all("radio")[int(radio) - 1])
    play.fill(play.all("textbox")[int(field) - 1], play.quoted()[0])
    play.submit()


@TABLE.solves("use-slider", level="medium", steps=60)
def slider(play: Play) -> None:
    """A slider."""
    _slide(play, _handles(play)[0], int(play.find(r"Select (-?\d+)")[0]))
    play.submit()


@TABLE.solves("use-slider-2", level="hard", steps=60)
def sliders(play: Play) -> None:
    """Three sliders."""
    numbers = [int(part) for part in play.find(r"\[(.*)\]")[0].split(",")]
    for place, number in enumerate(numbers):
        _slide(play, _handles(play)[place], number)
    play.submit()


def _handles(play: Play) -> list[Node]:
    return [node for node in play.all("generic", "box") if "slider-handle" in node.name]


def _slide(play: Play, handle: Node, number: int) -> None:
    """Move a handle by its keys, told by the number that is shown beneath it."""

    def shown() -> int:
        below = [n for n in play.all("generic", "label") if re.fullmatch(r"-?\d+", n.name)]
        near = min(below, key=lambda n: abs(n.box[1] - handle.box[1] - 20))
        return int(near.name)

    play.click(handle)
    far = number - shown()
    while far:
        play.do(f"press {handle.id} {'Right' if far > 0 else 'Left'}")
        far = number - shown()


@TABLE.solves("use-spinner", level="medium", steps=20)
def spinner(play: Play) -> None:
    """A spinner, by its arrows."""
    far = int(play.find(r"Select (-?\d+)")[0])
    arrows = [node for node in play.all("button") if node.box[2] < 30]
    up, down = sorted(arrows, key=lambda n: n.box[1])[:2]
    for _ in range(abs(far)):
        play.click(up if far > 0 else down)
    play.submit()


@TABLE.solves("use-autocomplete", "use-autocomplete-nodelay", level="medium", steps=6)
def autocomplete(play: Play) -> None:
    """A country by its start and perhaps its end, from a list that opens."""
    start, *end = play.quoted()
    play.fill(play.all("textbox", "combobox", "searchbox")[0], start)
    for _ in range(10):
        names = [n.name for n in play.all("label") if n.name.startswith(start)]
        if names:
            break
        play.do("wait 0.3")
    fitting = [name for name in names if not end or name.endswith(end[0])]
    if not fitting:
        raise Stuck(f"nothing between {start!r} and {end!r} among {names}")
    play.click(fitting[0])
    play.submit()


@TABLE.solves("multi-orderings", level="medium", steps=6)
def movie_search(play: Play) -> None:
    """A form whose layout differs."""
    genre, name, year = play.find(r"Search for (.*) movies directed by (.*) from year (\d+)")
    wanted = {"genre": genre, "director": name, "year": year}
    for key, value in wanted.items():
        play.fill(_field(play, key), value)
    play.click(play.named("Submit") if play.has("Submit") else play.named("Search"))


def _field(play: Play, key: str) -> Node:
    """Return the field that a label of this word stands beside, above or in."""
    fields = play.all("textbox")
    for node in fields:
        if key in node.name.lower():
            return node
    labels = [n for n in play.all() if n.name.lower().strip(" :") == key]
    if not labels:
        raise Stuck(f"no field {key}")
    left, top = labels[0].box[:2]
    return min(fields, key=lambda n: (abs(n.box[1] - top) + abs(n.box[0] - left)
                                      + (1000 if n.box[1] < top - 12 else 0)))  # fmt: skip
