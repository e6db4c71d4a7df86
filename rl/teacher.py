"""π_T: the serving policy itself, told a hint beforehand (algorithms §2, opd).

Asked when a batch is formed, so that teacher and student are of one version: the student's prompt
with the hint in it, then exactly the sampled ids. Left out: what is hinted (``rl.hints``), and how
the hint gets into the prompt of a conversation (``rl.live.teacher``).
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from rl.types import Hint
from serving.errors import ContextOverflow, PolicyError
from serving.renderer import Renderer

log = logging.getLogger(__name__)

Score = Callable[[Sequence[Sequence[int]], float], Awaitable[list[list[float]]]]


class Teacher:
    """Scores sampled tokens under hinted prompts.

    Args:
        score: log-probs of the 2nd to last token of each sequence, at a temperature.
        max_tokens: longest sequence the engine takes.
    """

    def __init__(self, score: Score, max_tokens: int) -> None:
        self._score, self._max_tokens = score, max_tokens

    async def teach(
        self,
        hint: Hint,
        hinted_P: Sequence[int],
        token_ids_T: Sequence[int],
        temperature: float,
    ) -> tuple[Hint | None, str]:
        """Return the hint with the teacher's log-probs, or None and why there are none:
        ``too_long`` for the engine, or ``no_answer`` from it.

        Args:
            hinted_P: the prompt with the hint in it.
            token_ids_T: what was sampled without it.
            temperature: of that sampling.
        """
        sequence = [*hinted_P, *token_ids_T]
        if len(sequence) > self._max_tokens:
            return None, "too_long"
        try:
            (logprobs,) = await self._score([sequence], temperature)
        except ContextOverflow:
            return None, "too_long"
        except PolicyError as error:
            log.warning("the teacher did not answer: %s", error)
            return None, "no_answer"
        return replace(hint, teacher_logprobs_T=tuple(logprobs[-len(token_ids_T) :])), ""


class Inserter:
    """Puts a text at the end of a prompt's last message, token by token: what stands before it
    keeps the very ids that were sampled and seen.

    Args:
        renderer: of the model.
    """

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        one, other = (
            renderer.render([{"role": "user", "content": said}]).ids_P
            for said in ("one", "something else")
        )
        size = 0
        while size < min(len(one), len(other)) and one[-1 - size] == other[-1 - size]:
            size += 1
        self._closing = one[len(one) - size :]

    def __call__(self, prompt_ids_P: Sequence[int], text: str) -> list[int] | None:
        """Return the longer prompt; None when the prompt does not end as one with a message of a
        user does (a call was forced, a thought opened)."""
        size = len(self._closing)
        if not size or tuple(prompt_ids_P[-size:]) != tuple(self._closing):
            return None
        said = self._renderer.encode_content(f"\n\n{text}")
        return [*prompt_ids_P[:-size], *said, *self._closing]
