"""Pages solved by reading: sums, tables, words, shapes that are counted."""

import re

from envs.browser.miniwob.play import Play, Stuck
from envs.browser.miniwob.solvers.table import Table
from envs.gui.tree import Node

TABLE = Table()
SHAPES = ("circle", "rect", "polygon", "text")
SMALL_SHAPE, SMALL_TEXT = 15, 20


def _texts(play: Play) -> list[str]:
    return [node.name for node in play.all("label", "generic", "heading", "cell")]


@TABLE.solves("simple-arithmetic", level="easy", steps=4)
def arithmetic(play: Play) -> None:
    """A sum."""
    left, sign, right = _formula(play, r"(-?\d+)\s*([-+x*×/])\s*(-?\d+)")
    values = {"+": int(left) + int(right), "-": int(left) - int(right)}
    play.fill(play.all("textbox")[0], str(values.get(sign, int(left) * int(right))))
    play.submit()


@TABLE.solves("simple-algebra", level="medium", steps=4)
def algebra(play: Play) -> None:
    """An equation of one unknown."""
    left, sign, right, total = _formula(play, r"(x|\d+) ([-+]) (x|\d+) = (-?\d+)")
    known, result = int(right if left == "x" else left), int(total)
    answers = {"+": result - known, "-": result + known if left == "x" else known - result}
    play.fill(play.all("textbox")[0], str(answers[sign]))
    play.submit()


def _formula(play: Play, pattern: str) -> tuple[str, ...]:
    found = re.search(pattern, " ".join(_texts(play)))
    if not found:
        raise Stuck(f"no formula in {_texts(play)}")
    return found.groups()


@TABLE.solves("text-transform", level="medium", steps=4)
def captcha(play: Play) -> None:
    """Bent letters."""
    letters = [n for n in play.all("generic", "label") if len(n.name) == 1]
    play.fill(play.all("textbox")[0], "".join(node.name for node in letters))
    play.submit()


@TABLE.solves("unicode-test", level="trivial", steps=3)
def foreign_button(play: Play) -> None:
    """A button in another script."""
    play.click(play.quoted()[0], "button")


@TABLE.solves("read-table", level="medium", steps=4)
def table(play: Play) -> None:
    """A value of a table."""
    key = play.find(r"the value of (.*) into")[0]
    play.fill(play.all("textbox")[0], _cells(play)[key])
    play.submit()


@TABLE.solves("read-table-2", level="medium", steps=6)
def two_of_table(play: Play) -> None:
    """Two values of a table."""
    cells = _cells(play)
    keys = [name[:-1] for name in _texts(play) if name.endswith(":") and name[:-1] in cells]
    for place, key in enumerate(keys):
        play.fill(play.all("textbox")[place], cells[key])
    play.submit()


def _cells(play: Play) -> dict[str, str]:
    names = [node.name for node in play.all("cell", "gridcell")]
    return dict(zip(names[::2], names[1::2], strict=False))


@TABLE.solves("find-word", level="medium", steps=4)
def nth_word(play: Play) -> None:
    """The n-th word of a paragraph."""
    place = int(play.find(r"the (\d+)")[0])
    words = " ".join(node.name for node in play.all("label", "generic")).split()
    play.fill(play.all("textbox")[0], words[place - 1].strip(".,"))
    play.submit()


@TABLE.solves("scroll-text", level="medium", steps=4)
def last_word(play: Play) -> None:
    """The last word of a long text."""
    area, field = play.all("textbox")[:2]
    words = (area.value or "").split()
    if not words or len(area.value or "") > 999:
        raise Stuck("the text is longer than is shown")
    play.fill(field, words[-1].strip("."))
    play.submit()


@TABLE.solves("guess-number", level="medium", steps=12)
def guess(play: Play) -> None:
    """A number by halving."""
    low, high = 0, 9
    while low <= high:
        middle = (low + high) // 2
        play.fill(play.all("spinbutton", "textbox")[0], str(middle))
        play.submit()
        said = " ".join(_texts(play))
        low, high = (middle + 1, high) if "higher than" in said else (low, middle - 1)
    raise Stuck("no number is right")


