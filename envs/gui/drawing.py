"""What is drawn onto pictures of a screen: a mark on each element, the action that was done.

Marks are the ids of the tree in boxes of a few colours (set-of-marks), so that a model that sees
the picture can say ``click 3``. Coordinates are pixels of the picture.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from envs.gui.actions import Click, Drag, Element, Move, Named, Point, Scroll, Target, Type
from envs.gui.tree import PASSIVE, Node

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

COLORS = ("#c0392b", "#1f618d", "#196f3d", "#7d3c98", "#b9770e", "#117a65")
ACTION = "#e5007d"
CAPTION_PX = 36
MARK_PX = 11


def with_marks(picture: "NDArray[np.uint8]", tree: Sequence[Node]) -> "NDArray[np.uint8]":
    """Return a copy of a picture, height × width × 3, with a mark on each usable element."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.fromarray(picture)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(MARK_PX)
    for node in tree:
        left, top, width, height = node.box
        outside = left >= image.width or top >= image.height or left + width <= 0
        if node.role in PASSIVE or outside or top + height <= 0:
            continue
        color = COLORS[node.id % len(COLORS)]
        draw.rectangle((left, top, left + width - 1, top + height - 1), outline=color)
        text = str(node.id)
        corner = (max(left, 0) + 1, max(top, 0) + 1)
        x0, y0, x1, y1 = draw.textbbox(corner, text, font=font, anchor="lt")
        draw.rectangle((x0 - 1, y0 - 1, x1 + 1, y1 + 1), fill=color)
        draw.text(corner, text, fill="white", font=font, anchor="lt")
    return np.asarray(image, dtype=np.uint8)


def with_action(
    picture: "NDArray[np.uint8]", action: Any, tree: Sequence[Node], caption: str
) -> "Image.Image":
    """Return a picture of an action about to be done, its words on a line beneath.

    Args:
        picture: height × width × 3.
        action: a record of ``envs.gui.actions``, of another language, or None.
        tree: in which its elements are found.
        caption: words; what does not fit is cut.
    """
    from PIL import Image, ImageDraw, ImageFont

    height, width = picture.shape[:2]
    frame = Image.new("RGB", (width, height + CAPTION_PX), "#202020")
    frame.paste(Image.fromarray(picture))
    draw, font = ImageDraw.Draw(frame), ImageFont.load_default(16)
    places = [_box(target, tree) for target in _targets(action)]
    known = [box for box in places if box is not None]
    for left, top, wide, high in known:
        draw.rectangle(
            (left - 2, top - 2, left + wide + 1, top + high + 1), outline=ACTION, width=2
        )
    if len(known) > 1:
        draw.line([_middle(box) for box in known], fill=ACTION, width=2)
    elif known:
        x, y = _middle(known[0])
        draw.ellipse((x - 4, y - 4, x + 4, y + 4), fill=ACTION)
    most = max(int(width / 8.5), 8)
    words = caption.replace("\n", " ")
    draw.text((8, height + 9), words if len(words) <= most else f"{words[: most - 1]}…",
              fill="white", font=font)  # fmt: skip
    return frame


def _targets(action: Any) -> tuple[Target, ...]:
    match action:
        case Drag(path):
            return path
        case Click(target) | Move(target) | Scroll(target) | Type(_, target):
            return () if target is None else (target,)
    target = getattr(action, "target", None)
    return () if target is None else (target,)


def _box(target: Target, tree: Sequence[Node]) -> tuple[int, int, int, int] | None:
    match target:
        case Point(x, y):
            return x - 6, y - 6, 12, 12
        case Element(id=number):
            return next((node.box for node in tree if node.id == number), None)
        case Named(name):
            return next((node.box for node in tree if node.name == name), None)


def _middle(box: tuple[int, int, int, int]) -> tuple[int, int]:
    return box[0] + box[2] // 2, box[1] + box[3] // 2
