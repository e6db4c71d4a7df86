"""What samples tokens from token ids in this process: our engine, and transformers' two ways.

Each takes the same prompts and the same number of new tokens, end tokens sampled past, temperature
1, nothing truncated, and says how many tokens a second it made, prompts included.
"""

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from benchmarks.perf.process import BenchError

LONGEST = 1024  # tokens of a prompt and its reply
MOST_AT_ONCE = 48
BLOCK_TOKENS, NUM_BLOCKS = 256, 128  # of continuous batching's cache; by itself it takes all memory
ANSWER_S = 900.0


class Sampler(Protocol):
    """Something with a name that samples."""

    name: str

    def rate(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> float:
        """Return sampled tokens per second of wall clock."""

    def close(self) -> None:
        """Stop. Idempotent."""


class Ours:
    """The embedded engine.

    Args:
        weights: ``fp32`` or ``int8``.
    """

    def __init__(self, folder: Path, weights: str = "fp32") -> None:
        from serving.embedded.engine import TorchEngine
        from serving.engine import EngineOptions

        self.name = f"weights={weights}"
        options = EngineOptions(max_slots=MOST_AT_ONCE, max_len=LONGEST, weights=weights)
        self.engine = TorchEngine(folder, options)

    def rate(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> float:
        """Return sampled tokens per second of wall clock."""
        begun = perf_counter()
        tickets = [
            self.engine.submit(prompt, sampling(new_tokens, seed))
            for seed, prompt in enumerate(prompts)
        ]
        sampled = sum(len(ticket.future.result(ANSWER_S).token_ids_T) for ticket in tickets)
        return sampled / (perf_counter() - begun)

    def decode_rate(self, prompt: Sequence[int], new_tokens: int) -> float:
        """Return tokens per second of one request, from its first token to its last."""
        times: list[float] = []
        ticket = self.engine.submit(
            prompt, sampling(new_tokens, 0), lambda token: times.append(perf_counter())
        )
        ticket.future.result(ANSWER_S)
        return (len(times) - 1) / (times[-1] - times[0])

    def first_token(self, prompt: Sequence[int]) -> tuple[float, float]:
        """Return seconds to the first token, and the share of the prompt found in the cache."""
        begun = perf_counter()
        ticket = self.engine.submit(prompt, sampling(1, 0))
        generation = ticket.future.result(ANSWER_S)
        return perf_counter() - begun, generation.num_cached / len(prompt)

    def close(self) -> None:
        """Stop the engine."""
        self.engine.close()


class StaticBatch:
    """transformers ``generate``: all prompts of one length, all replies of one length."""

    name = "transformers generate, static batch"

    def __init__(self, folder: Path) -> None:
        self._model = _model(folder)

    def rate(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> float:
        """Return sampled tokens per second of wall clock."""
        import torch

        ids = torch.tensor(prompts)
        begun = perf_counter()
        with torch.inference_mode():
            out = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                top_k=0,
                top_p=1.0,
                max_new_tokens=new_tokens,
                min_new_tokens=new_tokens,
            )
        sampled = out.shape[0] * (out.shape[1] - ids.shape[1])
        return float(sampled / (perf_counter() - begun))

    def close(self) -> None:
        """Nothing runs on."""


class ContinuousBatch:
    """transformers' continuous batching: requests join and leave a running batch.

    Raises:
        BenchError: it does not run here.
    """

    name = "transformers continuous batching"

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import ContinuousBatchingConfig, GenerationConfig

        logging.getLogger("ContinuousBatchingLogger").setLevel(logging.WARNING)
        self._model = _model(folder)
        config = GenerationConfig(do_sample=True, top_k=0, top_p=1.0, eos_token_id=-1)
        room = ContinuousBatchingConfig(
            page_size=BLOCK_TOKENS, num_blocks=NUM_BLOCKS, max_batch_tokens=512
        )
        try:
            with torch.inference_mode():
                self._manager = self._model.init_continuous_batching(
                    generation_config=config, continuous_batching_config=room
                )
                self._manager.start()
        except Exception as error:  # whatever it lacks on this machine
            raise BenchError(f"{self.name}: {type(error).__name__}: {error}") from error

    def rate(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> float:
        """Return sampled tokens per second of wall clock.

        Raises:
            BenchError: a request failed or its thread ended.
        """
        begun = perf_counter()
        self._manager.add_requests(
            inputs=[list(prompt) for prompt in prompts], max_new_tokens=new_tokens
        )
        sampled = num_done = 0
        while num_done < len(prompts):
            result = self._manager.get_result(timeout=1)
            if result is None:
                if not self._manager.is_running() or perf_counter() - begun > ANSWER_S:
                    raise BenchError(f"{self.name} gave no more results")
            elif result.error:
                raise BenchError(f"{self.name}: {result.error}")
            elif result.is_finished():
                num_done += 1
                sampled += len(result.generated_tokens)
        return sampled / (perf_counter() - begun)

    def close(self) -> None:
        """Stop its thread."""
        if self._manager.is_running():
            self._manager.stop(block=True, timeout=60)


def sampling(new_tokens: int, seed: int) -> Any:
    """Return how all sample: to the given length, nothing truncated."""
    from serving.types import Sampling

    return Sampling(max_tokens=new_tokens, seed=seed, ignore_end=True)


def read_bytes(folder: Path) -> int:
    """Return the bytes of fp32 weights that one token reads: all but an embedding of its own."""
    from safetensors import safe_open

    sizes: dict[str, int] = {}
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118  (not a mapping)
                sizes[name] = math.prod(opened.get_slice(name).get_shape())
    if "lm_head.weight" in sizes:
        sizes.pop("model.embed_tokens.weight", None)
    return 4 * sum(sizes.values())


def bandwidth(rounds: int = 5, size_bytes: int = 1 << 29) -> float:
    """Return bytes per second that torch's threads read: the best of a sum and of a copy."""
    import torch

    source = torch.ones(size_bytes // 4)
    target = torch.empty_like(source)
    best = 0.0
    for _ in range(rounds):
        begun = perf_counter()
        source.sum()
        summed = perf_counter()
        target.copy_(source)
        copied = perf_counter()
        best = max(best, size_bytes / (summed - begun), 2 * size_bytes / (copied - summed))
    return best


def _model(folder: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
