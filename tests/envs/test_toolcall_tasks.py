"""The task set of tool calling: fair, varied, held out for true."""

import re
from collections import Counter

import pytest

from envs.tasks.__main__ import main
from envs.tasks.validation import validate_task
from envs.toolcall.bank.abilities import ABILITIES
from envs.toolcall.bank.chains import CHAINS
from envs.toolcall.bank.families import FAMILIES
from envs.toolcall.env import ToolCallEnv
from envs.toolcall.tasks import load_tasks
from envs.toolcall.worlds.shop.stories import PLOTS
from envs.types import Task

TASKS = load_tasks()
TRAIN = [task for task in TASKS if task.split == "train"]
BY_TEMPLATE = [task for task in TASKS if "heldout:template" in task.tags]
BY_PARAMETERS = [task for task in TASKS if "heldout:parameters" in task.tags]


def is_shop(task: Task) -> bool:
    return bool(task.data["world"] == "shop")


def is_single(task: Task) -> bool:
    return bool(task.data["world"] == "script")


def tools(task: Task) -> set[str]:
    return {row["function"]["name"] for row in task.data.get("tools", ())}


def test_every_task_is_fair() -> None:
    """Nothing earns 0, the solution 1, twice each."""
    env = ToolCallEnv(TASKS)
    findings = [validate_task(env, task, times=1) for task in TASKS]
    assert [finding for finding in findings if finding.reason] == []


def test_the_set_is_the_same_each_time_and_has_hundreds() -> None:
    assert load_tasks() == TASKS
    assert len(TASKS) >= 700 and len({task.id for task in TASKS}) == len(TASKS)
    assert sum(map(is_shop, TASKS)) >= 80
    assert len({task.instruction for task in TASKS}) == len(TASKS)


def test_every_family_is_in_every_split() -> None:
    singles = Counter((t.family, t.split) for t in TASKS if is_single(t))
    assert singles == Counter(
        {(f, s): n for f in FAMILIES for s, n in (("train", 40), ("heldout", 14))}
    )
    assert {t.family for t in TASKS if is_shop(t)} == {f"shop_{plot.name}" for plot in PLOTS}


def test_held_out_templates_are_tools_never_seen() -> None:
    seen = set().union(*map(tools, TRAIN))
    for task in BY_TEMPLATE:
        assert not tools(task) & seen, task.id
    plots = {task.data["template"] for task in TRAIN if not is_single(task)}
    assert not plots & {task.data["template"] for task in BY_TEMPLATE if not is_single(task)}


def test_held_out_parameters_are_values_never_seen() -> None:
    """Bug prevented: a held-out task that asks for what a training task asked for."""
    seen = {value for task in TRAIN for value in task.data["parameters"]}
    for task in (*BY_PARAMETERS, *BY_TEMPLATE):
        assert not set(task.data["parameters"]) & seen, task.id
    known = set().union(*map(tools, TRAIN))
    assert all(tools(task) <= known for task in BY_PARAMETERS)


def test_requests_hold_what_the_calls_need() -> None:
    """Bug prevented: a value that the model could only guess."""
    for task in TASKS:
        if task.family not in ("simple", "choice", "parallel", "ordered", "values"):
            continue
        for row in task.data["expected"]:
            for value in row["arguments"].values():
                assert str(value) in task.instruction, (task.id, value)


def test_what_must_be_asked_for_or_looked_up_is_not_in_the_request() -> None:
    for task in TASKS:
        if task.family == "missing":
            (fact,) = task.data["user"]["facts"]
            values = task.data["expected"][0]["arguments"].values()
            told = [str(value) for value in values if str(value) in fact["says"]]
            assert any(not re.search(rf"(?<!\w){v}(?!\w)", task.instruction) for v in told), task.id
        if task.family in ("sequential", "injected"):
            (ident,) = (
                v for k, v in task.data["expected"][1]["arguments"].items() if k.endswith("_id")
            )
            assert ident not in task.instruction
            assert ident in task.data["expected"][0]["result"].values()


def test_tools_of_the_bank_have_names_of_their_own() -> None:
    names = [each.name for each in ABILITIES]
    names += [each.name for chain in CHAINS for each in (chain.find, chain.act)]
    assert len(set(names)) == len(names)


def test_levels_run_from_trivial_to_hard() -> None:
    for split in ("train", "heldout"):
        levels = {tag for task in TASKS if task.split == split for tag in task.tags}
        assert {f"level:{name}" for name in ("trivial", "easy", "medium", "hard")} <= levels


def test_the_commands_know_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "toolcall"]) == 0
    assert "template" in capsys.readouterr().out
    assert main(["validate", "toolcall", "families=simple,shop_cancel", "limit=8"]) == 0
    assert "8 tasks: 8 fair" in capsys.readouterr().out
