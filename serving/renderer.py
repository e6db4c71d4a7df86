"""Messages to token ids and back, by the model's own chat template.

Three lines on continuing: the next prompt is the previous prompt, the sampled ids, and what the
template writes after an assistant's content. That tail is found by rendering the conversation with
a sentinel in place of the reply, so sampled tokens are never decoded and tokenised again.

What a message says is only text: the name of a special token in it (``<|im_end|>`` printed by a
command, say) is tokenised as letters, so that nobody's output can end a turn or open another.

Left out: tool calls, reasoning blocks, images.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from .errors import ModelError, RequestRefused
from .stopping import end_token_ids
from .types import Message

SENTINEL = "\u2402reply\u2403"
OPEN, CLOSE = "\ue0f1", "\ue0f2"  # private use: around special tokens' names that are only text


class Drift(StrEnum):
    """How a prompt follows from the turn before it."""

    NEW = "new"  # no earlier turn
    EXACT = "exact"  # previous prompt + sampled ids + the template's tail
    REALIGNED = "realigned"  # the same, with an end token that was not sampled put between
    FORKED = "forked"  # the template or the client rewrites history: replies tokenised again


@dataclass(frozen=True)
class Prompt:
    """Token ids to send to the engine.

    Attributes:
        ids_P: the whole prompt.
        drift: how it follows from the turn before.
    """

    ids_P: tuple[int, ...]
    drift: Drift


class Renderer:
    """Chat template and tokenizer of one model.

    Args:
        folder: model in HF layout.

    Raises:
        ModelError: no tokenizer or no chat template.
    """

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(
                folder, clean_up_tokenization_spaces=False
            )
        except (OSError, ValueError) as error:
            raise ModelError(f"{folder} holds no tokenizer that can be read: {error}") from error
        if not self._tokenizer.chat_template:
            raise ModelError(f"{folder} has no chat template; use an instruct model")
        self.end_ids = end_token_ids(folder)
        added = self._tokenizer.added_tokens_decoder.values()
        names = {token.content for token in added if token.special}
        names |= set(self._tokenizer.all_special_tokens)
        longest_first = sorted(names, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def render(self, messages: Sequence[Message]) -> Prompt:
        """Return the prompt of a conversation without recorded turns."""
        return Prompt(tuple(self.encode(self.text(messages))), Drift.NEW)

    def continue_from(
        self,
        messages: Sequence[Message],
        num_before: int,
        prompt_ids: Sequence[int],
        token_ids: Sequence[int],
    ) -> Prompt:
        """Return the prompt of ``messages`` after a recorded turn.

        Args:
            messages: the conversation; ``messages[num_before]`` is the recorded reply.
            num_before: messages the recorded turn was a reply to.
            prompt_ids: the recorded turn's prompt.
            token_ids: what was sampled for it.
        """
        before = self.text(messages[:num_before])
        marked: list[Message] = [*messages]
        marked[num_before] = {**messages[num_before], "content": SENTINEL}
        head, found, tail = self.text(marked).partition(SENTINEL)
        if not found or head != before:
            return Prompt(tuple(self.encode(self.text(messages))), Drift.FORKED)
        tail_ids = self.encode(tail)
        drift = Drift.EXACT
        if token_ids and token_ids[-1] in self.end_ids:
            if tail_ids[:1] == [token_ids[-1]]:
                tail_ids = tail_ids[1:]
            else:
                drift = Drift.REALIGNED
        else:
            drift = Drift.REALIGNED
        return Prompt((*prompt_ids, *token_ids, *tail_ids), drift)

    def text(self, messages: Sequence[Message]) -> str:
        """Return what the template writes for the messages, the generation prompt included.

        Raises:
            RequestRefused: the template refuses these messages.
        """
        from jinja2.exceptions import TemplateError

        try:
            return str(
                self._tokenizer.apply_chat_template(
                    [self._plain(message) for message in messages],
                    tokenize=False,
                    add_generation_prompt=True,
                )
            )
        except TemplateError as error:
            raise RequestRefused(
                f"the model's chat template refuses these messages: {error}", field="messages"
            ) from error

    def encode(self, text: str) -> list[int]:
        """Return the ids of rendered text; special tokens the template wrote count as such."""
        ids: list[int] = []
        for index, part in enumerate(re.split(f"{OPEN}(.*?){CLOSE}", text)):
            only_text = index % 2 == 1
            ids += self._tokenizer.encode(
                part, add_special_tokens=False, split_special_tokens=only_text
            )
        return ids

    def encode_content(self, content: str) -> list[int]:
        """Return the ids of what somebody says; special tokens' names in it are only text."""
        return self.encode(self._as_text(content))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of ids without special tokens."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def _plain(self, message: Message) -> Mapping[str, Any]:
        """Return a message with text parts joined, as templates of text models expect, and the
        names of special tokens in it marked as text."""
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(part["text"] for part in content)
        if not content:
            return {**message, "content": ""}
        return {**message, "content": self._as_text(str(content))}

    def _as_text(self, content: str) -> str:
        return self._special.sub(lambda found: f"{OPEN}{found[0]}{CLOSE}", content)

    @functools.cached_property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self._tokenizer)

    def token(self, token_id: int) -> str:
        """Return one token as text, special tokens included (for log-prob listings)."""
        return str(self._tokenizer.decode([token_id]))


class TextStream:
    """Turns a growing list of ids into text, piece by piece.

    A piece never ends inside a UTF-8 character nor inside what may become a stop string; the
    pieces joined are the text of a reply that was not streamed. New ids are decoded behind a few
    old ones: a decoder may strip the blank of the first word it is given.
    """

    def __init__(self, renderer: Renderer, stop: Sequence[str] = ()) -> None:
        self._renderer = renderer
        self._stop = stop
        self._ids: list[int] = []
        self._settled = 0  # ids before this one are decoded for good
        self._context = 0  # decoding starts here: some text before the settled end
        self._held = ""  # decoded but not given out
        self._stopped = False

    def push(self, token_id: int) -> str:
        """Add a token; return the text that is certain now."""
        self._ids.append(token_id)
        text = self._new_text()
        if text.endswith("\ufffd"):
            return ""
        if text:  # else the old context stays: it must hold text
            self._context = self._settled
        self._settled = len(self._ids)
        return self._emit(text, final=False)

    def finish(self) -> str:
        """Return the rest; after it nothing may be pushed."""
        text = self._new_text()
        self._settled = len(self._ids)
        return self._emit(text, final=True)

    def _new_text(self) -> str:
        before = self._renderer.decode(self._ids[self._context : self._settled])
        return self._renderer.decode(self._ids[self._context :])[len(before) :]

    def _emit(self, text: str, final: bool) -> str:
        if self._stopped:
            return ""
        self._held += text
        found = [at for at in (self._held.find(string) for string in self._stop) if at >= 0]
        if found:
            self._stopped = True
            return self._held[: min(found)]
        keep = 0 if final else self._open_stop()
        ready = self._held[: len(self._held) - keep]
        self._held = self._held[len(self._held) - keep :]
        return ready

    def _open_stop(self) -> int:
        """Return the length of the longest end of the held text that begins a stop string."""
        return max(
            (
                size
                for string in self._stop
                for size in range(1, len(string))
                if self._held.endswith(string[:size])
            ),
            default=0,
        )
