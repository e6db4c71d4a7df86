"""The policy as the trainer holds it: a causal language model from a local folder, fp32 master
weights whatever it computes in, optional LoRA over a base that may be quantised, whole or a shard.

Left out: what it computes (``rl.scorer``), losses and the optimiser (``rl.trainer``), serving
(``serving.embedded.engine``).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from rl import attention, sharding
from rl.errors import RunError
from rl.packing import PackedBatch
from rl.precision import Masters
from rl.quantised import quantise
from rl.ranks import ALONE, Ranks
from rl.scorer import Scorer, TokenScores
from rl.settings import LoraConfig
from rl.types import FloatArray, IntArray
from rl.vision import NOT_LANGUAGE, Vision, sees


class Policy:
    """A causal language model under training.

    Args:
        folder: Hugging Face layout.
        lora: adapters on all linear layers when enabled, else every weight is trained.
        logit_chunk: rows whose logits exist at once.
        device: of its weights.
        ranks: that hold it together; then every method that touches weights is called by all.
        dtype: it computes in; less than float32 is rounded from float32 masters.
    """

    def __init__(
        self,
        folder: Path,
        lora: LoraConfig,
        logit_chunk: int = 512,
        activation_checkpointing: bool = False,
        device: str = "cpu",
        ranks: Ranks = ALONE,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.lora, self.logit_chunk, self.device, self.ranks = lora, logit_chunk, device, ranks
        compute = dtype if ranks.size > 1 and dtype != torch.float32 else None
        self.vision = Vision(folder) if sees(folder) else None
        if self.vision is not None and ranks.size > 1:
            raise RunError("a vision-language model is trained by one rank: use trainer.ranks=1")
        model = self._load(folder, activation_checkpointing, dtype)
        self.scorer = Scorer(model, logit_chunk, device, compute)
        self.scorer.vision = self.vision
        sharding.shard(self.scorer, self.scorer.backbone().layers, ranks, compute)
        self.model.train()
        self._masters: Masters | None = None
        if ranks.size == 1 and dtype != torch.float32 and not lora.enabled:
            self._masters = Masters(self._trained())
        self._reference: Scorer | None = None
        self.shares_prefixes = not is_recurrent(self.model.config)

    @property
    def model(self) -> Any:
        """The Hugging Face model, in its wrapper of adapters if it has them."""
        return self.scorer.model

    @property
    def trainable(self) -> list[torch.nn.Parameter]:
        """Parameters the optimiser updates."""
        return list(self._moved().values())

    def updated(self) -> None:
        """Have the weights follow what the optimiser has moved."""
        if self._masters is not None:
            self._masters.round()

    @property
    def context(self) -> int | None:
        """Most tokens of a sequence; None where the model does not say."""
        config = self.model.config.get_text_config()
        limit = getattr(config, "max_position_embeddings", None)
        return int(limit) if limit is not None else None

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights while they compute."""
        return self.scorer.dtype

    @property
    def repeatable(self) -> bool:
        """Whether two forwards of the same weights give the same numbers: no dropout is active."""
        config = self.model.config.get_text_config()
        attention = getattr(config, "attention_dropout", 0.0) or 0.0
        layers = (m.p for m in self.model.modules() if isinstance(m, torch.nn.Dropout))
        return attention == 0.0 and not any(p > 0 for p in layers)

    def score(self, batch: PackedBatch) -> TokenScores:
        """Return log-probs and entropies of a batch's trained tokens, with gradients."""
        return self.scorer.score(batch)

    def likeliest(self, batch: PackedBatch, k: int) -> tuple[IntArray, FloatArray]:
        """Return the K likeliest tokens in place of each trained one, and their log-probs at the
        sampler's temperature; [E, K] each."""
        return self.scorer.likeliest(batch, k)

    @torch.no_grad()
    def reference_logprobs(self, batch: PackedBatch) -> torch.Tensor:
        """Return the start policy's log-probs of the trained tokens.

        Raises:
            RunError: full fine-tuning without ``keep_reference`` before the first step.
        """
        if self.lora.enabled:
            with self.model.disable_adapter():
                return self.scorer.score(batch).logprobs_E
        if self._reference is None:
            raise RunError("the KL anchor needs keep_reference() before the first step")
        return self._reference.score(batch).logprobs_E

    def keep_reference(self, folder: Path) -> None:
        """Freeze a copy of the start policy for the KL anchor (full fine-tuning only)."""
        if self.lora.enabled:
            return
        frozen = Policy(
            folder, LoraConfig(), self.logit_chunk, False, self.device, self.ranks, self.dtype
        )
        self._reference = frozen.scorer.eval().requires_grad_(False)

    def weights(self) -> dict[str, torch.Tensor]:
        """Return the full weights under their Hugging Face names, adapters merged in; empty on
        ranks that do not write."""
        tied = getattr(self.model.config, "tie_word_embeddings", False)
        found = {}
        for name, tensor in self._whole():
            if self.ranks.first and not (tied and name == "lm_head.weight"):
                found[name] = tensor if self.ranks.size == 1 else tensor.cpu()
        return found

    def trainable_state(self) -> dict[str, torch.Tensor]:
        """Return the trained parameters by name, as views; of a shard, its parts."""
        return {name: parameter.detach() for name, parameter in self._moved().items()}

    def load_trainable(self, state: dict[str, torch.Tensor]) -> None:
        """Copy back what ``trainable_state`` gave, whole or in parts cut alike.

        Raises:
            RunError: other names or shapes.
        """
        own = self.trainable_state()
        if own.keys() != state.keys():
            odd = sorted(own.keys() ^ state.keys())[:3]
            raise RunError(f"checkpoint and model differ in {odd}: was lora or model changed?")
        with torch.no_grad():
            for name, tensor in state.items():
                own[name].copy_(sharding.as_part_of(own[name], tensor))
        self.updated()

    def exporter(self) -> Callable[[Path], object]:
        """Return what writes the merged model into a folder, in Hugging Face layout (weights and
        configuration); all ranks ask, the first one writes."""
        if not self.lora.enabled and self.ranks.size == 1:
            write: Callable[[Path], object] = self.model.save_pretrained
            return write
        from safetensors.torch import save_file

        state = {k: v.cpu().contiguous() for k, v in self.weights().items()}
        config = self.scorer.base().config

        def write_merged(folder: Path) -> None:
            config.save_pretrained(folder)
            save_file(state, folder / "model.safetensors", metadata={"format": "pt"})

        return write_merged

    def save_pretrained(self, folder: Path) -> None:
        """Write the merged model; see ``exporter``."""
        write = self.exporter()
        if self.ranks.first:
            write(folder)

    # ------------------------------------------------------------- inside

    def _load(self, folder: Path, activation_checkpointing: bool, dtype: torch.dtype) -> Any:
        from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        stored = dtype if self.ranks.size == 1 else torch.float32  # shards are their own masters
        kind: Any = AutoModelForCausalLM
        attends: Any = attention.register()
        if self.vision is not None:
            kind = AutoModelForImageTextToText
            attends = {"": attends, "text_config": attends, "vision_config": "sdpa"}
        model = kind.from_pretrained(folder, dtype=stored, attn_implementation=attends)
        if self.vision is not None:
            self.vision.freeze(model)
        if activation_checkpointing:
            _recompute_activations(model)
        if self.lora.quantize != "none":
            quantise(model, self.lora.quantize)
        if self.lora.enabled:
            exclude = None if self.vision is None else NOT_LANGUAGE
            model = _with_adapters(model, self.lora, exclude)
        # shards are moved as they are cut, one layer at a time
        return model if self.ranks.size > 1 else model.to(self.device)

    def _trained(self) -> dict[str, torch.nn.Parameter]:
        return {n: p for n, p in self.model.named_parameters() if p.requires_grad}

    def _moved(self) -> dict[str, torch.nn.Parameter]:
        """Return what the optimiser moves, by name: masters where there are any."""
        return self._trained() if self._masters is None else self._masters.copies

    def _whole(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield every tensor of the model, one after the other, put together from its parts; as
        the model computes with it."""
        base = self.scorer.base()
        state = base.state_dict()
        for name, tensor in state.items():
            if ".lora_" in name or name.endswith(".scales"):
                continue
            if name.endswith(".codes"):
                layer = name.removesuffix(".codes")
                name, full = f"{layer}.weight", base.get_submodule(layer).dequantised()
            else:
                full = sharding.whole(tensor.detach())
            if self.scorer.compute is not None:
                full = full.to(self.scorer.compute)
            if name.endswith(".base_layer.weight"):
                full = full + self._adapter(name.removesuffix(".base_layer.weight"), state)
            yield name.replace(".base_layer", ""), full

    def _adapter(self, layer: str, state: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return what a layer's adapter adds to its weights."""
        up, down = (
            sharding.whole(state[f"{layer}.lora_{part}.default.weight"].detach()) for part in "BA"
        )
        return (up @ down) * (self.lora.alpha / self.lora.rank)


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


def _with_adapters(model: Any, lora: LoraConfig, exclude: str | None) -> Any:
    from peft import LoraConfig as PeftConfig
    from peft import get_peft_model

    return get_peft_model(
        model,
        PeftConfig(
            r=lora.rank,
            lora_alpha=lora.alpha,
            target_modules="all-linear",
            exclude_modules=exclude,
            task_type="CAUSAL_LM",
        ),
    )
