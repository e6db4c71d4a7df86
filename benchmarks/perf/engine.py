"""Tokens per second of the embedded engine against transformers ``generate`` as a static batch.

Same weights, same prompts, same number of new tokens, taken in turn in one process; prompts of 200
tokens, prefill included. ``group`` cases are what a learner asks for: eight samples of each prompt.

Left out: other servers; they are measured through the gateway.
"""

import os
from collections.abc import Sequence
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.perf.rows import Row

PEER = "transformers generate, static batch"
PROMPT_TOKENS = 200
GROUP = 8


def run(quick: bool) -> list[Row]:
    """Return one row per number of requests at once; ``quick`` takes fewer, shorter replies."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from serving.models import resolve

    folder = resolve("smollm2-135m")
    new_tokens, rounds = (16, 1) if quick else (64, 3)
    cases = [(1, 1), (4, 1), (16, 1)] if quick else [(1, 1), (4, 1), (16, 1), (48, 1)]
    cases.append((16 if quick else 48, GROUP))
    contest = _Contest(folder, new_tokens)
    try:
        return [_row(contest, num, group, rounds, new_tokens, quick) for num, group in cases]
    finally:
        contest.close()


def _row(
    contest: "_Contest", num: int, group: int, rounds: int, new_tokens: int, quick: bool
) -> Row:
    ours, peer = [], []
    for turn in range(rounds):
        prompts = contest.prompts(num, group, turn)
        ours.append(contest.ours(prompts))
        peer.append(contest.peer(prompts))
    name = f"{num} at once" + (f", groups of {group}" if group > 1 else "")
    goal = "2x" if num >= 16 else "at least the peer"
    return Row(
        bench="engine",
        case=f"{name}, {new_tokens} new" if quick else name,
        unit="tokens/s",
        ours=median(ours),
        peer=median(peer),
        peer_name=PEER,
        goal=goal,
        better="higher",
    )


class _Contest:
    """Both engines on the same weights."""

    def __init__(self, folder: Any, new_tokens: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        from serving.engine import EngineOptions
        from serving.torch_engine import TorchEngine

        self._torch = torch
        self._new_tokens = new_tokens
        self._engine = TorchEngine(folder, EngineOptions(max_slots=48, max_len=1024))
        self._peer = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._draws = 0
        warm = self.prompts(1, 1, -1)
        self.ours(warm)
        self.peer(warm)

    def prompts(self, num: int, group: int, turn: int) -> list[list[int]]:
        """Return random prompts, never seen before, each ``group`` times."""
        self._draws += 1
        draw = self._torch.Generator().manual_seed(self._draws)
        rows = self._torch.randint(100, 40_000, (num // group, PROMPT_TOKENS), generator=draw)
        return [row for row in rows.tolist() for _ in range(group)]

    def ours(self, prompts: Sequence[Sequence[int]]) -> float:
        """Return sampled tokens per second of wall clock."""
        from serving.types import Sampling

        begun = perf_counter()
        tickets = [
            self._engine.submit(
                prompt, Sampling(max_tokens=self._new_tokens, seed=i, ignore_end=True)
            )
            for i, prompt in enumerate(prompts)
        ]
        sampled = sum(len(ticket.future.result(600).token_ids_T) for ticket in tickets)
        return sampled / (perf_counter() - begun)

    def peer(self, prompts: Sequence[Sequence[int]]) -> float:
        """Return sampled tokens per second of wall clock."""
        ids = self._torch.tensor(prompts)
        begun = perf_counter()
        with self._torch.inference_mode():
            out = self._peer.generate(
                ids,
                attention_mask=self._torch.ones_like(ids),
                do_sample=True,
                top_k=0,
                top_p=1.0,
                max_new_tokens=self._new_tokens,
                min_new_tokens=self._new_tokens,
            )
        sampled = out.shape[0] * (out.shape[1] - ids.shape[1])
        return float(sampled / (perf_counter() - begun))

    def close(self) -> None:
        """Stop our engine."""
        self._engine.close()
