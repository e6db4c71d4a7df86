"""Formats by name, and the one a model's chat template was written for."""

import difflib
from collections.abc import Collection

from .gemma import Gemma
from .hermes import Hermes
from .llama3 import Llama3
from .mistral import Mistral, MistralArgs
from .plain import Plain
from .protocol import Format
from .qwen_xml import QwenXml

FORMATS: dict[str, Format] = {
    each.name: each
    for each in (Hermes(), QwenXml(), Llama3(), Mistral(), MistralArgs(), Gemma(), Plain())
}


def find(name: str) -> Format:
    """Return a format by name.

    Raises:
        ValueError: there is none; the message names the nearest and all.
    """
    if name in FORMATS:
        return FORMATS[name]
    near = difflib.get_close_matches(name, FORMATS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"no tool-call format {name!r}{hint} Formats: {', '.join(FORMATS)}")


def detect(chat_template: str, special_tokens: Collection[str] = ()) -> Format:
    """Return the format of a model.

    What the template writes counts more than what the vocabulary holds: a model trained by others
    on Llama's vocabulary may write Hermes' calls.

    Args:
        chat_template: the template's source.
        special_tokens: names of the tokenizer's added tokens.
    """

    def written(*strings: str) -> bool:
        return all(string in chat_template for string in strings)

    def known(string: str) -> bool:
        return string in chat_template or string in special_tokens

    if written("<function=", "<parameter="):
        name = "qwen_xml"
    elif written("<tool_call>"):
        name = "hermes"
    elif written("[TOOL_CALLS]"):
        name = "mistral_args" if written("[ARGS]") else "mistral"
    elif known("<|python_tag|>") or written("<|start_header_id|>", "parameters"):
        name = "llama3"
    elif known("[TOOL_CALLS]"):
        name = "mistral_args" if known("[ARGS]") else "mistral"
    elif known("<start_of_turn>"):
        name = "gemma"
    elif known("<tool_call>"):
        name = "hermes"
    else:
        name = "plain"
    return FORMATS[name]
