"""Code as a tool: cells in a real sandbox, and the environment around them."""

from collections.abc import Iterator

import pytest

from envs import registry
from envs.check import check_env
from envs.images import ensure
from envs.sandbox.docker import DockerSandbox
from envs.sandbox.protocol import SandboxSpec
from envs.toolcall.code.env import CodeEnv
from envs.toolcall.code.interpreter import Interpreter
from envs.toolcall.code.tasks import load_tasks

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def sandbox() -> Iterator[DockerSandbox]:
    ensure("python")
    with DockerSandbox(SandboxSpec("python"), run_id="test-code") as made:
        yield made


@pytest.fixture
def python(sandbox: DockerSandbox) -> Iterator[Interpreter]:
    made = Interpreter(sandbox, timeout_s=1.0, output_bytes=2000)
    yield made
    made.close()


def test_state_stays_and_the_last_value_is_shown(python: Interpreter) -> None:
    assert python.run("x = 20\nx * 2").output == "40\n"
    assert python.run("def f(n):\n    return n + x\nprint(f(1))").output == "21\n"
    python.timeout_s = 20.0
    assert python.run("import numpy, sympy; numpy.arange(2).sum() + f(1)").status == "ok"


def test_an_error_names_the_line_and_keeps_the_state(python: Interpreter) -> None:
    python.run("x = 5")
    result = python.run("y = 1\n1 / 0")
    assert result.status == "error" and 'File "<cell>", line 2' in result.output
    assert python.run("x + y").output == "6\n"
    assert python.run("def f(:").status == "error"
    assert "SystemExit" in python.run("exit()").output
    assert python.run("x").output == "5\n"


def test_a_cell_that_hangs_is_interrupted_and_keeps_what_it_did(python: Interpreter) -> None:
    """Bug prevented: one sleep costs the agent all its variables."""
    result = python.run("import time\nx = 7\ntime.sleep(60)")
    assert (result.status, result.state) == ("timed_out", "kept")
    assert "1 s" in result.note and python.run("x").output == "7\n"


def test_what_will_not_stop_is_killed_and_the_state_before_it_stays(python: Interpreter) -> None:
    python.run("x = 7")
    for code in (
        "x = 8\nsum(range(10**13))",  # in C: no interrupt is heard
        "import signal\nsignal.signal(2, signal.SIG_IGN)\nwhile True: x = 8",
    ):
        result = python.run(code)
        assert (result.status, result.state) == ("timed_out", "before"), code
        assert python.run("x").output == "7\n"


def test_a_process_that_dies_leaves_the_state_before_it(python: Interpreter) -> None:
    python.run("x = 7")
    for code in ("import os\nos._exit(3)", "import ctypes\nctypes.string_at(0)"):
        result = python.run(code)
        assert (result.status, result.state) == ("killed", "before"), code
        assert python.run("x").output == "7\n"


def test_memory_has_a_bound_that_is_an_error_of_the_cell(python: Interpreter) -> None:
    python.run("x = 7")
    assert "MemoryError" in python.run("z = [0] * 10**9").output
    assert python.run("x").output == "7\n"


def test_output_is_cut_and_a_flood_ends(python: Interpreter) -> None:
    result = python.run("print('a' * 10_000, 'end')")
    assert result.status == "ok" and result.output_bytes == 10_005
    assert "bytes cut" in result.output and result.output.endswith("end\n")
    assert len(result.output) < 2100
    flood = python.run("while True: print('x' * 1000)")
    assert flood.status == "flooded" and len(flood.output) < 2100
    assert python.run("1").output == "1\n"


def test_killing_everything_loses_the_state_and_says_so(python: Interpreter) -> None:
    python.run("x = 7")
    result = python.run("import os\nos.kill(-1, 9)")
    assert (result.status, result.state) == ("lost", "lost") and "variables are gone" in result.note
    assert "NameError" in python.run("x").output


def test_a_forked_process_is_no_second_interpreter(python: Interpreter) -> None:
    assert python.run("import os\nx = os.fork() == 0").status == "ok"
    assert python.run("x").output == "False\n"


def test_what_was_started_in_a_killed_cell_is_gone(python: Interpreter) -> None:
    """Bug prevented: the process group lives on and eats the processor."""
    python.run(
        "import subprocess\nsubprocess.Popen(['sleep', '1234'])\n"
        "import signal\nsignal.signal(2, signal.SIG_IGN)\nwhile True: pass"
    )
    found = python.run("import subprocess; print(subprocess.getoutput('pgrep -c -x sleep'))")
    assert found.output == "0\n"


def test_too_much_code_is_refused(python: Interpreter) -> None:
    assert python.run("#" * (1 << 20)).status == "refused"


def test_nothing_of_the_trainer_is_visible(
    python: Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAWGYM_API_KEY", "secret-of-the-trainer")
    seen = python.run("import os; print(dict(os.environ)); print(os.listdir('/'))").output
    assert "secret-of-the-trainer" not in seen


def test_the_environment_conforms() -> None:
    registry.register()
    report = check_env(registry.make("code"), num_tasks=2)
    report.raise_if_failed()


def test_an_answer_ends_it_and_cells_do_not() -> None:
    env = registry.make("code", [task for task in load_tasks() if task.family == "mean"][:1])
    assert isinstance(env, CodeEnv)
    try:
        (task,) = env.tasks.values()
        env.reset()
        seen, reward, terminated, truncated, info = env.step(task.data["cell"])
        assert seen["output"] == task.data["answer"] and info["cell"] == "ok"
        assert (reward, terminated, truncated) == (0.0, False, False)
        _, reward, terminated, _, info = env.step("Answer: 1/1000003")
        assert (reward, terminated) == (0.0, True) and info["verdict"].failed == ("answer",)
        env.reset()
        _, reward, terminated, _, _ = env.step(f"answer: {task.data['answer']}")
        assert (reward, terminated) == (1.0, True)
    finally:
        env.close()


def test_one_cell_of_each_topic_prints_the_answer_found_elsewhere(python: Interpreter) -> None:
    """Bug prevented: an answer and a cell that share one mistake are still told apart."""
    from envs.toolcall.code.answers import equal

    by_topic = {task.family: task for task in load_tasks()}
    python.timeout_s = 20.0
    for task in by_topic.values():
        printed, data = python.run(task.data["cell"]).output.strip(), task.data
        assert equal(printed, data["answer"], data["form"], data["names"]), (task.id, printed)
