"""Log-probs of given tokens, several sequences laid end to end, without the cache.

Axes: ``_N`` tokens of all sequences, ``_V`` vocabulary.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future

import torch
from torch import Tensor

from .calls import fail
from .kv_cache import causal_attention
from .llama import LlamaModel
from .lora import Adapter, step_lora

TOKENS_PER_BATCH = 1024
LOGIT_ROWS = 256  # rows of logits held at once


class ScoreJob:
    """Sequences to score batch by batch, so that decode steps pass in between.

    All log-probs come of one version of the weights: when they change half-way the job starts over
    and then runs to its end in one go, so that frequent loads cannot starve it.
    """

    def __init__(
        self, ids: Sequence[Sequence[int]], temperature: float, adapter: Adapter | None = None
    ) -> None:
        self.future: Future[list[list[float]]] = Future()
        self._ids = ids
        self._temperature = temperature
        self._batches = split_batches(ids)
        self._scores: list[list[float]] = []
        self._adapter = adapter
        self._load: tuple[int, int] | None = None  # which loads of weights the scores come of

    def run(self, model: LlamaModel, load: int) -> bool:
        """Score the next batch; return whether some are left. Errors are the caller's."""
        if self.future.cancelled():
            return False
        try:
            adapter = self._adapter
            if adapter is not None and (gone := adapter.error()) is not None:
                raise gone
            loads = load, 0 if adapter is None else adapter.load
            again = self._load not in (None, loads)
            if again:
                self._batches, self._scores = split_batches(self._ids), []
            self._load = loads
            while self._batches:
                batch = self._batches.popleft()
                self._scores += score_batch(model, batch, self._temperature, adapter)
                if self._batches and not again:
                    return True
        except Exception as error:  # carried to the caller, as an executor does
            fail(self.future, error)
        else:
            if self.future.set_running_or_notify_cancel():
                self.future.set_result(self._scores)
        return False


def split_batches(ids: Sequence[Sequence[int]]) -> deque[list[Sequence[int]]]:
    """Cut a list of sequences, in order, into batches of bounded size (at least one each)."""
    batches: deque[list[Sequence[int]]] = deque()
    total = TOKENS_PER_BATCH
    for row in ids:
        if total + len(row) > TOKENS_PER_BATCH:
            batches.append([])
            total = 0
        batches[-1].append(row)
        total += len(row)
    return batches


def score_batch(
    model: LlamaModel,
    ids: Sequence[Sequence[int]],
    temperature: float,
    adapter: Adapter | None = None,
) -> list[list[float]]:
    """Return for each sequence the log-prob of its 2nd to last token given those before.

    Args:
        temperature: log-probs are of softmax(logits / temperature); 0 counts as 1.
        adapter: None is the base model.
    """
    lengths = [len(row) for row in ids]
    ids_N = torch.tensor([token for row in ids for token in row])
    positions_N = torch.cat([torch.arange(length) for length in lengths])

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        parts = [
            causal_attention(q_row, k_row.transpose(0, 1), v_row.transpose(0, 1), None)
            for q_row, k_row, v_row in zip(
                *(torch.split(part, lengths) for part in (q, k, v)), strict=True
            )
        ]
        return torch.cat(parts)

    lora = step_lora([adapter] * len(ids_N))
    hidden = model.hidden(ids_N, positions_N, attend, lora)
    following_N = ids_N.roll(-1)  # a row's last position is cut below
    scores: list[float] = []
    for rows, targets in zip(
        torch.split(hidden, LOGIT_ROWS), torch.split(following_N, LOGIT_ROWS), strict=True
    ):
        logprobs = torch.log_softmax(model.logits(rows) / (temperature or 1.0), dim=-1)
        scores += logprobs.gather(1, targets.unsqueeze(1)).squeeze(1).tolist()
    result, at = [], 0
    for length in lengths:
        result.append(scores[at : at + length - 1])
        at += length
    return result
