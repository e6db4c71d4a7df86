"""When a reply ends: an end token, a stop string, or its limit."""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .types import FinishReason, Sampling

MOST_TOKENS_PER_CHAR = 4  # byte-level tokens: at most one per UTF-8 byte


def end_token_ids(folder: Path) -> frozenset[int]:
    """Return the ids that end a reply, of ``generation_config.json``, else of ``config.json``."""
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        if path.is_file():
            value = json.loads(path.read_text()).get("eos_token_id")
            if value is not None:
                return frozenset(value if isinstance(value, list) else [value])
    return frozenset()


class StopRule:
    """Decides after each token whether the reply has ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.end_ids = end_token_ids(folder)

    def reason(self, token_ids_T: Sequence[int], sampling: Sampling) -> FinishReason | None:
        """Return why the reply ends after these tokens, or None."""
        if token_ids_T[-1] in self.end_ids and not sampling.ignore_end:
            return "stop"
        if sampling.stop and self._ends_in_stop_string(token_ids_T, sampling.stop):
            return "stop"
        return "length" if len(token_ids_T) >= sampling.max_tokens else None

    def _ends_in_stop_string(self, token_ids_T: Sequence[int], stop: tuple[str, ...]) -> bool:
        window = MOST_TOKENS_PER_CHAR * (max(map(len, stop)) + 1)
        text = self.tokenizer.decode(list(token_ids_T[-window:]), skip_special_tokens=True)
        return any(string in text for string in stop)

    @functools.cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer, loaded at first use."""
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self._folder, clean_up_tokenization_spaces=False)
