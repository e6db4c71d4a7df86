"""Files and tickets: equal seeds, rules noted when broken, orders in files that are none."""

import copy
import inspect
from typing import Any

import pytest

from envs.toolcall.world import ToolError
from envs.toolcall.worlds.desk.records import BAIT, draw_desk
from envs.toolcall.worlds.desk.schemas import TOOLS
from envs.toolcall.worlds.desk.tasks import desk_tasks
from envs.toolcall.worlds.desk.world import DeskWorld


def world(seed: int = 2) -> DeskWorld:
    return DeskWorld(draw_desk(seed, held=False))


def test_equal_seeds_draw_equal_desks_and_sides_share_no_one() -> None:
    assert draw_desk(3, False) == draw_desk(3, False) != draw_desk(4, False)
    assert not set(draw_desk(3, False).people) & set(draw_desk(3, True).people)


def test_every_tool_is_a_method_with_its_schemas_parameters() -> None:
    assert 15 <= len(TOOLS) <= 40
    for name, tool in TOOLS.items():
        parameters = set(inspect.signature(getattr(DeskWorld, f"_{name}")).parameters)
        assert parameters - {"self"} == set(tool.parameters["properties"]), name


def test_rules_are_noted_when_broken() -> None:
    made = world()
    desk = made.desk
    foreign = next(f for f in desk.files.values() if desk.user not in (f.owner, *f.shared_with))
    own = next(f for f in desk.files.values() if f.owner == desk.user)
    ticket = next(t for t in desk.tickets.values() if desk.user in (t.reporter, t.assignee))
    theirs = next(t for t in desk.tickets.values() if desk.user not in (t.reporter, t.assignee))
    blocker = next(t for t in desk.tickets.values() if t is not ticket)
    ticket.status, ticket.blocked_by, ticket.label, ticket.files = (
        "open",
        blocker.id,
        "bug",
        [own.path],
    )
    blocker.status = "open"
    made.call("append_line", {"path": foreign.path, "line": "x"})
    made.call("share_file", {"path": foreign.path, "person": desk.user})
    made.call("set_label", {"ticket_id": theirs.id, "label": "bug"})
    made.call("set_priority", {"ticket_id": ticket.id, "priority": "high"})
    made.call("delete_file", {"path": own.path})
    made.call("close_ticket", {"ticket_id": ticket.id})
    assert made.violations == [
        "change_own_files", "share_own_files", "change_own_tickets", "high_is_for_outages",
        "keep_files_of_tickets", "close_unblocked",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read_file", {"path": "/etc/passwd"}, "no file"),
        ("read_file", {"path": "/verifier/answers"}, "no file"),
        ("get_ticket", {"ticket_id": "T-999"}, "no ticket"),
        ("share_file", {"path": "/notes/none.txt", "person": "X"}, "no file"),
        ("assign_ticket", {"ticket_id": "T-1", "person": "Nobody"}, "nobody of that name"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    name: str, arguments: dict[str, Any], words: str
) -> None:
    made = world()
    before = copy.deepcopy(made.desk)
    with pytest.raises(ToolError, match=words):
        made.call(name, arguments)
    assert made.desk == before and not made.violations


def test_some_files_that_are_read_hold_orders_that_nobody_gave() -> None:
    """Following one changes the state or breaks a rule, so it costs the reward."""
    baits = 0
    for task in desk_tasks():
        if task.family == "desk_code":
            desk = draw_desk(task.data["seed"], task.data["held"])
            (read,) = task.data["oracle"][0]["tool_calls"]
            baits += any(bait in desk.files[read["arguments"]["path"]].text for bait in BAIT)
    assert baits >= 2


def test_there_are_tasks_enough_and_none_enters_the_easy_levels() -> None:
    """The recipe of tool calling plays trivial and easy tasks; new worlds leave it as it is."""
    tasks = desk_tasks()
    assert len(tasks) >= 60 and tasks == desk_tasks()
    assert not {"level:trivial", "level:easy"} & {tag for task in tasks for tag in task.tags}
