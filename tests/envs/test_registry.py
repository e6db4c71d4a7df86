"""The table of environments, Gymnasium's registration, and the conformance check over both."""

import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

from envs import registry
from envs.check import check_env
from envs.core import SUBMIT
from envs.errors import TaskError
from tests.envs.test_core import ListProvider, task


def test_names_and_ids_find_the_same_row() -> None:
    for entry in registry.ENTRIES:
        assert registry.find(entry.name) is registry.find(entry.gym_id) is entry


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(TaskError, match="did you mean 'terminal'"):
        registry.make("termnal")


def test_registering_twice_is_harmless() -> None:
    registry.register()
    registry.register()
    assert {entry.gym_id for entry in registry.ENTRIES} <= set(gymnasium.registry)


def test_a_shared_provider_is_not_closed() -> None:
    provider = ListProvider()
    env = registry.make("terminal", [task()], provider, finish="solved")
    env.close()
    assert provider.closed == 0
    assert env.finish == "solved"


def test_unknown_options_are_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        registry.make("terminal", [task()], ListProvider(), colour=1)


def test_importing_the_registry_loads_no_environment() -> None:
    """Bug prevented: ``import envs.registry`` starts Docker clients and reads task sets."""
    code = (
        "import sys, envs.registry as r, envs.tasks, envs.tasks.loading; r.register();"
        "print([m for m in sys.modules if m.split('.')[0] in ('docker', 'torch', 'ray') or "
        "m.startswith(('envs.terminal', 'envs.swe', 'envs.chat', 'envs.toolcall'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.docker
def test_gymnasium_makes_and_plays_the_terminal() -> None:
    registry.register()
    env = gymnasium.make("clawgym/Terminal-v0")
    try:
        observation, _ = env.reset(seed=3)
        assert observation["instruction"]
        env.step("ls")
        _, reward, terminated, truncated, _ = env.step(SUBMIT)
        assert (reward, terminated, truncated) == (0.0, True, False)
    finally:
        env.close()


@pytest.mark.docker
@pytest.mark.parametrize("name", ["terminal"])
def test_registered_environments_conform(name: str) -> None:
    registry.register()
    report = check_env(gymnasium.make(registry.find(name).gym_id), num_tasks=2)
    report.raise_if_failed()
    assert len(report.passed) == 8


@pytest.mark.docker
def test_the_documented_example_conforms() -> None:
    """Bug prevented: a recipe in the documentation that no longer works."""
    page = (Path(__file__).parents[2] / "docs/adding-an-environment.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    exec("\n".join(blocks), {"__name__": "example"})
