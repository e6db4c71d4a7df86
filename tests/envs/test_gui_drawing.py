"""What is drawn onto pictures, and the episodes that become animated pictures."""

import numpy as np
import pytest
from PIL import Image

from envs.browser.actions import Select
from envs.gui.actions import Click, Drag, Element, Named, Point, Type
from envs.gui.drawing import CAPTION_PX, with_action, with_marks
from envs.gui.recording import Recording
from envs.gui.tree import Node

WHITE = np.full((80, 120, 3), 255, np.uint8)
SAVE = Node(3, 0, "button", "Save", None, (20, 20, 40, 20), ("sensitive",))
LABEL = Node(4, 0, "label", "Words", None, (20, 60, 40, 15), ("sensitive",))
FAR = Node(5, 0, "button", "Far", None, (900, 900, 40, 20), ("sensitive",))


def changed(picture: np.ndarray) -> np.ndarray:
    """Where a picture is not white."""
    return (picture != 255).any(axis=2)


def test_marks_stand_on_usable_elements_only():
    """A mark on a label or outside the picture names what cannot be clicked."""
    marked = changed(with_marks(WHITE, [SAVE, LABEL, FAR]))
    assert marked[20:40, 20:60].any() and not marked[45:].any()
    assert (WHITE == 255).all()  # the original is untouched


@pytest.mark.parametrize(
    "action",
    [Click(Element(3)), Click(Point(40, 30)), Type("x", Named("Save")), Select(Element(3), ("a",)),
     Drag((Element(3), Point(100, 70)))],
    ids=lambda action: type(action).__name__,
)  # fmt: skip
def test_an_action_is_drawn_where_it_happens(action):
    """Languages of both environments, by id, name and point."""
    frame = with_action(WHITE, action, [SAVE], "words")
    assert frame.size == (120, 80 + CAPTION_PX)
    drawn = changed(np.asarray(frame)[:80])
    assert drawn[18:42, 18:62].any()


def test_an_action_without_a_place_leaves_the_picture():
    """Also one on an element that is gone, and a caption longer than the picture."""
    for action in (None, Click(Element(99)), Type("x")):
        frame = with_action(WHITE, action, [SAVE], "long " * 100)
        assert not changed(np.asarray(frame)[:80]).any()


@pytest.mark.parametrize("kind", ["webp", "gif"])
def test_an_episode_is_one_file(tmp_path, kind):
    """The second of a task does not overwrite the first; an unfinished one is kept."""
    recording = Recording(tmp_path / "new", kind)
    for _ in range(2):
        recording.begin("gui/a/1")
        recording.add(WHITE, Click(Element(3)), [SAVE], "1  click 3")
        recording.add(None, None, (), "no picture")
        recording.add(WHITE // 2, None, (), "end")
    assert recording.end() is not None and recording.end() is None
    assert [path.name for path in recording.written] == [f"gui_a_1-{n:03d}.{kind}" for n in (0, 1)]
    with Image.open(recording.written[0]) as image:
        assert image.n_frames == 2


def test_other_kinds_are_refused(tmp_path):
    """At once, not after the episode."""
    with pytest.raises(ValueError, match="webp or gif"):
        Recording(tmp_path, "mp4")
