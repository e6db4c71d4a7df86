"""Pages solved by places and drags on a picture."""

import math
import re

from envs.browser.miniwob.play import Play, Stuck
from envs.browser.miniwob.solvers.table import Table
from envs.gui.tree import Node

TABLE = Table()


@TABLE.solves("circle-center", level="easy", steps=4)
def center(play: Play) -> None:
    """The centre of a circle."""
    x, y = play.all("circle")[0].center
    play.do(f"click {x} {y}")
    play.submit()


@TABLE.solves("find-midpoint", level="medium", steps=4)
def midpoint(play: Play) -> None:
    """The point between two points."""
    (ax, ay), (bx, by) = (node.center for node in play.all("circle")[:2])
    play.do(f"click {round((ax + bx) / 2)} {round((ay + by) / 2)}")
    play.submit()


@TABLE.solves("bisect-angle", level="hard", steps=4)
def bisect(play: Play) -> None:
    """A point on the line that halves an angle."""
    circles = play.all("circle")
    corner = next(n for n in circles if n.name == "blue").center
    ends = [node.center for node in circles if node.name != "blue"]
    angles = [math.atan2(y - corner[1], x - corner[0]) for x, y in ends]
    x = sum(math.cos(angle) for angle in angles)
    y = sum(math.sin(angle) for angle in angles)
    length = math.hypot(x, y) or 1.0
    play.do(f"click {round(corner[0] + 40 * x / length)} {round(corner[1] + 40 * y / length)}")
    play.submit()


@TABLE.solves("draw-line", level="medium", steps=4)
def line(play: Play) -> None:
    """A line through a dot."""
    x, y = play.all("circle")[0].center
    way = "drag {0} {1} {0} {2}" if "vertical" in play.goal else "drag {1} {0} {2} {0}"
    if "vertical" in play.goal:
        play.do(way.format(x, y - 30, y + 30))
    else:
        play.do(way.format(y, max(x - 30, 5), min(x + 30, 155)))
    play.submit()


@TABLE.solves("drag-circle", "drag-single-shape", level="easy", steps=4)
def push(play: Play) -> None:
    """A shape to be moved one way."""
    x, y = play.all("circle", "rect", "polygon", "text")[0].center
    dx, dy = {"left": (-40, 0), "right": (40, 0), "up": (0, -30), "down": (0, 30)}[
        play.find(r"(left|right|up|down) then")[0]
    ]
    play.do(f"drag {x} {y} {x + dx} {y + dy}")
    play.submit()


@TABLE.solves("drag-shapes", level="hard", steps=10)
def into_box(play: Play) -> None:
    """All shapes of a kind into a box."""
    kind = {"circles": "circle", "rectangles": "rect", "triangles": "polygon"}[
        play.find(r"all (\w+) into")[0]
    ]
    shapes = play.all("circle", "rect", "polygon")
    box, shapes = shapes[-1], shapes[:-1]
    for place, node in enumerate(n for n in shapes if n.role == kind):
        _drag(play, node, box.box[0] + 20 + 20 * (place % 4), box.center[1])
    play.submit()


@TABLE.solves("drag-shapes-2", level="hard", steps=12)
def into_boxes(play: Play) -> None:
    """Shapes of a kind or colour into one box, the others into another."""
    word, side = play.find(r"all (\w+)(?: shapes)? into the (left|right) box")
    kinds = {"circles": "circle", "rectangles": "rect", "triangles": "polygon"}
    shapes = play.all("circle", "rect", "polygon")
    boxes, shapes = sorted(shapes[-2:], key=lambda n: n.box[0]), shapes[:-2]
    near = boxes[0 if side == "left" else 1]
    far = boxes[1 if side == "left" else 0]
    color = {"aqua": "cyan"}.get(word, word)
    for node in shapes:
        fits = node.role == kinds[word] if word in kinds else node.name == color
        box = near if fits else far
        _drag(play, node, *box.center)
    play.submit()


def _drag(play: Play, node: Node, x: int, y: int) -> None:
    play.do(f"drag {node.center[0]} {node.center[1]} {x} {y}")


@TABLE.solves("drag-sort-numbers", level="hard", steps=12)
def sort(play: Play) -> None:
    """Numbers to be sorted."""
    for place in range(5):
        rows = _rows(play, r"-?\d+")
        ordered = sorted(rows, key=lambda n: int(n.name))
        if rows == ordered:
            break
        if rows[place] is not ordered[place]:
            _move_row(play, ordered[place], rows[place])
    play.submit()


