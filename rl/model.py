"""The policy as the trainer holds it: a causal language model from a local folder, fp32 master
weights, optional LoRA, and log-probs of chosen tokens of a packed batch.

Logits exist only where loss is, a chunk at a time: [tokens × vocabulary] is never whole.
Left out: losses and the optimiser (``rl.trainer``), serving (``serving.embedded.engine``).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from rl import attention
from rl.errors import RunError
from rl.packing import PackedBatch
from rl.settings import LoraConfig


@dataclass(frozen=True)
class TokenScores:
    """Per trained token of a packed batch: log-prob at the sampler's temperature, and entropy.

    ``topk_QK``: log-probs of the teachers' likeliest tokens, for the tokens that have a row; None
    without any.
    """

    logprobs_E: torch.Tensor
    entropy_E: torch.Tensor
    topk_QK: torch.Tensor | None = None


class Policy:
    """A causal language model under training.

    Args:
        folder: Hugging Face layout.
        lora: adapters on all linear layers when enabled, else every weight is trained.
        logit_chunk: rows whose logits exist at once.
    """

    def __init__(
        self,
        folder: Path,
        lora: LoraConfig,
        logit_chunk: int = 512,
        activation_checkpointing: bool = False,
        device: str = "cpu",
    ) -> None:
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation=attention.register()
        )
        if activation_checkpointing:
            _recompute_activations(model)
        self.lora = lora
        self.logit_chunk = logit_chunk
        self.device = device
        if lora.enabled:
            model = _with_adapters(model, lora)
        self.model: Any = model.to(device)
        self.model.train()
        self._reference: Any = None
        self.shares_prefixes = not is_recurrent(self.model.config)

    @property
    def trainable(self) -> list[torch.nn.Parameter]:
        """Parameters the optimiser updates."""
        return [p for p in self.model.parameters() if p.requires_grad]

    @property
    def context(self) -> int | None:
        """Most tokens of a sequence; None where the model does not say."""
        limit = getattr(self.model.config, "max_position_embeddings", None)
        return int(limit) if limit is not None else None

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        found: torch.dtype = next(iter(self.model.parameters())).dtype
        return found

    @property
    def repeatable(self) -> bool:
        """Whether two forwards of the same weights give the same numbers: no dropout is active."""
        attention = getattr(self.model.config, "attention_dropout", 0.0) or 0.0
        layers = (m.p for m in self.model.modules() if isinstance(m, torch.nn.Dropout))
        return attention == 0.0 and not any(p > 0 for p in layers)

    def score(self, batch: PackedBatch) -> TokenScores:
        """Return log-probs and entropies of a batch's trained tokens, with gradients."""
        hidden_ND = self._hidden(self.model, batch)
        return self._scores(self._head(self.model), hidden_ND, batch)

    @torch.no_grad()
    def reference_logprobs(self, batch: PackedBatch) -> torch.Tensor:
        """Return the start policy's log-probs of the trained tokens.

        Raises:
            RunError: full fine-tuning without ``keep_reference`` before the first step.
        """
        if self.lora.enabled:
            with self.model.disable_adapter():
                hidden_ND = self._hidden(self.model, batch)
                return self._scores(self._head(self.model), hidden_ND, batch).logprobs_E
        if self._reference is None:
            raise RunError("the KL anchor needs keep_reference() before the first step")
        hidden_ND = self._hidden(self._reference, batch)
        return self._scores(self._head(self._reference), hidden_ND, batch).logprobs_E

    def keep_reference(self, folder: Path) -> None:
        """Freeze a copy of the start policy for the KL anchor (full fine-tuning only)."""
        if self.lora.enabled:
            return
        frozen = Policy(folder, LoraConfig(), self.logit_chunk, device=self.device)
        self._reference = frozen.model.eval().requires_grad_(False)

    def weights(self) -> dict[str, torch.Tensor]:
        """Return the full weights under their Hugging Face names, adapters merged in."""
        if not self.lora.enabled:
            state = self.model.state_dict()
            tied = getattr(self.model.config, "tie_word_embeddings", False)
            return {k: v for k, v in state.items() if not (tied and k == "lm_head.weight")}
        with _merged(self.model):
            base = self.model.get_base_model()
            tied = getattr(base.config, "tie_word_embeddings", False)
            return {
                name.replace(".base_layer", ""): tensor.detach().clone()
                for name, tensor in base.state_dict().items()
                if "lora_" not in name and not (tied and name == "lm_head.weight")
            }

    def trainable_state(self) -> dict[str, torch.Tensor]:
        """Return the trained parameters by name, as views."""
        return {n: p.detach() for n, p in self.model.named_parameters() if p.requires_grad}

    def load_trainable(self, state: dict[str, torch.Tensor]) -> None:
        """Copy back what ``trainable_state`` gave.

        Raises:
            RunError: other names or shapes.
        """
        own = self.trainable_state()
        if own.keys() != state.keys():
            odd = sorted(own.keys() ^ state.keys())[:3]
            raise RunError(f"checkpoint and model differ in {odd}: was lora or model changed?")
        with torch.no_grad():
            for name, tensor in state.items():
                own[name].copy_(tensor)

    def save_pretrained(self, folder: Path) -> None:
        """Write the merged model in Hugging Face layout (weights and configuration)."""
        if not self.lora.enabled:
            self.model.save_pretrained(folder)
            return
        from safetensors.torch import save_file

        state = {k: v.contiguous() for k, v in self.weights().items()}
        self.model.get_base_model().config.save_pretrained(folder)
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})

    # ------------------------------------------------------------- inside

    def _backbone(self, model: Any) -> Any:
        base = (
            model.get_base_model() if self.lora.enabled and hasattr(model, "peft_config") else model
        )
        return base.get_decoder() if hasattr(base, "get_decoder") else base.model

    def _head(self, model: Any) -> torch.Tensor:
        base = model.get_base_model() if hasattr(model, "peft_config") else model
        weight: torch.Tensor = base.get_output_embeddings().weight
        return weight

    def _hidden(self, model: Any, batch: PackedBatch) -> torch.Tensor:
        """Run the backbone over the tree; [N, hidden]."""
        tree = attention.Tree(batch.blocks, batch.positions_N, self.device, self.dtype)
        output = self._backbone(model)(
            input_ids=torch.from_numpy(batch.token_ids_N)[None].to(self.device),
            position_ids=torch.from_numpy(batch.positions_N)[None].to(self.device),
            attention_mask=None,
            use_cache=False,
            tree=tree,
        )
        hidden: torch.Tensor = output.last_hidden_state[0]
        return hidden

    def _scores(
        self, head_VD: torch.Tensor, hidden_ND: torch.Tensor, batch: PackedBatch
    ) -> TokenScores:
        keys = np.stack([batch.source_E.astype(np.float64), batch.temperature_E])
        rows, inverse_E = np.unique(keys, axis=1, return_inverse=True)
        source_R = torch.from_numpy(rows[0].astype(np.int64)).to(self.device)
        temperature_R = torch.from_numpy(rows[1]).to(hidden_ND)
        row_E = torch.from_numpy(np.asarray(inverse_E).reshape(-1)).to(self.device)
        target_E = torch.from_numpy(batch.target_E).to(self.device)
        row_Q, ids_QK = self._topk(batch, row_E)
        logprobs_E = hidden_ND.new_zeros(len(target_E))
        entropy_E = hidden_ND.new_zeros(len(target_E))
        topk_QK = hidden_ND.new_zeros(ids_QK.shape)
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
        return TokenScores(logprobs_E, entropy_E, topk_QK if len(row_Q) else None)

    def _topk(self, batch: PackedBatch, row_E: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logit row and the wanted tokens of every token with a teacher's top-K."""
        if batch.topk is None:
            none = torch.zeros(0, dtype=torch.int64, device=self.device)
            return none, none.reshape(0, 1)
        with_E = np.flatnonzero(batch.topk_E >= 0)
        ids_QK = torch.from_numpy(batch.topk.token_ids_TK[batch.topk_E[with_E]]).to(self.device)
        return row_E[torch.from_numpy(with_E).to(self.device)], ids_QK


def _recompute_activations(model: Any) -> None:
    """Keep only layers' inputs; the library renamed its switch."""
    new = getattr(model, "activation_checkpointing_enable", None)
    (new or model.gradient_checkpointing_enable)({"use_reentrant": False})


def is_recurrent(config: Any) -> bool:
    """Whether some layer carries a state along the sequence, which cannot branch: every sample is
    then computed by itself."""
    text = config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ())
    return bool(kinds - {"full_attention", "sliding_attention"})


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
    logits_RV = hidden_RD @ head_VD.T / temperature_R[:, None]
    norm_R = torch.logsumexp(logits_RV, dim=-1)
    logprobs_E = logits_RV[row_E, target_E] - norm_R[row_E]
    topk_QK = logits_RV[row_Q[:, None], ids_QK] - norm_R[row_Q, None]
    with torch.no_grad():
        entropy_R = norm_R - (torch.softmax(logits_RV, -1) * logits_RV).sum(-1)
    return logprobs_E, entropy_R[row_E], topk_QK


def _with_adapters(model: Any, lora: LoraConfig) -> Any:
    from peft import LoraConfig as PeftConfig
    from peft import get_peft_model

    return get_peft_model(
        model,
        PeftConfig(
            r=lora.rank, lora_alpha=lora.alpha, target_modules="all-linear", task_type="CAUSAL_LM"
        ),
    )


@contextmanager
def _merged(model: Any) -> Iterator[None]:
    """Merge adapters into the base weights for the time of the block.

    The base weights are restored from a copy: unmerging by subtraction would drift.
    """
    kept = {
        name: parameter.detach().clone()
        for name, parameter in model.named_parameters()
        if name.endswith("base_layer.weight")
    }
    model.merge_adapter()
    try:
        yield
    finally:
        model.unmerge_adapter()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name in kept:
                    parameter.copy_(kept[name])
