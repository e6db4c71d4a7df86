"""Terminal tasks in real sandboxes: fair, open to other right solutions, closed to tricks."""

from collections.abc import Iterator
from typing import Any

import pytest

from envs.core import SUBMIT
from envs.errors import SetupError, TaskError, VerifierError
from envs.sandbox.pool import SandboxPool
from envs.tasks.validation import summary, validate_task
from envs.terminal import checks
from envs.terminal.draw import Draft, Template
from envs.terminal.env import TerminalEnv
from envs.terminal.tasks import draw_drafts, task_of, templates
from envs.types import Split, Task, TaskLimits, Verdict

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def env() -> Iterator[TerminalEnv]:
    with SandboxPool(run_id="test-terminal") as pool:
        env = TerminalEnv([task([], {}, instruction="Nothing.")], pool)
        yield env
        env.close()


def task(
    goal: list[checks.Check],
    files: dict[str, Any],
    *,
    instruction: str = "See the checks.",
    **data: Any,
) -> Task:
    return Task(
        "terminal/test/0000",
        "terminal",
        "test",
        "train",
        instruction,
        limits=TaskLimits(step_timeout_s=3.0),
        data={"checks": goal, "files": files, **data},
    )


def play(env: TerminalEnv, task: Task, *commands: str) -> Verdict:
    env.reset(options={"task": task})
    for command in commands:
        env.step(command)
    *_, info = env.step(SUBMIT)
    verdict: Verdict = info["verdict"]
    return verdict


def drafts(seed: int) -> Iterator[tuple[Template, Split, Draft]]:
    for template in templates():
        split: Split = "heldout" if template.heldout else "train"
        for draft in draw_drafts(template, split, 1, seed):
            yield template, split, draft


def test_one_task_of_every_template_is_fair(env: TerminalEnv) -> None:
    """Doing nothing earns 0, the oracle 1, on parameters drawn for this test alone."""
    findings = [
        validate_task(env, task_of(template, draft, split, 1), times=1)
        for template, split, draft in drafts(seed=99)
    ]
    assert list(summary(findings))[:-1] == []


def test_other_right_solutions_earn_the_reward(env: TerminalEnv) -> None:
    """Bug prevented: a verifier that knows one way of writing a count, a listing, an archive."""
    failures, played = [], 0
    for template, split, draft in drafts(seed=7):
        for commands in draft.alternatives:
            verdict = play(env, task_of(template, draft, split, 1), *commands)
            played += 1
            if not verdict.solved:
                failures.append((draft.instruction, commands, verdict.detail))
    assert failures == []
    assert played > 60


@pytest.mark.parametrize(
    ("family", "command"),
    [
        ("copy_file", "mv {0} {1}"),
        ("copy_file", "ln {0} {1}"),
        ("copy_file", "ln -s {0} {1}"),
        ("rename_file", "cp {0} {1}"),
        ("count_lines", "wc -l {0} > {1}"),
        ("count_lines", "wc -w < {0} > {1}"),
        ("sort_lines", "sort -r {0} > {1}"),
        ("sort_lines", "sort -o {0} {0}; cp {0} {1}"),
        ("first_lines", "cp {0} {1}"),
        ("to_uppercase", "cp {0} {1}"),
    ],
)
def test_wrong_solutions_earn_nothing(env: TerminalEnv, family: str, command: str) -> None:
    template = next(t for t in templates() if t.name == family)
    draft = next(draw_drafts(template, "train", 1, seed=5))
    source = next(iter(draft.files))
    target = next(c["path"] for c in draft.checks if c["path"] != source)
    verdict = play(env, task_of(template, draft, "train", 1), command.format(source, target))
    assert verdict.reward == 0.0


GOAL = [checks.file("out", "right")]


@pytest.mark.parametrize(
    "trick",
    [
        "mkfifo out",
        "ln -s /dev/zero out",
        "ln -s out out",
        "truncate -s 60G out || true",
        "head -c 30M /dev/zero > out",
        "printf '\\377\\376' > out",
        "printf right > other; ln -s other out",
        "mkdir out",
        "printf right > out; chmod 000 out",
        "printf 'def open(*a): pass' > json.py; printf right > outt",
        "mkdir -p ~/.local/lib/python3.11/site-packages; echo 'raise SystemExit(0)' > "
        "~/.local/lib/python3.11/site-packages/usercustomize.py",
        "(while :; do pkill -9 python3; done) > /dev/null 2>&1 &",
        "python3 -c 'import time\nwhile True: time.sleep(1)' &",
        "for i in $(seq 90); do sleep 60 & done",
        "export PYTHONSTARTUP=/workspace/x PYTHONPATH=/workspace; alias python3=true; PATH=/tmp",
        "head -c 80M /dev/urandom > fill; true",
        "printf right > out; chmod 000 /workspace",
        "chmod 000 /tmp ~ /run /dev/shm",
        "python3 -c 'import ctypes; c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p\n"
        "for _ in range(99):\n i = c.shmget(0, 16 << 20, 950)\n"
        " i < 0 or ctypes.memset(c.shmat(i, None, 0), 1, 16 << 20)'",
        "mkdir $'\\xff' && cd $'\\xff' && exit",
    ],
)
@pytest.mark.parametrize("finish", ["submit", "solved"])
def test_tricks_earn_0_and_never_an_error(env: TerminalEnv, trick: str, finish: Any) -> None:
    env.finish = finish
    try:
        assert play(env, task(GOAL, {}), trick).reward == 0.0
    finally:
        env.finish = "submit"


