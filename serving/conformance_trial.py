"""What the checks of ``serving.conformance`` share: an engine on trial, asked and waited for."""

import functools
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .engine import Engine, OnToken, Ticket
from .errors import EngineError, RequestRefused
from .types import Generation, Sampling, Token


class NotOffered(Exception):
    """A check does not apply to this engine; the message says why."""


@dataclass(frozen=True)
class Terms:
    """What the checks need to know besides the contract.

    Attributes:
        folder: the model in HF layout.
        tolerance: most that two computations of one log-prob may differ by.
        wait_s: longest wait for an answer.
        long_tokens: tokens of a reply long enough to do something in its middle.
    """

    folder: Path
    tolerance: float = 1e-3
    wait_s: float = 60.0
    long_tokens: int = 400


class Trial:
    """An engine under check, with the means the checks share."""

    def __init__(self, engine: Engine, terms: Terms, scratch: Path) -> None:
        self.engine = engine
        self.terms = terms
        self.scratch = scratch
        self.vocab = int(json.loads((terms.folder / "config.json").read_text())["vocab_size"])

    def prompt(self, seed: int = 0, num: int = 40) -> list[int]:
        """Return a prompt of ordinary ids; another seed gives another from the first id on."""
        picked = random.Random(seed)
        return [picked.randrange(self.vocab // 4, self.vocab * 3 // 4) for _ in range(num)]

    def ask(self, prompt: Sequence[int], on_token: OnToken | None = None, **fields: Any) -> Ticket:
        """Submit; unless told otherwise 12 tokens, seed 1, past end tokens."""
        given = {"max_tokens": 12, "seed": 1, "ignore_end": True, **fields}
        return self.engine.submit(prompt, Sampling(**given), on_token)

    def wait(self, ticket: Ticket) -> Generation:
        """Return its result."""
        try:
            return ticket.future.result(self.terms.wait_s)
        except TimeoutError:
            raise AssertionError(f"no answer in {self.terms.wait_s:g} s") from None

    def run(self, prompt: Sequence[int], **fields: Any) -> Generation:
        """Submit and wait."""
        return self.wait(self.ask(prompt, **fields))

    def start_long(self, seed: int = 0, **fields: Any) -> tuple[Ticket, list[Token]]:
        """Start a long reply and return when its first tokens were told, with all told so far."""
        told: list[Token] = []
        begun = threading.Event()

        def listen(token: Token) -> None:
            told.append(token)
            if len(told) == 3:
                begun.set()
            time.sleep(0.001)  # long enough, also for an engine that is fast

        ticket = self.ask(
            self.prompt(seed), listen, **{"max_tokens": self.terms.long_tokens, **fields}
        )
        assert begun.wait(self.terms.wait_s), "no token told while the reply was sampled"
        return ticket, told

    def scores(
        self, prompt: Sequence[int], sampled: Generation, temperature: float = 1, adapter: str = ""
    ) -> list[float]:
        """Return the engine's own log-probs of what it sampled."""
        ids = [[*prompt, *sampled.token_ids_T]]
        found = self.engine.score(ids, temperature, adapter).result(self.terms.wait_s)
        return found[0][len(prompt) - 1 :]

    def expect_near(self, seen: Sequence[float], wanted: Sequence[float], what: str) -> None:
        """Fail unless two lists of log-probs are equal within the tolerance."""
        assert len(seen) == len(wanted), f"{what}: {len(seen)} numbers, not {len(wanted)}"
        worst = max((abs(a - b) for a, b in zip(seen, wanted, strict=True)), default=0.0)
        assert worst <= self.terms.tolerance, f"{what}: differ by {worst:.2g}"

    def is_near(self, seen: Sequence[float], wanted: Sequence[float]) -> bool:
        """Return whether two lists of log-probs are equal within the tolerance."""
        pairs = zip(seen, wanted, strict=True)
        return all(abs(a - b) <= self.terms.tolerance for a, b in pairs)

    def expect_refused(self, why: str, field: str = "", **fields: Any) -> None:
        """Fail unless the request is refused, naming the field."""
        prompt = fields.pop("prompt", self.prompt())
        try:
            self.ask(prompt, **fields)
        except RequestRefused as error:
            assert not field or error.field == field, f"{why}: names {error.field!r}, not {field!r}"
        else:
            raise AssertionError(f"{why} was not refused")

    def expect_engine_error(
        self, why: str, action: Callable[..., object], *arguments: object
    ) -> None:
        """Fail unless the action raises ``EngineError``."""
        try:
            action(*arguments)
        except EngineError:
            return
        raise AssertionError(f"{why} was accepted")

    def need(self, ability: str, **fields: Any) -> None:
        """Leave the check where an ability is not offered; then its use must be refused."""
        if ability not in self.engine.can:
            self.expect_refused(f"{ability}, not offered,", **fields)
            raise NotOffered(f"{ability} is not in can; requests for it are refused")

    @functools.cached_property
    def _files(self) -> dict[str, Path]:
        """Names of the folder's tensors and the files they lie in."""
        from safetensors import safe_open

        found = {}
        for path in self.terms.folder.glob("*.safetensors"):
            with safe_open(path, framework="pt") as opened:
                found.update(dict.fromkeys(opened.keys(), path))
        return found

    def matrix(self, part: str = "down_proj") -> tuple[str, Any]:
        """Return a matrix of the first layer, on which later keys and values depend, by name."""
        from safetensors import safe_open

        name = min(name for name in self._files if name.endswith(f".{part}.weight"))
        with safe_open(self._files[name], framework="pt") as opened:
            return name, opened.get_tensor(name).float()

    def publish(self, tensors: Mapping[str, Any]) -> Path:
        """Write an update to a file of its own."""
        from .weights import publish

        return publish(tensors, Path(tempfile.mkdtemp(dir=self.scratch)), 0)

    @contextmanager
    def other_weights(self) -> Iterator[int]:
        """Load changed weights under the next version; give it; then put the old ones back."""
        import torch

        name, old = self.matrix()
        version = self.engine.version + 1
        noise = torch.randn(old.shape, generator=torch.Generator().manual_seed(0))
        try:
            self.engine.load(self.publish({name: old + noise * old.std()}), version)
            yield version
        finally:
            self.engine.load(self.publish({name: old}), self.engine.version + 1)

    def adapter(self, seed: int, r: int = 2) -> Path:
        """Write a random adapter in peft's layout."""
        import torch
        from safetensors.torch import save_file

        random_numbers = torch.Generator().manual_seed(seed)
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        tensors = {}
        for part in ("q_proj", "v_proj"):
            name, matrix = self.matrix(part)
            num_out, num_in = matrix.shape
            start = f"base_model.model.{name.removesuffix('.weight')}"
            for half, size in (("A", (r, num_in)), ("B", (num_out, r))):
                tensors[f"{start}.lora_{half}.weight"] = torch.randn(size, generator=random_numbers)
        save_file(tensors, folder / "adapter_model.safetensors")
        config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 2,
                  "target_modules": ["q_proj", "v_proj"], "bias": "none", "lora_dropout": 0.0,
                  "base_model_name_or_path": str(self.terms.folder)}  # fmt: skip
        (folder / "adapter_config.json").write_text(json.dumps(config))
        return folder
