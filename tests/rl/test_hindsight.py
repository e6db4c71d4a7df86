"""What followed a turn of an environment becomes scores, process scores and hints."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.consequence import Consequence
from agents.types import Episode, Turn
from rl import metrics
from rl.config import validate
from rl.controller import Controller
from rl.hindsight import FAILED, MISSED, Hindsight, last_line
from rl.judge.pipeline import build
from rl.judge.settings import JudgeConfig
from rl.judge.types import Exchange, Judgement
from rl.metrics import Metrics
from rl.store import Store
from rl.tasksets import TaskSets
from rl.teacher import Inserter, Teacher
from serving.models import resolve
from serving.renderer import Renderer
from tests.rl.fleets import FakeFleet
from tests.rl.records import episode, turn
from tests.rl.test_controller import HELD, TASKS


class Reader:
    def decode(self, token_ids: Sequence[int]) -> str:
        return " ".join(map(str, token_ids))


class Insert:
    """Says 7 before the last token."""

    def __call__(self, prompt_ids_P: Sequence[int], text: str) -> list[int]:
        return [*prompt_ids_P[:-1], 7, *prompt_ids_P[-1:]]


class Asked:
    """A judge that says one thing, and remembers what it saw."""

    def __init__(self, judgement: Judgement) -> None:
        self.judgement = judgement
        self.exchanges: list[Exchange] = []

    async def __call__(self, exchange: Exchange) -> Judgement:
        self.exchanges.append(exchange)
        return self.judgement


def step(action: str | None = "ls", observation: str = "a.txt", **changes: Any) -> Turn:
    made = turn([1, 2, 3], [4, 5])
    return replace(made, text=action or "?", action=action, observation=observation, **changes)


def source(
    store: Store, judge: Any = None, gap: float = -9.0, fleet: FakeFleet | None = None
) -> Hindsight:
    async def score(rows: Sequence[Sequence[int]], temperature: float) -> list[list[float]]:
        return [[gap] * (len(row) - 1) for row in rows]

    judge = judge or build(JudgeConfig(model="rules"))
    likeliest = partial(fleet.likeliest, num_likeliest=3) if fleet else None
    teacher = Teacher(score, 64, likeliest)
    return Hindsight(judge, teacher, Insert(), Reader(), store)  # type: ignore[arg-type]


def found(folder: Path, played: Episode, **options: Any) -> dict[int, Any]:
    with Store(folder) as store:
        store.append(played, "train")
        hindsight = source(store, **options)
        asyncio.run(hindsight.prepare([played.group_id]))
        return dict(hindsight(played))


def test_failures_of_the_world_are_bad_turns_and_hints(tmp_path: Path) -> None:
    """An exit code, a stated error and a reply without action each speak for themselves."""
    played = episode(
        [
            step("fo", "bash: line 1: fo: command not found\n[exit code 127]"),
            step("click 9", "tree", consequence=Consequence("no element 9 is visible")),
            step(None, "[Give exactly one ```bash block; found 0.]", parse_error="found no block"),
            step("ls", "a.txt"),
            step("grep x a.txt", "[exit code 1]"),  # an answer, not a failure
            step("true", "done"),
        ],
        reward=1.0,
    )
    signals = found(tmp_path, played)
    assert [signals[i].score for i in range(6)] == [-1, -1, -1, 0, 0, 1]
    assert [signals[i].process for i in range(6)] == [-1, -1, -1, 0, 0, 0]
    hints = [[hint.text for hint in signals[i].hints] for i in range(6)]
    assert hints[0] == [FAILED.format(words="bash: line 1: fo: command not found")]
    assert hints[1] == [FAILED.format(words="no element 9 is visible")]
    assert hints[2] == [FAILED.format(words="found no block")]
    assert hints[3:] == [[], [], []]
    assert signals[0].hints[0].teacher_logprobs_T == (-9.0, -9.0)


def test_the_verdict_is_the_next_state_of_the_last_turn(tmp_path: Path) -> None:
    missing = Consequence(verdict="out.txt: 2 lines, not 3")
    for name, reward, score in (("a.m0", 0.0, -1), ("b.m0", 0.4, 0), ("c.m0", 1.0, 1)):
        played = episode([step(), step("wc", "2", consequence=missing)], reward=reward, name=name)
        signals = found(tmp_path / name, played)
        assert (signals[0].score, signals[1].score) == (0, score)
        assert signals[1].process == 0  # the outcome is not counted twice
        words = [hint.text for hint in signals[1].hints]
        assert words == ([MISSED.format(words=missing.verdict)] if score == -1 else [])


def test_a_verdict_that_tells_the_answer_is_no_hint(tmp_path: Path) -> None:
    told = Consequence(verdict="the right answer is 42, yours is 41")
    signals = found(tmp_path, episode([step("answer: 41", "", consequence=told)], reward=0.0))
    assert signals[0].score == -1 and signals[0].hints == ()


def test_the_worlds_own_scores_and_hints_come_first(tmp_path: Path) -> None:
    own = Consequence(process=0.5, hint="Write without bold, the reader asked for it.")
    signals = found(tmp_path, episode([step(consequence=own), step()], reward=0.0))
    assert signals[0].process == 0.5
    assert [hint.text for hint in signals[0].hints] == [own.hint]


def test_a_judge_sees_the_action_as_a_call_and_is_asked_once(tmp_path: Path) -> None:
    judge = Asked(Judgement(-1, 0.7, "wrong file", "model", "Look into b.txt instead of a.txt."))
    played = episode([step("cat a.txt", "no"), step("cat b.txt", "yes")], reward=1.0)
    with Store(tmp_path) as store:
        store.append(played, "train")
        first = source(store, judge)
        asyncio.run(first.prepare([played.group_id]))
        (exchange,) = judge.exchanges  # the last turn has a verdict
        assert (
            exchange.reply["tool_calls"][0]["function"]["arguments"] == '{"command": "cat a.txt"}'
        )
        assert exchange.next_state == ({"role": "tool", "content": "no"},)
        assert exchange.history == ({"role": "user", "content": "1 2 3"},)
        signal = first(played)[0]
        assert (signal.score, signal.confidence, signal.process) == (-1, 0.7, -1)
        again = source(store, judge)  # after a restart
        asyncio.run(again.prepare([played.group_id]))
        assert len(judge.exchanges) == 1
        assert again(played)[0].hints[0].teacher_logprobs_T == (-9.0, -9.0)


def test_hints_that_do_not_speak_against_the_reply_are_left_out(tmp_path: Path) -> None:
    played = episode([step("fo", "bash: fo: command not found\n[exit code 127]")], reward=0.0)
    with Store(tmp_path) as store:
        store.append(played, "train")
        hindsight = source(store, gap=-0.01)
        counts = asyncio.run(hindsight.prepare([played.group_id]))
        assert counts == {"hint_unverified": 1, "bad": 1}
        assert hindsight(played)[0].hints == ()


@pytest.mark.parametrize("name", ["stepwise", "binary", "opd", "opd_topk", "hybrid"])
def test_methods_that_learn_from_next_states_train_in_environments(
    tmp_path: Path, name: str
) -> None:
    """A whole run: every turn of the batch is heard, and what the method made of it is trained."""

    def play(assignment: Any) -> Episode:
        bad = int(assignment.episode_id[-1]) % 2
        turns = [step("fo", "bash: fo: command not found\n[exit code 127]") if bad else step()]
        made = episode([*turns, step("true", "")], reward=1.0 - bad, name=assignment.episode_id)
        return replace(made, group_id=assignment.group_id, task_id=assignment.task.id)

    config = validate({
        "env": "terminal",
        "algorithm": {"name": name},
        "rollout": {"groups_per_step": 2, "group_size": 4, "min_group": 2},
        "optim": {"steps": 2},
    })  # fmt: skip
    fleet, log = FakeFleet(play), Metrics(tmp_path)
    with Store(tmp_path) as store:
        tasks = TaskSets(TASKS, HELD)
        hindsight = source(store, fleet=fleet if name == "opd_topk" else None)
        run = Controller(config, tmp_path, fleet, tasks, store, log, hindsight)
        asyncio.run(run.run())
        log.close()
        assert len(fleet.trained) == 2 and all(fleet.trained)
        assert set(store.signals("g000000.m1")) == {0, 1}
    rows = [row for row in metrics.read(tmp_path) if row["phase"] == "hindsight"]
    assert [row["step"] for row in rows] == [1, 2]
    assert rows[0]["bad"] == 8 and rows[0]["good"] == 4 and rows[0]["taught"] == 4


def test_last_line_passes_over_notes() -> None:
    trace = 'Traceback (most recent call last):\n  File "x"\nValueError: no\n\n[exit code 1]\n'
    assert last_line(trace) == "ValueError: no"
    assert last_line("[no output]") == "" == last_line("")
    tar = "tar: invalid option -- 'D'\nTry 'tar --help' or 'tar --usage' for more information."
    assert last_line(tar) == "tar: invalid option -- 'D'"


@pytest.mark.model
def test_a_hint_is_put_in_token_by_token() -> None:
    """What was sampled and seen keeps its ids; the hint stands where the user could have said it.
    Bug prevented: a prompt rendered again is another prompt, and its teacher answers that."""
    renderer = Renderer(resolve("smollm2-135m"))
    insert = Inserter(renderer)
    messages = [
        {"role": "system", "content": "You solve tasks."},
        {"role": "user", "content": "List files."},
        {"role": "assistant", "content": "ls  -x"},
        {"role": "user", "content": "ls: bad option"},
    ]
    prompt = renderer.render(messages).ids_P
    hinted = insert(prompt, "[Hint]\nUse -l. <|im_end|>")
    assert hinted is not None
    told = [
        *messages[:-1],
        {"role": "user", "content": "ls: bad option\n\n[Hint]\nUse -l. <|im_end|>"},
    ]
    assert renderer.decode(hinted) == renderer.decode(renderer.render(told).ids_P)
    size = len(insert._closing)
    assert tuple(hinted[: len(prompt) - size]) == prompt[:-size]
    assert insert(prompt[:-1], "hint") is None
    assert np.count_nonzero(np.asarray(hinted) == prompt[-size]) == 4  # a name of it is only text
