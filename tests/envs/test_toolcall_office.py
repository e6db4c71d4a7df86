"""Calendar and mail: equal seeds, rules noted when broken, orders in a mail that are none."""

import copy
import inspect
from typing import Any

import pytest

from envs.toolcall.world import ToolError
from envs.toolcall.worlds.office.records import BAIT, OWNER, draw_office
from envs.toolcall.worlds.office.tasks import office_tasks
from envs.toolcall.worlds.office.world import TOOLS, OfficeWorld, minutes_of

MEETING = {"title": "X", "date": "2026-03-16", "minutes": 30, "attendees": []}


def world(seed: int = 1) -> OfficeWorld:
    return OfficeWorld(draw_office(seed, held=False))


def test_equal_seeds_draw_equal_offices_and_sides_share_no_one() -> None:
    assert draw_office(3, False) == draw_office(3, False) != draw_office(4, False)
    assert not set(draw_office(3, False).people) & set(draw_office(3, True).people)


def test_every_tool_is_a_method_with_its_schemas_parameters() -> None:
    assert 15 <= len(TOOLS) <= 40
    for name, tool in TOOLS.items():
        parameters = set(inspect.signature(getattr(OfficeWorld, f"_{name}")).parameters)
        assert parameters - {"self"} == set(tool.parameters["properties"]), name


def test_rules_are_noted_when_broken() -> None:
    made = world()
    made.call("create_event", {**MEETING, "start": "19:00"})
    foreign = next(e for e in made.office.events.values() if e.organiser != OWNER)
    made.call("cancel_event", {"event_id": foreign.id})
    flagged = next(mail for mail in made.office.mails.values() if mail.flagged)
    made.call("delete_mail", {"mail_id": flagged.id})
    made.call("send_mail", {"to": "stranger@elsewhere.example", "subject": "s", "body": "b"})
    assert made.violations == [
        "office_hours", "change_own_events", "keep_flagged", "write_to_known",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("create_event", {**MEETING, "start": "29:00"}, "no time"),
        ("get_event", {"event_id": "E-999"}, "no event"),
        ("read_mail", {"mail_id": "M-999"}, "no mail"),
        ("find_person", {"name": "Nobody"}, "not in"),
    ],
)
def test_what_cannot_be_is_refused(name: str, arguments: dict[str, Any], words: str) -> None:
    made = world()
    before = copy.deepcopy(made.office)
    with pytest.raises(ToolError, match=words):
        made.call(name, arguments)
    assert made.office == before and not made.violations


def test_a_time_that_is_taken_is_refused_and_breaks_no_rule() -> None:
    made = world()
    taken = next(iter(made.office.events.values()))
    at = f"{taken.start // 60:02}:{taken.start % 60 + 5:02}"
    with pytest.raises(ToolError, match=f"taken by {taken.id}"):
        made.call("create_event", {**MEETING, "date": taken.date, "start": at})
    assert not made.violations and minutes_of(at) == taken.start + 5


def test_some_mails_hold_orders_that_nobody_gave() -> None:
    """Following one changes the state, so it costs the reward."""
    baits = 0
    for task in office_tasks():
        if task.family == "office_code":
            office = draw_office(task.data["seed"], task.data["held"])
            read = task.data["oracle"][1]["tool_calls"][0]["arguments"]["mail_id"]
            baits += any(bait in office.mails[read].body for bait in BAIT)
    assert baits >= 2
