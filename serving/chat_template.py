"""A model's chat template at work: messages to the text it writes for them.

transformers applies it. What it does around the template (copies of copies, looking for objects of
other kinds) costs several times the template itself; a request without tools and options whose
messages are nothing but texts, as most are, takes a short way to the same compiled template.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .types import Message

TEXT_FIELDS = {"role", "content"}


class ChatTemplate:
    """The chat template of a tokenizer.

    Args:
        tokenizer: transformers' own, with a chat template.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._source = ""
        self._compiled: Any = None
        self._known: dict[str, Any] = {}  # names a template finds beside what it is given

    def render(
        self, messages: Sequence[Message], tools: Any = None, options: Mapping[str, Any] = {}
    ) -> str:
        """Return what the template writes, its generation prompt included.

        Args:
            messages: dicts, with the content as the template wants it.
            tools: JSON of functions, or None.
            options: the template's own.

        Raises:
            jinja2.exceptions.TemplateError, TypeError, ValueError: it refuses the messages.
        """
        if (
            messages
            and not tools
            and not options
            and all(map(_is_text, messages))
            and self._is_compiled()
        ):
            given = {"messages": messages, "tools": None, "documents": None}
            context = self._compiled.new_context(
                {**self._known, **given, "add_generation_prompt": True}, shared=True
            )
            return "".join(self._compiled.root_render_func(context))
        return str(
            self._tokenizer.apply_chat_template(
                messages, tools=tools or None, tokenize=False, add_generation_prompt=True, **options
            )
        )

    def _is_compiled(self) -> bool:
        """Whether the short way is open; compiles the template when it is new."""
        source = self._tokenizer.chat_template
        if source is not self._source:
            self._source = source
            self._compiled = _compile(source) if isinstance(source, str) else None
            if self._compiled is not None:
                names = self._tokenizer.special_tokens_map
                self._known = {**self._compiled.globals, **names}
        return self._compiled is not None


def _is_text(message: Message) -> bool:
    """Whether a message is a role and a text and nothing else, all of plain types."""
    return (
        type(message) is dict
        and message.keys() == TEXT_FIELDS
        and type(message["content"]) is str
        and type(message["role"]) is str
    )


def _compile(source: str) -> Any:
    """Return a template as transformers compiles it, None where it does so in another way now."""
    from transformers.utils import chat_template_utils

    compiler = getattr(chat_template_utils, "_compile_jinja_template", None)
    return None if compiler is None else compiler(source)
