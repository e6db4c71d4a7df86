"""The teacher of live conversations: renders them again with the hint in their last message."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rl import hints
from rl.teacher import Score, Teacher
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
    """Scores sampled tokens under hinted prompts.

    Args:
        score: log-probs of the 2nd to last token of each sequence, at a temperature.
        renderer: of the policy's model.
        max_tokens: longest sequence the engine takes.
    """

    def __init__(self, score: Score, renderer: Renders, max_tokens: int) -> None:
        self._teacher, self._renderer = Teacher(score, max_tokens), renderer

    async def __call__(
        self, asked: Mapping[str, tuple[Turn, Sequence[Message], TurnSignal]]
    ) -> Taught:
        """Return the signals of turns, their hints scored.

        A hint whose teacher does not find the reply of a turn judged bad less likely would teach
        the opposite: it is left out (``unverified``), see ``rl.hints.verify``. So is one whose
        prompt cannot be rendered as the student saw it (``not_reproduced``): a conversation whose
        sampled ids are not those of its words, a forced call, options of the template.

        Args:
            asked: by episode id: the turn, the messages it was a reply to, its signal.
        """
        signals: dict[str, TurnSignal] = {}
        refused: Counter[str] = Counter()
        for name, (turn, history, signal) in asked.items():
            signals[name] = signal
            if not signal.hints:
                continue
            taught, reason = await self._teach(turn, history, signal.hints[0])
            if taught is not None and signal.score == -1:
                checked = hints.verify(turn.logprobs_T, taught.teacher_logprobs_T)
                if not checked.holds:
                    taught, reason = None, "unverified"
            if taught is None:
                refused[f"hint_{reason}"] += 1
            signals[name] = replace(signal, hints=() if taught is None else (taught,))
        return Taught(signals, refused)

    async def _teach(
        self, turn: Turn, history: Sequence[Message], hint: Hint
    ) -> tuple[Hint | None, str]:
        """Return the hint with the teacher's log-probs, or None and why not."""
        hinted = hints.hinted_messages(history, hint.text)
        context = Context(tools=turn.tools)
        try:
            if self._renderer.render(history, context).ids_P != tuple(turn.prompt_ids_P):
                return None, "not_reproduced"  # the teacher's prompt must differ by the hint alone
            prompt = self._renderer.render(hinted, context).ids_P
        except (RequestRefused, ValueError) as error:
            log.warning("a hinted prompt cannot be rendered: %s", error)
            return None, "not_rendered"
        return await self._teacher.teach(hint, prompt, turn.token_ids_T, turn.temperature)
