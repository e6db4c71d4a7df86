"""Policies without a model: they say what they were told to, in the tokens the model would use.

``ScriptedPolicy`` plays oracle trajectories (demonstrations for a warm start) and drives tests. Its
replies carry real token ids but no log-probs: nothing was sampled, and a policy gradient refuses
such turns.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from serving.types import Generation, Message, Reply, Sampling

if TYPE_CHECKING:
    from serving.renderer import Renderer

_PROBE = "\u2402end\u2403"


class ScriptedPolicy:
    """Says the given replies in order, then the last one for ever.

    Args:
        replies: what to say; at least one.
        renderer: gives the tokens; without one the ids are empty.
    """

    def __init__(self, replies: Sequence[str], renderer: "Renderer | None" = None) -> None:
        if not replies:
            raise ValueError("a script needs at least one reply")
        self.replies = list(replies)
        self.renderer = renderer
        self._said = 0
        self._last: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        session: str,
        sampling: Sampling,
        timeout_s: float | None = None,
    ) -> Reply:
        """Return the next reply of the script."""
        text = self.replies[min(self._said, len(self.replies) - 1)]
        self._said += 1
        prompt: tuple[int, ...] = ()
        tokens: tuple[int, ...] = ()
        if self.renderer is not None:
            prompt = self._prompt(self.renderer, messages)
            tokens = (*self.renderer.encode_content(text), *_end(self.renderer, messages))
            self._last = (prompt, tokens)
        generation = Generation(tokens, (), (), "stop")
        return Reply(f"scripted-{session}-{self._said}", text, prompt, generation)

    def _prompt(self, renderer: "Renderer", messages: Sequence[Message]) -> tuple[int, ...]:
        """Continue the last turn token for token, as the gateway does for a session."""
        if self._last is None:
            return renderer.render(messages).ids_P
        said_at = max(i for i, m in enumerate(messages) if m["role"] == "assistant")
        return renderer.continue_from(messages, said_at, *self._last).ids_P


def _end(renderer: "Renderer", messages: Sequence[Message]) -> list[int]:
    """Return the end-of-turn token that the template writes after a reply, if it writes one."""
    probe: list[Message] = [*messages, {"role": "assistant", "content": _PROBE}]
    tail = renderer.text([*probe, {"role": "user", "content": ""}]).partition(_PROBE)[2]
    first = renderer.encode(tail)[:1]
    return first if first and first[0] in renderer.end_ids else []