def test_a_program_that_is_run_cannot_forge_the_verdict(env: TerminalEnv) -> None:
    """Bug prevented: a script started by the verifier writes the verifier's own output."""
    goal = [checks.runs(["p"], "42"), checks.file("never", "x")]
    forge = '#!/bin/bash\\nfor p in /proc/[0-9]*; do echo [[true,""],[true,""]] > $p/fd/1; done'
    verdict = play(env, task(goal, {}), f"printf '{forge}' > p; chmod +x p", "./p")
    assert verdict.reward == 0.0
    kill = "#!/bin/bash\\nkill -9 -1 $PPID\\necho 42"
    assert play(env, task(goal[:1], {}), f"printf '{kill}' > p; chmod +x p").reward == 0.0


@pytest.mark.parametrize("body", ["sleep 100", "yes", "cat /dev/zero", "exit 3", "printf '\\377'"])
def test_bad_programs_earn_0(env: TerminalEnv, body: str) -> None:
    script = {"p": {"text": f"#!/bin/sh\n{body}\n", "mode": "755"}}
    assert play(env, task([checks.runs(["p"], "42")], script)).reward == 0.0


def test_programs_get_arguments_and_input(env: TerminalEnv) -> None:
    script = {"p": {"text": '#!/bin/sh\necho "$1|$2"; cat; exit 3\n', "mode": "755"}}
    goal = checks.runs(["p", "a b", "*"], "a b|*\nin", stdin="in", exit_code=3)
    assert play(env, task([goal], script)).solved


def test_partial_credit_counts_goals_and_a_broken_guard_voids_it(env: TerminalEnv) -> None:
    files = {"keep": "k\n"}
    goal = [checks.file("a", "1"), checks.file("b", "2"), *checks.unchanged(files)]
    half = task(goal, files, partial=True)
    assert play(env, half).reward == 0.0
    assert play(env, half, "echo 1 > a").reward == 0.5
    assert play(env, half, "echo 1 > a; rm keep").reward == 0.0
    assert play(env, half, "echo 1 > a; echo 2 > b").solved
    assert play(env, task(goal, files), "echo 1 > a").reward == 0.0


def test_a_task_with_a_mistake_is_an_error_and_no_reward(env: TerminalEnv) -> None:
    with pytest.raises(VerifierError, match="no verdict"):
        play(env, task([{"kind": "file", "path": "x", "text": "", "how": "?"}], {"x": ""}))
    for mistake in ([], [{"kind": "fiel", "path": "x"}], [{"kind": "runs", "path": "x"}]):
        with pytest.raises(TaskError, match="check"):
            play(env, task(mistake, {}))
    with pytest.raises(SetupError, match="files not written"):
        play(env, task(GOAL, {"/proc/x": "y"}))
    with pytest.raises(SetupError, match="set-up ended with 4"):
        play(env, task(GOAL, {}, setup="exit 4"))


def test_set_up_writes_what_the_task_says(env: TerminalEnv) -> None:
    files = {
        "a/b.txt": "text\n",
        "raw": {"base64": "//4=", "mode": "600"},
        "d": {"dir": True, "mode": "700"},
        "l": {"link": "a/b.txt"},
    }
    env.reset(options={"task": task(GOAL, files, setup="echo made > by_setup")})
    observation, *_ = env.step(
        "cat l by_setup; stat -c '%a %n' a a/b.txt raw d; od -An -tx1 raw; pwd"
    )
    expected = "text\nmade\n755 a\n644 a/b.txt\n600 raw\n700 d\n ff fe\n/workspace\n"
    assert observation["output"] == expected


def test_processes_are_judged_while_they_live(env: TerminalEnv) -> None:
    goal = [checks.process(["sleep", "4321"], running=True)]
    assert play(env, task(goal, {}), "sleep 4321 &").solved
    assert not play(env, task(goal, {}), "sleep 43210 &").solved
    gone = [checks.process(["sleep", "77"], running=False)]
    start = task(gone, {}, setup="(sleep 1; exec setsid sleep 77) &")  # late, as on a busy machine
    assert not play(env, start).solved
    assert play(env, start, "pkill sleep").solved
