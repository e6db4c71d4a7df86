"""Desktops in their real containers."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from envs import images
from envs.errors import SandboxLost
from envs.gui.checks import FORM_STATE
from envs.gui.desktop import Desktop
from envs.gui.env import DesktopEnv
from envs.gui.tasks import load_tasks, templates
from envs.sandbox.pool import SandboxPool
from envs.types import Task

pytestmark = pytest.mark.docker
TASKS = load_tasks()


@pytest.fixture(scope="module")
def env() -> Iterator[DesktopEnv]:
    images.ensure("gui")
    with SandboxPool(run_id="test-gui", max_idle=1) as pool:
        world = DesktopEnv(TASKS, pool, observe="both")
        yield world
        world.close()


def first(family: str) -> Task:
    return next(task for task in TASKS if task.family == family)


def desktop(env: DesktopEnv) -> Desktop:
    assert env._desktop is not None
    return env._desktop


def test_the_set_is_large_and_its_splits_share_no_template_word():
    """A held-out template in training would make the report's held-out column a lie."""
    assert len(TASKS) >= 200
    assert len({task.id for task in TASKS}) == len(TASKS)
    trained = {task.family for task in TASKS if task.split == "train"}
    unseen = {task.family for task in TASKS if "heldout:template" in task.tags}
    assert unseen and not trained & unseen


@pytest.mark.parametrize("family", [template.name for template in templates()])
def test_the_oracle_solves_its_family(env, family):
    """A task that its own oracle cannot solve teaches nothing but noise."""
    task = first(family)
    env.reset(options={"task": task})
    for action in env.oracle(task):
        _, reward, terminated, _, info = env.step(action)
    assert terminated
    assert reward == 1.0, info["verdict"].detail


def test_any_text_is_typed_as_it_is(env):
    """Letters outside the keyboard's map are typed too: lost ones would be the agent's failure."""
    task, text = first("write_file"), "naïve Straße ≠ 日本語 ~{}|\\ \U0001f600 end"
    check = {**task.data["checks"][0], "text": text}
    env.reset(options={"task": replace(task, data={**task.data, "checks": [check]})})
    env.step(f"type {text}")
    env.step("key ctrl+s")
    *_, info = env.step("done")
    assert info["verdict"].reward == 1.0, info["verdict"].detail


def test_bad_actions_are_told_and_change_nothing(env):
    """Outside the screen, unknown keys and nonsense are observations, never a crash."""
    task = first("fill_form")
    before, _ = env.reset(options={"task": task})
    for action in ("click 5000 5", "key hyper", "click 99", "dance", ""):
        seen, reward, *_ = env.step(action)
        assert seen["error"]
        assert seen["tree"] == before["tree"]
        assert reward == 0
        assert seen in env.observation_space


def test_a_window_that_the_agent_closed_is_told(env):
    """The task is lost then, and the verdict says so: 0, not an error of the world."""
    env.reset(options={"task": first("fill_form")})
    seen, *_ = env.step("key alt+f4")
    seen, *_ = env.step("wait 0.5") if not seen["error"] else (seen,)
    assert "ended" in seen["error"]
    _, reward, terminated, _, _ = env.step("done")
    assert terminated and reward == 0


def test_an_x_server_that_dies_is_a_failure_of_the_world(env):
    """A reward of 0 for it would be a wrong reward; the next reset starts a new one."""
    env.reset(options={"task": first("press_button")})
    desktop(env).sandbox.exec(["pkill", "-KILL", "Xvfb"])
    with pytest.raises(SandboxLost):
        env.step("click 1")
    seen, _ = env.reset(options={"task": first("press_button")})
    assert "button" in seen["tree"]


def test_a_state_that_the_form_did_not_write_earns_nothing(env):
    """An editor that saves over the form's file would otherwise fill in any form at once."""
    task = first("press_button")
    goal = task.data["checks"][0]
    env.reset(options={"task": task})
    sandbox = desktop(env).sandbox
    form = sandbox.exec(["pgrep", "-f", "form.py"]).output.split()[0]
    assert sandbox.exec(["cat", f"/proc/{form}/environ"]).exit_code != 0  # nobody looks into it
    state = json.dumps({"pressed": goal["pressed"], "values": goal["values"]})
    old = sandbox.read_file(FORM_STATE).decode().splitlines()
    sandbox.write_file(FORM_STATE, f"{state}\n{old[1]}\n".encode())
    *_, info = env.step("done")
    assert info["verdict"].reward == 0.0
    assert "somebody else" in info["verdict"].detail


def test_fail_is_no_success(env):
    """Giving up on a task that can be done earns nothing, also where it is done already."""
    task = first("press_button")
    env.reset(options={"task": task})
    env.step(env.oracle(task)[0])
    _, reward, terminated, _, _ = env.step("fail")
    assert terminated and reward == 0