@TABLE.solves("drag-items", level="medium", steps=6)
def item(play: Play) -> None:
    """An item to a place of a list."""
    name, place = play.find(r"Drag (.+) to the (\d)")
    rows = _rows(play, r"[A-Z].*")
    _move_row(play, next(n for n in rows if n.name == name), rows[int(place) - 1])


def _rows(play: Play, pattern: str) -> list[Node]:
    found = [n for n in play.all("label", "generic") if re.fullmatch(pattern, n.name)]
    return sorted(found, key=lambda n: n.box[1])


def _move_row(play: Play, node: Node, target: Node) -> None:
    """Sortable lists swap when the middle of a neighbour is passed: go a little farther."""
    x, y = node.center
    beyond = 8 if target.center[1] > y else -8
    play.do(f"drag {x} {y} {x} {target.center[1] + beyond}")


@TABLE.solves("drag-items-grid", level="hard", steps=6)
def grid_item(play: Play) -> None:
    """An item to a place of a grid."""
    name, where = play.find(r"Drag (.+?) ((?:to the|up|down|left|right) .+)\.")
    words = where.split()
    nodes = [n for n in play.all("label", "generic") if n.name and n.box[1] > 50]
    tops = sorted({n.box[1] for n in nodes})[:3]
    lefts = sorted({n.box[0] for n in nodes})[:3]
    moved = next(n for n in nodes if n.name == name)
    column = 0 if "left" in words else 2 if "right" in words else 1
    row = 0 if "top" in words else 2 if "bottom" in words else 1
    if "by" in words:
        column = lefts.index(moved.box[0]) + ("right" in words) - ("left" in words)
        row = tops.index(moved.box[1]) + ("down" in words) - ("up" in words)
    x, y = moved.center
    dx, dy = lefts[column] - moved.box[0], tops[row] - moved.box[1]
    play.do(f"drag {x} {y} {x + _beyond(dx)} {y + _beyond(dy)}")


def _beyond(far: int) -> int:
    return far + (6 if far > 0 else -6 if far < 0 else 0)


@TABLE.solves("drag-box", level="medium", steps=5)
def box(play: Play) -> None:
    """A small box into a large one."""
    small = next(n for n in play.all("label", "generic") if n.name == "s")
    large = next(n for n in play.all("label", "generic") if n.name == "L")
    x, y = small.center
    dx, dy = large.box[0] - small.box[0] + 15, large.box[1] - small.box[1] + 15
    play.do(f"drag {x} {y} {x + dx} {y + dy}")
    play.submit()


@TABLE.solves("resize-textarea", level="hard", steps=6)
def resize(play: Play) -> None:
    """A text area to be made larger or smaller by its corner."""
    area = play.all("textbox")[0]
    left, top, width, height = area.box
    x, y = left + width - 4, top + height - 4
    goal = play.goal.lower()
    far = -25 if "smaller" in goal else 25
    dx, dy = (far, 0) if "width" in goal else (0, far)
    play.do(f"drag {x} {y} {x + dx} {y + dy}")
    play.submit()


@TABLE.solves("hot-cold", level="hard", steps=60)
def hot(play: Play) -> None:
    """The hot spot, felt by the mouse."""
    best: tuple[int, int] | None = None
    ranks = {"ICE COLD": 0, "COLD": 1, "WARM": 2, "HOT": 3}

    def feel(x: int, y: int) -> int:
        play.do(f"hover {x} {y}")
        said = [n.name for n in play.all("label", "generic", "box")]
        return max((ranks[name] for name in said if name in ranks), default=-1)

    spots = [(x, y) for y in range(75, 175, 42) for x in range(25, 160, 45)]
    for step, wanted in ((0, 1), (16, 2), (6, 3)):
        if step and best is not None:
            bx, by = best
            ring = range(-2, 3)
            spots = sorted(((bx + i * step, by + j * step) for i in ring for j in ring),
                           key=lambda p: math.hypot(p[0] - bx, p[1] - by))  # fmt: skip
        for x, y in spots:
            if 2 < x < 158 and 52 < y < 174 and (rank := feel(x, y)) >= wanted:
                best = (x, y)
                if rank == 3:
                    play.do(f"click {x} {y}")
                break
    raise Stuck("no hot spot was found")
