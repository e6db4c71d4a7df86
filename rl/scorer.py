"""Log-probs of chosen tokens of a packed batch, as a module: the backbone over the tree, then
logits only where loss is, a chunk at a time: [tokens × vocabulary] is never whole.

It is a module because shards of a model are gathered by the call of one (``rl.sharding``).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from rl import attention
from rl.packing import PackedBatch
from rl.types import FloatArray, IntArray
from rl.vision import Vision


@dataclass(frozen=True)
class TokenScores:
    """Per trained token of a packed batch: log-prob at the sampler's temperature, and entropy.

    ``topk_QK``: log-probs of the teachers' likeliest tokens, for the tokens that have a row; None
    without any.
    """

    logprobs_E: torch.Tensor
    entropy_E: torch.Tensor
    topk_QK: torch.Tensor | None = None


class Scorer(torch.nn.Module):
    """A causal language model that scores trees.

    Args:
        model: with or without adapters.
        logit_chunk: rows whose logits exist at once.
        device: of its parameters.
        compute: dtype its parameters have while it computes; None: the one they have now.
    """

    def __init__(
        self, model: Any, logit_chunk: int, device: str, compute: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.logit_chunk, self.device, self.compute = logit_chunk, device, compute
        self.vision: Vision | None = None

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in."""
        found: torch.dtype = self.compute or next(self.model.parameters()).dtype
        return found

    def score(self, batch: PackedBatch) -> TokenScores:
        """Return log-probs and entropies of a batch's trained tokens, with gradients."""
        return TokenScores(*self(batch))

    @torch.no_grad()
    def likeliest(self, batch: PackedBatch, k: int) -> tuple[IntArray, FloatArray]:
        """Return the K likeliest tokens in place of each trained one, and their log-probs."""
        ids_EK, logprobs_EK, _ = self(batch, k)
        return ids_EK.cpu().numpy(), logprobs_EK.double().cpu().numpy()

    def forward(
        self, batch: PackedBatch, k: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Return what ``TokenScores`` holds, or with ``k`` the likeliest tokens, as a tuple: hooks
        look for tensors in those alone."""
        hidden_ND = self._hidden(batch)
        return self._likeliest(hidden_ND, batch, k) if k else self._scores(hidden_ND, batch)

    def base(self) -> Any:
        """Return the model without its wrapper of adapters."""
        return self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model

    def backbone(self) -> Any:
        """Return what turns token ids into hidden states."""
        base = self.base()
        return base.get_decoder() if hasattr(base, "get_decoder") else base.model

    # ------------------------------------------------------------- inside

    def _hidden(self, batch: PackedBatch) -> torch.Tensor:
        """Run the backbone over the tree; [N, hidden]."""
        tree = attention.Tree(batch.blocks, batch.positions_N, self.device, self.dtype)
        ids_1N = torch.from_numpy(batch.token_ids_N)[None].to(self.device)
        if self.vision is not None and batch.images:
            model, seen = self.base().model, self.vision.see(self.base(), batch)
        else:
            model, seen = self.backbone(), {}
            seen["position_ids"] = torch.from_numpy(batch.positions_N)[None].to(self.device)
        output = model(input_ids=ids_1N, attention_mask=None, use_cache=False, tree=tree, **seen)
        hidden: torch.Tensor = output.last_hidden_state[0]
        return hidden

    def _scores(
        self, hidden_ND: torch.Tensor, batch: PackedBatch
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        head_VD = self.base().get_output_embeddings().weight
        keys = np.stack([batch.source_E.astype(np.float64), batch.temperature_E])
        rows, inverse_E = np.unique(keys, axis=1, return_inverse=True)
        source_R = torch.from_numpy(rows[0].astype(np.int64)).to(self.device)
        exact = _precise(hidden_ND.dtype)
        temperature_R = torch.from_numpy(rows[1]).to(self.device, exact)
        row_E = torch.from_numpy(np.asarray(inverse_E).reshape(-1)).to(self.device)
        target_E = torch.from_numpy(batch.target_E).to(self.device)
        row_Q, ids_QK = self._topk(batch, row_E)
        logprobs_E = hidden_ND.new_zeros(len(target_E), dtype=exact)
        entropy_E = hidden_ND.new_zeros(len(target_E), dtype=exact)
        topk_QK = hidden_ND.new_zeros(ids_QK.shape, dtype=exact)
        for start in range(0, len(source_R), self.logit_chunk):
            end = start + self.logit_chunk
            here_E = ((row_E >= start) & (row_E < end)).nonzero()[:, 0]
            here_Q = ((row_Q >= start) & (row_Q < end)).nonzero()[:, 0]
            chunk = (
                hidden_ND[source_R[start:end]],
                head_VD,
                temperature_R[start:end],
                (row_E[here_E] - start, target_E[here_E]),
                (row_Q[here_Q] - start, ids_QK[here_Q]),
            )
            if len(source_R) > self.logit_chunk and torch.is_grad_enabled():
                logprobs, entropy, topk = checkpoint(_chunk_scores, *chunk, use_reentrant=False)
            else:
                logprobs, entropy, topk = _chunk_scores(*chunk)
            logprobs_E = logprobs_E.index_put((here_E,), logprobs)
            entropy_E[here_E] = entropy
            if len(row_Q):
                topk_QK = topk_QK.index_put((here_Q,), topk)
        return logprobs_E, entropy_E, topk_QK if len(row_Q) else None

    def _likeliest(
        self, hidden_ND: torch.Tensor, batch: PackedBatch, k: int
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        head_VD = self.base().get_output_embeddings().weight
        source_E = torch.from_numpy(batch.source_E).to(self.device)
        exact = _precise(hidden_ND.dtype)
        temperature_E = torch.from_numpy(batch.temperature_E).to(self.device, exact)
        ids, logprobs = [], []
        for start in range(0, len(source_E), self.logit_chunk):
            rows = slice(start, start + self.logit_chunk)
            logits_RV = (hidden_ND[source_E[rows]] @ head_VD.T).to(exact)
            logits_RV = logits_RV / temperature_E[rows, None]
            top = logits_RV.topk(min(k, logits_RV.shape[-1]), dim=-1)
            ids.append(top.indices)
            logprobs.append(top.values - torch.logsumexp(logits_RV, -1, keepdim=True))
        return torch.cat(ids), torch.cat(logprobs), None

    def _topk(self, batch: PackedBatch, row_E: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logit row and the wanted tokens of every token with a teacher's top-K."""
        if batch.topk is None:
            none = torch.zeros(0, dtype=torch.int64, device=self.device)
            return none, none.reshape(0, 1)
        with_E = np.flatnonzero(batch.topk_E >= 0)
        ids_QK = torch.from_numpy(batch.topk.token_ids_TK[batch.topk_E[with_E]]).to(self.device)
        return row_E[torch.from_numpy(with_E).to(self.device)], ids_QK


Wanted = tuple[torch.Tensor, torch.Tensor]  # rows of the chunk, and token ids at them


def _chunk_scores(
    hidden_RD: torch.Tensor,
    head_VD: torch.Tensor,
    temperature_R: torch.Tensor,
    targets_E: Wanted,
    topk_Q: Wanted,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    row_E, target_E = targets_E
    row_Q, ids_QK = topk_Q
    logits_RV = (hidden_RD @ head_VD.T).to(temperature_R.dtype) / temperature_R[:, None]
    norm_R = torch.logsumexp(logits_RV, dim=-1)
    logprobs_E = logits_RV[row_E, target_E] - norm_R[row_E]
    topk_QK = logits_RV[row_Q[:, None], ids_QK] - norm_R[row_Q, None]
    with torch.no_grad():
        entropy_R = norm_R - (torch.softmax(logits_RV, -1) * logits_RV).sum(-1)
    return logprobs_E, entropy_R[row_E], topk_QK


def _precise(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of logits: never less than single precision."""
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32
