"""Messages to token ids and back, by the model's own chat template.

Three lines on continuing: the next prompt is the previous prompt, the sampled ids, and what the
template writes after an assistant's content. That tail is found by rendering the conversation with
a sentinel in place of the reply, so sampled tokens are never decoded and tokenised again.

What a message says is only text: the name of a special token in it (``<|im_end|>`` printed by a
command, say) is tokenised as letters, so that nobody's output can end a turn or open another.

Templates that know nothing of tools get them written into their messages (``formats.adapt``).

Left out: images.
"""

import copy
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from .chat_template import ChatTemplate
from .errors import ModelError, RequestRefused
from .formats.adapt import TemplateSupport, adapt
from .formats.locality import reach
from .formats.protocol import Format, Tool
from .formats.table import detect
from .stopping import end_token_ids
from .types import Message

MOST_OPENINGS = 64
SENTINEL = "\u2402reply\u2403"
OPEN, CLOSE = "\ue0f1", "\ue0f2"  # private use: around special tokens' names that are only text
_THOUGHT = re.compile(r"<think>\s*(</think>\s*)?$")


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
        in_reasoning: whether its end has opened a thought.
    """

    ids_P: tuple[int, ...]
    drift: Drift
    in_reasoning: bool = False


@dataclass(frozen=True)
class Context:
    """What the template is given beside the messages.

    Attributes:
        tools: functions on offer.
        options: the template's own, such as ``{"enable_thinking": False}``.
        opening: text put before the reply, such as the beginning of a call.
    """

    tools: Sequence[Tool] = ()
    options: Mapping[str, Any] | None = None
    opening: str = ""


PLAIN = Context()


class Renderer:
    """Chat template and tokenizer of one model.

    Args:
        folder: model in HF layout.

    Attributes:
        format: how the model writes calls and thoughts.

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
        try:
            self._template = str(self._tokenizer.get_chat_template())
        except ValueError as error:
            raise ModelError(f"{folder} has no chat template; use an instruct model") from error
        self._chat_template = ChatTemplate(self._tokenizer)
        self._reach = reach(self._template)
        self._openings: dict[tuple[str, str], str] = {}  # of first messages, see _opening
        self.end_ids = end_token_ids(folder)
        # the tokenizer's own core: the wrapper around it costs more than the work. Two, since
        # whether special tokens' names are special is a switch of the core, and threads share it
        self._core: Any = self._tokenizer.backend_tokenizer
        self._letters: Any = copy.deepcopy(self._core)
        self._letters.encode_special_tokens = True
        added = self._tokenizer.added_tokens_decoder
        names = {token.content for token in added.values() if token.special}
        names |= set(self._tokenizer.all_special_tokens)
        longest_first = sorted(names, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self.format: Format = detect(self._template, names)
        kept = self.format.kept_tokens
        ids = {token_id for token_id, token in added.items() if token.special}
        ids |= set(self._tokenizer.all_special_ids)
        self._silent_ids = ids - set(self._tokenizer.convert_tokens_to_ids(sorted(kept & names)))

    @functools.cached_property
    def support(self) -> TemplateSupport:
        """What the template knows of tools and roles."""
        return TemplateSupport.probe(self._apply)

    def render(self, messages: Sequence[Message], context: Context = PLAIN) -> Prompt:
        """Return the prompt of a conversation without recorded turns."""
        return self._prompt([], self.text(messages, context), Drift.NEW)

    def continue_from(
        self,
        messages: Sequence[Message],
        num_before: int,
        prompt_ids: Sequence[int],
        token_ids: Sequence[int],
        context: Context = PLAIN,
    ) -> Prompt:
        """Return the prompt of ``messages`` after a recorded turn.

        Args:
            messages: the conversation; ``messages[num_before]`` is the recorded reply.
            num_before: messages the recorded turn was a reply to.
            prompt_ids: the recorded turn's prompt.
            token_ids: what was sampled for it.
            context: as for the recorded turn, but for its opening.
        """
        tail = self._tail(messages, num_before, context)
        if tail is None:
            return self._prompt([], self.text(messages, context), Drift.FORKED)
        ends = bool(token_ids) and token_ids[-1] in self.end_ids
        drift = Drift.REALIGNED
        if ends:
            tail_ids = self.encode(tail)
            if tail_ids[:1] == [token_ids[-1]]:
                return self._prompt([*prompt_ids, *token_ids], tail, Drift.EXACT, ids=tail_ids[1:])
        return self._prompt([*prompt_ids, *token_ids], tail, drift)

    def _tail(self, messages: Sequence[Message], num_before: int, context: Context) -> str | None:
        """Return what the template writes behind a reply, None if it writes what stands before the
        reply in another way now."""
        marked: list[Message] = [*messages]
        marked[num_before] = {"role": "assistant", "content": SENTINEL}
        tail = self._tail_alone(marked, context)
        if tail is not None:
            return tail
        before = self.text(messages[:num_before], Context(context.tools, context.options))
        try:
            head, found, tail = self.text(marked, context).partition(SENTINEL)
        except RequestRefused:  # a tool's message must follow a call, say
            return None
        return tail if found and _without_thought(head) == _without_thought(before) else None

    def _tail_alone(self, marked: Sequence[Message], context: Context) -> str | None:
        """As ``_tail``, without what stands between the first message and the reply, where that
        changes nothing (``formats.locality``); None where it cannot be told so.

        ``adapt`` goes from the first message to the last and never joins anything to a reply, so
        what stands before the reply is the same with and without what follows it.
        """
        if self._reach is None:
            return None
        adapted = adapt(marked, context.tools, self.format, self.support)
        at = next((i for i, each in enumerate(adapted) if each.get("content") == SENTINEL), 0)
        if at == 0:
            return None
        # the neighbours of what stands before the reply, so that it is written in the same way
        start = [adapted[0], *adapted[max(1, at - 2 * self._reach) : at]]
        try:
            before = self._opening(start, context)
            head, _, tail = self._applied([*start, *adapted[at:]], context).partition(SENTINEL)
        except RequestRefused:  # of its own, or one that only a part of a conversation meets
            return None
        return tail if head == before else None

    def _opening(self, start: Sequence[Message], context: Context) -> str:
        """Return the prompt of a conversation's start; that of a first message is kept."""
        plain = Context(context.tools, context.options)
        first = start[0]
        is_known = first.keys() == {"role", "content"} and isinstance(first["content"], str)
        if len(start) > 1 or plain.tools or plain.options or not is_known:
            return self._applied(start, plain)
        key = (first["role"], first["content"])
        found = self._openings.get(key)
        if found is None:
            if len(self._openings) >= MOST_OPENINGS:
                self._openings.clear()
            found = self._openings[key] = self._applied(start, plain)
        return found

    def text(self, messages: Sequence[Message], context: Context = PLAIN) -> str:
        """Return what the template writes for the messages, the generation prompt included.

        Raises:
            RequestRefused: the template refuses these messages.
        """
        return self._applied(adapt(messages, context.tools, self.format, self.support), context)

    def _applied(self, adapted: Sequence[Message], context: Context) -> str:
        from jinja2.exceptions import TemplateError

        tools = context.tools if self.support.tools else ()
        options = context.options or {}
        self._check_options(options)
        try:
            text = self._apply(adapted, tools, **options)
        except (TemplateError, TypeError, ValueError) as error:
            raise RequestRefused(
                f"the model's chat template refuses these messages: {error}", field="messages"
            ) from error
        if context.opening and _opens_thought(text):
            text += "\n</think>\n\n"
        return text + context.opening

    def encode(self, text: str) -> list[int]:
        """Return the ids of rendered text; special tokens the template wrote count as such."""
        if OPEN not in text:
            return list(self._core.encode(text, add_special_tokens=False).ids)
        ids: list[int] = []
        for index, part in enumerate(re.split(f"{OPEN}(.*?){CLOSE}", text)):
            core = self._letters if index % 2 else self._core
            ids += core.encode(part, add_special_tokens=False).ids
        return ids

    def encode_content(self, content: str) -> list[int]:
        """Return the ids of what somebody says; special tokens' names in it are only text."""
        return self.encode(self._as_text(content))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of ids without special tokens, but for those that mark calls."""
        spoken = [token_id for token_id in token_ids if token_id not in self._silent_ids]
        return str(self._core.decode(spoken, skip_special_tokens=False))

    @functools.cached_property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self._tokenizer)

    def token(self, token_id: int) -> str:
        """Return one token as text, special tokens included (for log-prob listings)."""
        return str(self._tokenizer.decode([token_id]))

    def _prompt(
        self, before: list[int], text: str, drift: Drift, ids: list[int] | None = None
    ) -> Prompt:
        ids = self.encode(text) if ids is None else ids
        return Prompt((*before, *ids), drift, _opens_thought(text))

    def _apply(
        self, messages: Sequence[Message], tools: Sequence[Tool] = (), **options: Any
    ) -> str:
        plain = [self._plain(message) for message in messages]
        return self._chat_template.render(plain, self._as_text(list(tools)) or None, options)

    def known_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return those options that the template knows."""
        return {name: value for name, value in options.items() if name in self._template}

    def _check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse an option that is asked for and that the template does not know."""
        for name, value in options.items():
            if value and name not in self._template:
                raise RequestRefused(
                    f"the model's chat template has no option {name!r}",
                    field="chat_template_kwargs",
                )
            if name in ("tools", "messages", "tokenize", "add_generation_prompt", "chat_template"):
                raise RequestRefused(
                    f"{name!r} is no option of a chat template", field="chat_template_kwargs"
                )

    def _plain(self, message: Message) -> Mapping[str, Any]:
        """Return a message with text parts joined, as templates of text models expect, and the
        names of special tokens in it marked as text."""
        content = message.get("content") or ""
        if len(message) == 2 and isinstance(content, str):  # beside it only the role
            return {"role": message["role"], "content": self._as_text(content)}
        if isinstance(content, list):
            content = "".join(part["text"] for part in content)
        return {**self._as_text({**message, "content": content}), "role": message["role"]}

    def _as_text(self, value: Any) -> Any:
        """Return a value with the names of special tokens in all its strings marked as text."""
        match value:
            case str():
                return self._special.sub(lambda found: f"{OPEN}{found[0]}{CLOSE}", value)
            case Mapping():
                return {name: self._as_text(part) for name, part in value.items()}
            case list() | tuple():
                return [self._as_text(part) for part in value]
        return value


def _opens_thought(text: str) -> bool:
    return text.rstrip().endswith("<think>")


def _without_thought(text: str) -> str:
    """Return text without the empty or opened thought some templates put before a reply."""
    return _THOUGHT.sub("", text)