@TABLE.solves("odd-or-even", level="medium", steps=6)
def odd_or_even(play: Play) -> None:
    """Numbers to be marked."""
    numbers = [n for n in play.all("label", "generic") if re.fullmatch(r"-?\d+", n.name)]
    for number in numbers:
        kind = "Odd" if int(number.name) % 2 else "Even"
        play.click(min((n for n in play.all("button") if n.name == kind),
                       key=lambda n: abs(n.center[1] - number.center[1])))  # fmt: skip
    play.submit()


@TABLE.solves("grid-coordinate", level="medium", steps=3)
def grid(play: Play) -> None:
    """A point of a grid of five by five."""
    x, y = (int(part) for part in play.find(r"\((-?\d),(-?\d)\)"))
    points = play.all("circle")
    columns = sorted({node.box[0] for node in points})
    rows = sorted({node.box[1] for node in points})
    play.click(next(n for n in points if n.box[:2] == (columns[x + 2], rows[2 - y])))


@TABLE.solves("count-shape", level="hard", steps=3)
def count(play: Play) -> None:
    """The number of shapes of a kind."""
    found = [node for node in play.all(*SHAPES) if _fits(node, play.goal)]
    play.click(str(len(found)), "button")


@TABLE.solves("click-shape", level="medium", steps=3)
def shape(play: Play) -> None:
    """A shape of a kind."""
    found = [node for node in play.all(*SHAPES) if _fits(node, play.goal)]
    if not found:
        raise Stuck("no such shape")
    play.click(found[0])


COLORS = {"red": "red", "green": "green", "blue": "blue", "aqua": "cyan", "black": "black",
          "magenta": "magenta", "yellow": "yellow"}  # fmt: skip


def _fits(node: Node, goal: str) -> bool:
    words = goal.rstrip("?.").removeprefix("How many ").removeprefix("Click on a ") \
        .removesuffix(" are there").split()  # fmt: skip
    color = node.name.split()[-1]
    letter = node.name.split()[0] if node.role == "text" else ""
    large = node.box[3] > (SMALL_TEXT if letter else SMALL_SHAPE)
    for word in words:
        if word in COLORS:
            right = COLORS[word] == color
        elif word in ("small", "large"):
            right = large == (word == "large")
        else:
            right = _is_kind(node.role, letter, word)
        if not right:
            return False
    return True


def _is_kind(role: str, letter: str, word: str) -> bool:
    kinds = {"circle": "circle", "rectangle": "rect", "triangle": "polygon"}
    plain = word if word in kinds else word.removesuffix("s")
    if plain in ("item", "shape"):
        return plain == "item" or role != "text"
    if plain in kinds:
        return role == kinds[plain]
    if plain in ("digit", "number"):
        return letter.isdigit()
    if plain == "letter":
        return letter.isalpha()
    return letter in (word, plain) and len(letter) == 1


@TABLE.solves("visual-addition", level="medium", steps=4)
def blocks(play: Play) -> None:
    """The number of blocks."""
    found = [node for node in play.all("box") if "addition-block" in node.name]
    play.fill(play.all("textbox")[0], str(len(found)))
    play.submit()


@TABLE.solves("buy-ticket", level="medium", steps=3)
def ticket(play: Play) -> None:
    """The cheapest, dearest, shortest or longest flight."""
    buttons = [node for node in play.all("button") if "$" in node.name]
    flights = []
    for node in buttons:
        near = [n for n in play.all("label", "generic") if re.fullmatch(r"(\d+)h (\d+)m", n.name)
                and n.box[1] < node.box[1]]  # fmt: skip
        hours, minutes = re.findall(r"\d+", near[-1].name)
        flights.append((int(node.name.split("$")[1]), int(hours) * 60 + int(minutes), node))
    by_price = "cost" in play.goal or "expensive" in play.goal or "cheap" in play.goal
    ordered = sorted(flights, key=lambda flight: flight[0] if by_price else flight[1])
    high = any(word in play.goal for word in ("longest", "most expensive", "highest"))
    play.click(ordered[-1 if high else 0][2])
