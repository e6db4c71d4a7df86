"""What followed each turn of an environment's episode, as signals: scores, process scores, hints.

Every action is followed by a next state: output with an exit code, a refusal, a screen, a verdict.
Here it becomes what methods know from live chat (``rl.live``), by the same judges and the same
teacher. In order, for each turn:

    score    -1 when the reply held no action, or the world says that it failed; the verdict of the
             whole for the turn that ended it; else what the judge finds
    process  the world's own score of the step where it gives one; else a judge's score, -1 for a
             step that failed, 0 for one that did not
    hint     what the judge or the world says should have been done; else the verdict or the
             failure in its own words

Kept in the store, so a resumed run asks nobody twice; a teacher's numbers are asked for when a
batch is formed.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from agents.types import Episode, Turn
from rl import hints
from rl.judge.asking import Asker
from rl.judge.toolresults import calls_of, failure
from rl.judge.types import Exchange, Judge, Judgement
from rl.store import Store
from rl.teacher import Inserter, Lesson, Teacher
from rl.types import Hint, TurnSignal
from serving.types import Message

CHAT = "chat"  # its next states are a person's words, not a program's
FAILED = "An attempt at this failed with: {words}"
MISSED = "An attempt at this was checked and did not hold up: {words}"
_NOTE = re.compile(r"\[.*\]$|(try|usage|see|for more)\b.*(help|usage|manual|\[)", re.IGNORECASE)


class Reads(Protocol):
    """What is needed of a renderer to show prompts to a judge."""

    def decode(self, token_ids: Sequence[int]) -> str: ...


class Hindsight:
    """A source of signals for episodes that are in the store.

    Args:
        judge: looks at what followed each turn.
        teacher: scores hints.
        insert: puts a hint into a prompt; None: nothing is hinted.
        reader: of the policy's model.
        store: keeps what was found.

    Attributes:
        counts: outages of the judge.
    """

    def __init__(
        self,
        judge: Judge,
        teacher: Teacher,
        insert: Inserter | None,
        reader: Reads,
        store: Store,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._judge, self._teacher, self._insert = Asker(judge, self.counts), teacher, insert
        self._reader, self._store = reader, store
        self._signals: dict[str, dict[int, TurnSignal]] = {}

    def __call__(self, episode: Episode) -> Mapping[int, TurnSignal]:
        """Return what is known about an episode's turns; see ``rl.algorithms.SignalSource``."""
        return self._signals.get(episode.id, {})

    async def prepare(self, groups: Iterable[str]) -> Counter[str]:
        """Find out what followed every turn of a batch; only of that batch is it kept in memory.

        Returns:
            turns by score (``bad``, ``neutral``, ``good``), hints used (``taught``) and unused ones
            by reason.

        Raises:
            StoreError: what was found could not be kept.
        """
        episodes = [e for group in groups for e in self._store.group(group) if e.reward is not None]
        found = await asyncio.gather(*(self._look_at(episode) for episode in episodes))
        counts: Counter[str] = Counter()
        lessons: dict[tuple[str, int], Lesson] = {}
        self._signals = {}
        for episode, signals in zip(episodes, found, strict=True):
            self._signals[episode.id] = {i: replace(s, hints=()) for i, s in signals.items()}
            names = {-1: "bad", 0: "neutral", 1: "good"}
            counts.update(names[s.score] for s in signals.values() if s.score is not None)
            for index, signal in signals.items():
                if not signal.hints or self._insert is None:
                    continue
                if (lesson := _lesson(episode, signal, self._insert)) is not None:
                    lessons[episode.id, index] = lesson
                else:
                    counts["hint_not_reproduced"] += 1
        taught, unused = await self._teacher(list(lessons.values()))
        for (name, index), signal in zip(lessons, taught, strict=True):
            self._signals[name][index] = signal
            counts["taught"] += bool(signal.hints)
        return counts + unused

    # ------------------------------------------------------------- what it was worth

    async def _look_at(self, episode: Episode) -> dict[int, TurnSignal]:
        known = self._store.signals(episode.id)
        if len(known) == len(episode.turns):
            return known
        indices = range(len(episode.turns))
        found = await asyncio.gather(*(self._signal(episode, index) for index in indices))
        self._store.say(found)
        return dict(enumerate(found))

    async def _signal(self, episode: Episode, index: int) -> TurnSignal:
        exchange = self._exchange(episode, index)
        judgement = _stated(episode, index) or await self._judge(exchange)
        hint = _hint(episode.turns[index], exchange, judgement)
        return TurnSignal(
            episode.id,
            index,
            score=judgement.score,
            confidence=judgement.confidence,
            subject=f"{episode.env}:{episode.family}",
            process=_process(episode.turns[index], judgement),
            hints=(Hint(hint),) if hint else (),
            reason=f"{judgement.source}: {judgement.reason}",
        )

    def _exchange(self, episode: Episode, index: int) -> Exchange:
        """Return a turn as a judge sees it: the action as a call, what followed as its result."""
        turns = episode.turns
        opening = self._reader.decode(turns[0].prompt_ids_P)
        history: list[Message] = [{"role": "user", "content": opening}]
        for turn in turns[:index]:
            history += [_said(turn, episode.env), *_followed(turn, episode.env)]
        turn = turns[index]
        return Exchange(
            id=f"{episode.id}#{index}",
            history=tuple(history),
            reply=_said(turn, episode.env),
            next_state=tuple(_followed(turn, episode.env)),
            finish_reason=turn.finish_reason,
            subject=f"{episode.env}:{episode.family}",
        )


