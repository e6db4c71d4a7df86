"""π_T: the serving policy itself, told a hint beforehand (algorithms §2, opd).

Asked when a batch is formed, so that teacher and student are of one version: the student's prompt
with the hint in it, then exactly the sampled ids. Log-probs of the sampled tokens come from the
policy server; the likeliest tokens at each position, which ``opd_topk`` needs, from the trainer,
whose weights are the same. Left out: what is hinted (``rl.hints``), and how the hint gets into a
prompt (``Inserter``, ``rl.live.teacher``).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from rl import hints
from rl.types import TopK, TurnSignal
from serving.errors import ContextOverflow, PolicyError
from serving.renderer import Renderer

log = logging.getLogger(__name__)

# log-probs of the 2nd to last token of each sequence, at a temperature
Score = Callable[[Sequence[Sequence[int]], float], Awaitable[list[list[float]]]]
# the likeliest tokens in place of the last so many of each sequence, at a temperature
Likeliest = Callable[[Sequence[tuple[Sequence[int], int]], float], Awaitable[list[TopK]]]

ATTEMPTS = 5
WAIT_S = 5.0


@dataclass(frozen=True)
class Lesson:
    """A turn with a hint, and the prompt that tells it.

    Attributes:
        signal: of the turn; its first hint is taught.
        prompt_ids_P, token_ids_T, logprobs_T: of the student.
        hinted_P: the prompt with the hint in it.
        temperature: of the sampling.
    """

    signal: TurnSignal
    prompt_ids_P: Sequence[int]
    hinted_P: Sequence[int]
    token_ids_T: Sequence[int]
    logprobs_T: Sequence[float]
    temperature: float


class Teacher:
    """Scores sampled tokens under hinted prompts.

    Args:
        score: asks the policy server.
        max_tokens: longest sequence the engine takes.
        likeliest: asks the trainer; None: the sampled tokens are all that is taught.
        wait_s: before a server that is away is asked again.
    """

    def __init__(
        self,
        score: Score,
        max_tokens: int,
        likeliest: Likeliest | None = None,
        wait_s: float = WAIT_S,
    ) -> None:
        self._score, self._max_tokens = score, max_tokens
        self._likeliest, self._wait_s = likeliest, wait_s

    async def __call__(self, lessons: Sequence[Lesson]) -> tuple[list[TurnSignal], Counter[str]]:
        """Return the signals in order, with the teacher's numbers beside their hint or without it,
        and how many hints went unused, by reason.

        A hint whose teacher does not find the reply of a turn judged bad less likely would teach
        the opposite: it is left out (``unverified``), see ``rl.hints.verify``.
        """
        found = [await self._taught(lesson) for lesson in lessons]
        refused = Counter(f"hint_{reason}" for _, reason in found if reason)
        signals = [signal for signal, _ in found]
        if self._likeliest is not None:
            signals = await self._with_likeliest(self._likeliest, lessons, signals)
        return signals, refused

    async def _taught(self, lesson: Lesson) -> tuple[TurnSignal, str]:
        signal = lesson.signal
        logprobs_T, reason = await self._logprobs(lesson)
        bad = bool(logprobs_T) and signal.score == -1
        if bad and not hints.verify(lesson.logprobs_T, logprobs_T).holds:
            logprobs_T, reason = (), "unverified"
        if not logprobs_T:
            return replace(signal, hints=()), reason
        hint = replace(signal.hints[0], teacher_logprobs_T=logprobs_T)
        return replace(signal, hints=(hint,)), ""

    async def _logprobs(self, lesson: Lesson) -> tuple[tuple[float, ...], str]:
        """Return log π_T of the sampled tokens, or why there are none. A server that is away is
        asked again: an outage delays, for a while, and drops hints only then."""
        sequence = [*lesson.hinted_P, *lesson.token_ids_T]
        if not lesson.token_ids_T:
            return (), "nothing_sampled"
        if len(sequence) > self._max_tokens:
            return (), "too_long"
        for attempt in range(ATTEMPTS):
            try:
                (logprobs,) = await self._score([sequence], lesson.temperature)
                return tuple(logprobs[-len(lesson.token_ids_T) :]), ""
            except ContextOverflow:
                return (), "too_long"
            except PolicyError as error:
                log.warning("the teacher did not answer: %s", error)
                if attempt < ATTEMPTS - 1:
                    await asyncio.sleep(self._wait_s)
        return (), "no_answer"

    async def _with_likeliest(
        self, ask: Likeliest, lessons: Sequence[Lesson], signals: Sequence[TurnSignal]
    ) -> list[TurnSignal]:
        """Add the teacher's and the student's likeliest tokens where a hint is left."""
        by_temperature: dict[float, list[int]] = {}
        for index, signal in enumerate(signals):
            if signal.hints:
                by_temperature.setdefault(lessons[index].temperature, []).append(index)
        done = list(signals)
        for temperature, indices in by_temperature.items():
            sequences = [
                ([*prompt, *lessons[index].token_ids_T], len(lessons[index].token_ids_T))
                for index in indices
                for prompt in (lessons[index].hinted_P, lessons[index].prompt_ids_P)
            ]
            answers = await ask(sequences, temperature)
            for index, teacher, student in zip(indices, answers[::2], answers[1::2], strict=True):
                hint = replace(signals[index].hints[0], topk=teacher)
                done[index] = replace(
                    signals[index], hints=(hint,), student_topk_ids_TK=student.token_ids_TK
                )
        return done


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
