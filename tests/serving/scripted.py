"""An engine that says what it is told to, in real tokens: for tests of everything above it."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from serving.engine import OnToken
from serving.errors import EngineError
from serving.renderer import Renderer
from serving.types import Generation, Sampling, Token

LOGPROB = -0.5


class Said:
    """A ticket of the scripted engine."""

    def __init__(self) -> None:
        self.future: Future[Generation] = Future()
        self.cancelled = threading.Event()

    def cancel(self) -> None:
        self.cancelled.set()


class ScriptedEngine:
    """Answers the k-th request with the k-th text of a script, an end token behind it.

    Args:
        renderer: whose tokens it uses.
        texts: the script; its last text is repeated. An exception in it fails that request after
            its first three tokens.

    Attributes:
        prompts: prompt ids of every request.
        gate: tokens beyond the first wait until it is set.
    """

    def __init__(self, renderer: Renderer, *texts: str | Exception) -> None:
        self._renderer = renderer
        self._texts = texts
        self._lock = threading.Lock()
        self.prompts: list[tuple[int, ...]] = []
        self.samplings: list[Sampling] = []
        self.gate = threading.Event()
        self.gate.set()
        self.version = 7
        self.max_len = 4096
        self.can: frozenset[str] = frozenset({"json_schema", "top_logprobs", "adapters"})
        self.loaded: dict[str, int] = {}

    def submit(
        self, prompt_ids: Sequence[int], sampling: Sampling, on_token: OnToken | None = None
    ) -> Said:
        with self._lock:
            text = self._texts[min(len(self.prompts), len(self._texts) - 1)]
            self.prompts.append(tuple(prompt_ids))
            self.samplings.append(sampling)
        ticket = Said()
        threading.Thread(
            target=self._speak, args=(ticket, text, sampling, on_token), daemon=True
        ).start()
        return ticket

    def _speak(
        self, ticket: Said, text: str | Exception, sampling: Sampling, on_token: OnToken | None
    ) -> None:
        fails = isinstance(text, Exception)
        ids = self._renderer.encode("abc" if fails else str(text))
        if not fails:
            ids.append(min(self._renderer.end_ids))
        ids = ids[: sampling.max_tokens]
        said: list[int] = []
        for token_id in ids:
            if said:
                self.gate.wait(30)
            if ticket.cancelled.is_set():
                break
            said.append(token_id)
            if on_token is not None:
                on_token(Token(token_id, LOGPROB, self.version))
        if not ticket.future.set_running_or_notify_cancel():
            return
        if fails:
            ticket.future.set_exception(EngineError(str(text)))
            return
        ended = said and said[-1] in self._renderer.end_ids
        reason: Any = "cancelled" if ticket.cancelled.is_set() else "stop" if ended else "length"
        ticket.future.set_result(
            Generation(tuple(said), (LOGPROB,) * len(said), (self.version,) * len(said), reason)
        )

    def score(
        self, ids: Sequence[Sequence[int]], temperature: float = 1.0, adapter: str = ""
    ) -> "Future[list[list[float]]]":
        scores: Future[list[list[float]]] = Future()
        scores.set_result([[LOGPROB] * (len(row) - 1) for row in ids])
        return scores

    def load(self, update: Path, version: int) -> None:
        self.version = version

    def load_adapter(self, name: str, path: Path, version: int) -> None:
        self.loaded[name] = version

    def unload_adapter(self, name: str) -> None:
        self.loaded.pop(name, None)

    def adapters(self) -> Mapping[str, int]:
        return self.loaded

    def pause(self) -> None:
        self.gate.clear()

    def resume(self) -> None:
        self.gate.set()

    def stats(self) -> dict[str, Any]:
        return {"version": self.version, "closed": False}

    def close(self) -> None:
        self.gate.set()
