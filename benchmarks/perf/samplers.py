"""What samples tokens from token ids in this process: our engine, and transformers' two ways.

Each takes the same prompts and the same number of new tokens, end tokens sampled past, temperature
1, nothing truncated, and says how many tokens a second it made, prompts included.
"""

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple, Protocol

from benchmarks.perf.process import BenchError

LONGEST = 1024  # tokens of a prompt and its reply
MOST_AT_ONCE = 48
BLOCK_TOKENS, NUM_BLOCKS = 256, 128  # of continuous batching's cache; by itself it takes all memory
ANSWER_S = 900.0


class Rate(NamedTuple):
    """So many a second, by the clock and by the processors' time.

    On a busy machine the clock tells of others' work; the second counts all threads of this
    process.
    """

    wall: float
    cpu: float


class Stopwatch:
    """Times this process from when it is made."""

    def __init__(self) -> None:
        self._begun = perf_counter(), process_time()

    def rate(self, amount: float) -> Rate:
        """Return how fast an amount was made since then."""
        wall, cpu = self._begun
        return Rate(amount / (perf_counter() - wall), amount / max(process_time() - cpu, 1e-9))


class Sampler(Protocol):
    """Something with a name that samples."""

    name: str

    def rate(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> Rate:
        """Return sampled tokens per second."""

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

    def rate(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> Rate:
        """Return sampled tokens per second."""
        watch = Stopwatch()
        tickets = [
            self.engine.submit(prompt, sampling(new_tokens, seed))
            for seed, prompt in enumerate(prompts)
        ]
        sampled = sum(len(ticket.future.result(ANSWER_S).token_ids_T) for ticket in tickets)
        return watch.rate(sampled)

    def decode_rate(self, prompt: Sequence[int], new_tokens: int) -> Rate:
        """Return tokens per second of one request, from its first token to its last."""
        watches: list[Stopwatch] = []
        rates: list[Rate] = []

        def on_token(token: Any) -> None:
            if watches:
                rates[:] = [watches[0].rate(len(watches))]
            watches.append(Stopwatch())

        self.engine.submit(prompt, sampling(new_tokens, 0), on_token).future.result(ANSWER_S)
        return rates[0]

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

    def rate(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> Rate:
        """Return sampled tokens per second."""
        import torch

        ids = torch.tensor(prompts)
        watch = Stopwatch()
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
        return watch.rate(sampled)

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

    def rate(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> Rate:
        """Return sampled tokens per second.

        Raises:
            BenchError: a request failed or its thread ended.
        """
        begun, watch = perf_counter(), Stopwatch()
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
        return watch.rate(sampled)

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


def bandwidth(rounds: int = 5, size_bytes: int = 1 << 29) -> Rate:
    """Return bytes per second that torch's threads read: the best of a sum and of a copy."""
    import torch

    source = torch.ones(size_bytes // 4)
    target = torch.empty_like(source)
    rates: list[Rate] = []
    for _ in range(rounds):
        watch = Stopwatch()
        source.sum()
        rates.append(watch.rate(size_bytes))
        watch = Stopwatch()
        target.copy_(source)
        rates.append(watch.rate(2 * size_bytes))
    return Rate(max(rate.wall for rate in rates), max(rate.cpu for rate in rates))


def _model(folder: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
