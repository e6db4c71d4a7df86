"""Actions of desktops: our language, others' dialects, and what becomes of them."""

import pytest

from envs.gui import dialects
from envs.gui.actions import (
    BadAction,
    Click,
    Done,
    Drag,
    Element,
    Keys,
    Move,
    Named,
    Point,
    Scroll,
    Type,
    Wait,
    parse,
    to_text,
)
from envs.gui.events import events_of
from envs.gui.tree import Node, compact, nodes, render

BUTTON = Node(3, 1, "push button", "Save", None, (10, 20, 80, 30), ("sensitive",))


@pytest.mark.parametrize(
    "action",
    [
        Click(Element(3)),
        Click(Point(120, 45), "left", 2),
        Click(Named('say "hi"'), "right"),
        Click(None),
        Move(Element(1)),
        Drag((Element(3), Point(200, 80))),
        Drag((Point(1, 2), Point(3, 4))),
        Scroll(Element(3), 0, 2),
        Scroll(None, -3, 0),
        Type("hello you"),
        Type(" two\nlines ", Element(4)),
        Type("", Element(4)),
        Type('"quoted"'),
        Type("3 apples"),
        Keys(("ctrl", "s")),
        Keys(("ctrl", "+")),
        Wait(0.5),
        Done(),
    ],
)
def test_an_action_survives_its_text(action):
    """An oracle or a trajectory written down is played as it was meant."""
    assert parse(to_text(action)) == action


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no action"),
        ("jump 3", "choose one of"),
        ("move", "needs a place"),
        ("click 1 2 3", "too much"),
        ("key ctrl+nonsense", "no key"),
        ("wait nan", "seconds"),
        ("wait 99", "seconds"),
        ("scroll down 999", "at most"),
        ("type \x07", "cannot be typed"),
        ("done now", "alone"),
    ],
)
def test_what_is_no_action_is_named(text, told):
    """The agent learns what was wrong; nothing reaches the desktop."""
    with pytest.raises(BadAction, match=told):
        parse(text)


@pytest.mark.parametrize("place", ["click 1024 5", "click 5 768", "click -1 5", "click 9"])
def test_a_place_that_is_not_there_is_refused(place):
    """The X server would clamp it and the click would land somewhere else."""
    with pytest.raises(BadAction, match=r"outside|no element"):
        events_of(parse(place), [BUTTON], 1024, 768)


def test_an_element_is_clicked_in_its_middle():
    """Left and top edge alone may belong to a neighbour."""
    assert events_of(parse("click 3"), [BUTTON], 1024, 768)[0] == ["move", 50, 35]


def test_a_name_that_two_elements_share_is_refused():
    """Taking the first would be a guess."""
    with pytest.raises(BadAction, match="2 elements"):
        events_of(parse('click "Save"'), [BUTTON, BUTTON], 1024, 768)


@pytest.mark.parametrize(
    ("code", "want"),
    [
        ("import pyautogui\npyautogui.click(10, 20)", (Click(Point(10, 20)),)),
        ("pyautogui.click(x=1, y=2, button='right')", (Click(Point(1, 2), "right"),)),
        ("pyautogui.write('a;b'); pyautogui.press('enter')", (Type("a;b"), Keys(("Return",)))),
        ("pyautogui.hotkey('ctrl', 'c')", (Keys(("ctrl", "c")),)),
        ("pyautogui.scroll(-3)", (Scroll(None, 0, 3),)),
        ("DONE", (Done(),)),
    ],
)
def test_pyautogui_code_is_read(code, want):
    """A semicolon inside a string does not cut the code."""
    assert dialects.from_pyautogui(code) == want


@pytest.mark.parametrize(
    "code",
    [
        "__import__('os').system('x')",
        "import os",
        "pyautogui.click(open('x'))",
        "pyautogui.screenshot('/x')",
        "import pyautogui as time",
        "while True: pass",
        "pyautogui.click(",
        "pyautogui.click(1, 2, clicks=10**9)",
    ],
)
def test_pyautogui_code_outside_the_list_is_refused(code):
    """It is read, never run."""
    with pytest.raises(BadAction):
        dialects.from_pyautogui(code)


def test_other_dialects_say_the_same():
    """One click and one chord in each of the three tool formats."""
    click, save = (Click(Point(512, 384)),), (Keys(("ctrl", "s")),)
    assert dialects.from_anthropic({"action": "left_click", "coordinate": [512, 384]}) == click
    assert dialects.from_openai({"type": "click", "x": 512, "y": 384, "button": "left"}) == click
    middle = {"action": "left_click", "coordinate": [500, 500]}
    assert dialects.from_qwen(middle, 1024, 768) == click
    assert dialects.from_anthropic({"action": "key", "text": "ctrl+s"}) == save
    assert dialects.from_openai({"type": "keypress", "keys": ["CTRL", "s"]}) == save
    assert dialects.from_qwen({"action": "key", "keys": ["ctrl", "s"]}, 1024, 768) == save


@pytest.mark.parametrize(
    "row", [{}, {"action": "left_click", "coordinate": "ab"}, {"action": "hold_key"},
            {"action": "mouse_move"}, {"action": "left_click", "coordinate": [float("nan"), 1]}]
)  # fmt: skip
def test_malformed_tool_calls_are_named(row):
    """A model's odd JSON is the agent's fault, not a crash."""
    with pytest.raises(BadAction):
        dialects.from_anthropic(row)


def test_a_tree_loses_what_says_nothing_and_keeps_ids():
    """Ids that moved when a dialog opens would make the agent click something else."""
    panel = {"id": 1, "depth": 1, "role": "panel", "name": "", "box": [0, 0, 9, 9], "states": []}
    frame = {**panel, "id": 2, "depth": 0, "role": "frame", "name": "W"}
    save = {**panel, "id": 3, "depth": 2, "role": "push button", "name": "Save"}
    more = {**save, "id": 9, "name": "More"}
    ids: dict[int, int] = {}
    first = nodes([frame, panel, save], ids)
    second = nodes([frame, more, panel, save], ids)
    assert [(node.name, node.id, node.depth) for node in first] == [("W", 2, 0), ("Save", 1, 1)]
    assert {node.name: node.id for node in second} == {"W": 2, "Save": 1, "More": 3}


def test_the_short_form_keeps_names_that_look_like_its_own_marks():
    """A button may be called anything, also ` @1,2,3x4`."""
    states = ("focused", "sensitive")
    node = Node(7, 2, "push button", 'a "b" @1,2,3x4', "v\n", (1, 2, 3, 4), states)
    assert compact(render([node])) == '7 button a "b" @1,2,3x4 = v\n focused'


def test_a_number_can_be_filled_in():
    """Bug prevented: ``fill 3 1998`` read as a point, so no field could be given a number."""
    assert parse("fill 3 1998") == Type("1998", Element(3))
    assert parse("fill 3 -5") == Type("-5", Element(3))
    assert parse("fill 10 20 hi") == Type("hi", Point(10, 20))
    street = Type("5 Main Street", Element(3))
    assert parse(to_text(street)) == street
