"""The teacher of live conversations: renders them again with the hint in their last message."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rl import hints
from rl.teacher import Lesson, Teacher
from rl.types import Hint, TurnSignal
from serving.errors import RequestRefused
from serving.renderer import Context, Prompt
from serving.turns import Turn
from serving.types import Message

log = logging.getLogger(__name__)


class Renders(Protocol):
    """What is needed of ``serving.renderer.Renderer``."""

    def render(self, messages: Sequence[Message], context: Context = ...) -> Prompt: ...


@dataclass(frozen=True)
class Taught:
    """Signals with the teacher's numbers, and how many hints went unused, by reason."""

    signals: dict[str, TurnSignal]
    refused: Counter[str]


class ChatTeacher:
    """Scores replies of conversations under hinted prompts.

    Args:
        teacher: asked about all of a batch.
        renderer: of the policy's model.
    """

    def __init__(self, teacher: Teacher, renderer: Renders) -> None:
        self._teacher, self._renderer = teacher, renderer

    async def __call__(
        self, asked: Mapping[str, tuple[Turn, Sequence[Message], TurnSignal]]
    ) -> Taught:
        """Return the signals of turns, their hints scored; see ``rl.teacher.Teacher``.

        A hint whose prompt cannot be rendered as the student saw it is left out
        (``not_reproduced``): a conversation whose sampled ids are not those of its words, a forced
        call, options of the template.

        Args:
            asked: by episode id: the turn, the messages it was a reply to, its signal.
        """
        signals: dict[str, TurnSignal] = {}
        refused: Counter[str] = Counter()
        lessons: dict[str, Lesson] = {}
        for name, (turn, history, signal) in asked.items():
            signals[name] = signal
            if not signal.hints:
                continue
            hinted_P, reason = self._hinted(turn, history, signal.hints[0])
            if hinted_P is None:
                refused[f"hint_{reason}"] += 1
                signals[name] = replace(signal, hints=())
                continue
            lessons[name] = Lesson(
                signal,
                turn.prompt_ids_P,
                hinted_P,
                turn.token_ids_T,
                turn.logprobs_T,
                turn.temperature,
            )
        taught, unused = await self._teacher(list(lessons.values()))
        signals |= dict(zip(lessons, taught, strict=True))
        return Taught(signals, refused + unused)

    def _hinted(
        self, turn: Turn, history: Sequence[Message], hint: Hint
    ) -> tuple[Sequence[int] | None, str]:
        """Return the prompt with the hint in it, or None and why not."""
        hinted = hints.hinted_messages(history, hint.text)
        context = Context(tools=turn.tools)
        try:
            if self._renderer.render(history, context).ids_P != tuple(turn.prompt_ids_P):
                return None, "not_reproduced"  # the teacher's prompt must differ by the hint alone
            return self._renderer.render(hinted, context).ids_P, ""
        except (RequestRefused, ValueError) as error:
            log.warning("a hinted prompt cannot be rendered: %s", error)
            return None, "not_rendered"
