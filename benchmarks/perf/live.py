"""What a reply costs while the model that gives it learns: ``python -m benchmarks.perf live``.

A live run (``env=chat``, the 135M model, adapters, a step after two rated replies) is talked to
twice: without ratings, so that nothing is learned, and with a rating after every reply, so that
learning hardly pauses. Replies of equal length are compared, those of the second part that began
and ended while a step was being taken or published.

Left out: a second user, long contexts.
"""

import asyncio
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.perf.rows import Row
from benchmarks.served import Program, RunFailed, serve
from serving.errors import PolicyError
from serving.types import Message, Sampling

REPLY_TOKENS = 24
LONGEST_S = 900.0
SETTINGS = (
    "env=chat", "algorithm=binary", "algorithm.train_truncated=true",
    "judge.model=rules", "chat.batch=2", "chat.feedback_grace_s=0", "checkpoint.every=1000",
)  # fmt: skip
QUESTIONS = (
    "Why is the sky blue in the day and red in the evening?",
    "How do I keep bread fresh for a week?",
    "Tell me how a bicycle stays upright.",
    "What should I see on a first visit to a big museum?",
)


def run(quick: bool) -> list[Row]:
    """Measure. Raises ``RunFailed``."""
    return asyncio.run(measure("smollm2-135m", 20 if quick else 100))


async def measure(model: str, count: int) -> list[Row]:
    """Talk to a live run of a model, ``count`` replies without and with learning."""
    with tempfile.TemporaryDirectory(prefix="clawgym-live-") as root:
        folder = Path(root) / "run"
        async with serve(
            ["rl.train", f"model={model}", f"run={folder}", *SETTINGS], folder
        ) as program:
            talk = Talk(program)
            for _ in range(3):
                await talk.reply(rate=False)
            alone = [(await talk.reply(rate=False))[0] for _ in range(count)]
            learning: list[float] = []
            until = time.monotonic() + LONGEST_S
            while time.monotonic() < until:
                if len(learning) >= count and program.status().get("step"):
                    break
                seconds, was_learning = await talk.reply(rate=True)
                if was_learning:
                    learning.append(seconds)
            steps = int(program.status().get("step", 0))
    if not learning:
        raise RunFailed(f"no reply fell into a step in {LONGEST_S:g} s")
    rows = [
        Row(
            "live", f"reply of {REPLY_TOKENS} tokens while learning, {name}", "ms",
            ours=float(np.quantile(learning, share)) * 1e3,
            peer=float(np.quantile(alone, share)) * 1e3,
            peer_name="the same run while it does not learn", goal=goal,
        )
        for name, share, goal in (("p50", 0.5, "<= 1.3x"), ("p95", 0.95, ""))
    ]  # fmt: skip
    lost = f"requests refused or cut during {steps} steps"
    return [*rows, Row("live", lost, "", float(talk.num_failed), goal="0")]


class Talk:
    """One user after another, each with one question."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._asked = 0
        self.num_failed = 0

    async def reply(self, *, rate: bool) -> tuple[float, bool]:
        """Ask; return the seconds to the whole reply and whether all of them fell into a step."""
        self._asked += 1
        question = f"{QUESTIONS[self._asked % len(QUESTIONS)]} (no. {self._asked})"
        messages: list[Message] = [{"role": "user", "content": question}]
        before, begun = self._program.status(), time.monotonic()
        try:
            reply = await self._program.client.complete(
                messages, session=f"s{self._asked}", sampling=Sampling(max_tokens=REPLY_TOKENS)
            )
        except PolicyError:
            self._program.check()
            self.num_failed += 1
            return 0.0, False
        seconds, after = time.monotonic() - begun, self._program.status()
        if rate:
            await self._program.client.rate(reply.id, 1 if self._asked % 2 else -1)
        whole = len(reply.generation.token_ids_T) == REPLY_TOKENS
        return seconds, bool(whole and before.get("learning") and after.get("learning"))