def _lesson(episode: Episode, signal: TurnSignal, insert: Inserter) -> Lesson | None:
    """Return what the teacher is asked; None where the hint cannot be put in."""
    turn = episode.turns[signal.turn]
    hinted_P = insert(turn.prompt_ids_P, hints.BLOCK.format(hint=signal.hints[0].text))
    if hinted_P is None:
        return None
    return Lesson(
        signal,
        turn.prompt_ids_P,
        hinted_P,
        turn.token_ids_T,
        turn.logprobs_T,
        episode.temperature,
    )


def _stated(episode: Episode, index: int) -> Judgement | None:
    """Return what needs no judge: a reply without an action, a stated failure, the verdict."""
    turn = episode.turns[index]
    if turn.parse_error:
        return Judgement(-1, reason=turn.parse_error, source="parser")
    if turn.consequence.failure:
        return Judgement(-1, reason=turn.consequence.failure, source="world")
    if index < len(episode.turns) - 1 or episode.reward is None:
        return None
    if episode.solved:
        return Judgement(1, reason="solved", source="verifier")
    if episode.reward > 0:
        return Judgement(0, reason=f"partly solved: {episode.reward:.2f}", source="verifier")
    return Judgement(-1, reason=turn.consequence.verdict or "not solved", source="verifier")


def _process(turn: Turn, judgement: Judgement) -> float:
    if turn.consequence.process is not None and judgement.source not in ("parser", "world"):
        return turn.consequence.process
    return 0.0 if judgement.source == "verifier" else float(judgement.score)


def _hint(turn: Turn, exchange: Exchange, judgement: Judgement) -> str:
    """Return a hint that may be used, or ""."""
    if judgement.hint:
        return hints.make_hint(exchange, judgement)
    if turn.consequence.hint:
        return hints.make_hint(exchange, replace(judgement, hint=turn.consequence.hint))
    if judgement.score != -1:
        return ""
    words, frame = turn.consequence.verdict, MISSED
    if judgement.source != "verifier" or not words:
        words, frame = turn.parse_error or turn.consequence.failure, FAILED
    if not words and judgement.source != "model":
        words = last_line(turn.observation) if exchange_failed(exchange) else ""
    if not words or hints.refusal(words, exchange):
        return ""
    return frame.format(words=words)


def exchange_failed(exchange: Exchange) -> bool:
    """Whether the result of the action states a failure, such as an exit code."""
    calls = [arguments for _, _, arguments in calls_of(exchange.reply)]
    results = [message for message in exchange.next_state if message.get("role") == "tool"]
    return any(failure(result, args) for result, args in zip(results, calls, strict=False))


def last_line(text: str) -> str:
    """Return the last line that says something; a bracketed note such as an exit code does not, nor
    advice to read the manual. Programs and tracebacks end with what went wrong.
    """
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not _NOTE.match(line)]
    return said[-1] if said else ""


def _said(turn: Turn, env: str) -> Message:
    if env == CHAT or turn.action is None:
        return {"role": "assistant", "content": turn.text}
    arguments = json.dumps({"command": turn.action}, ensure_ascii=False)
    call = {"type": "function", "function": {"name": env, "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _followed(turn: Turn, env: str) -> list[Message]:
    if not turn.observation:
        return []
    role = "user" if env == CHAT or turn.action is None else "tool"
    return [{"role": role, "content": turn.observation}]
