"""Is a model's chat template append-only? ``python -m serving.templates check MODEL`` says so.

A template is append-only if the prompt of a turn, the reply as sampled and what the template puts
behind it begin the prompt of every later turn. Then a session is one growing list of tokens: each
turn reuses the sampled ids and the engine's cache. Templates that drop earlier thoughts or write
today's date are not.

Fixed dialogues are rendered up to each turn and compared as text. White space next to the marks of
thoughts is not compared, nor how a call is laid out: the sampled tokens stand there anyway.

Left out: tokens; images; options of a template other than its defaults.
"""

import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from .errors import ModelError, RequestRefused
from .formats.adapt import TemplateSupport, adapt
from .formats.dialogues import USER, as_sampled, dialogues
from .formats.protocol import Format, Tool
from .formats.table import detect
from .types import Message

USAGE = """\
python -m serving.templates check MODEL

  MODEL         smollm2-135m, a folder in Hugging Face layout, a hub id, or tiny

Says which format of tool calls the model writes, what its chat template renders, and for each
kind of dialogue whether the template is append-only. Exit 0 it is, 1 it is not, 2 user error,
3 no such model.
"""
EXCERPT = 90
ANOTHER_DAY = "another day"


class Template(Protocol):
    """A chat template with its tokenizer's vocabulary."""

    @property
    def source(self) -> str:
        """The template's text."""

    @property
    def special_tokens(self) -> Collection[str]:
        """Names of the tokenizer's added tokens."""

    def text(self, messages: Sequence[Message], tools: Sequence[Tool] = (), day: str = "") -> str:
        """Return what the template writes, the generation prompt included.

        Args:
            messages: fit for the template.
            tools: on offer.
            day: what the template is told today's date is; the real one if empty.

        Raises:
            RequestRefused: it refuses the messages.
        """


class ModelTemplate:
    """The template of a tokenizer of transformers.

    Args:
        tokenizer: with a chat template.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.source = str(tokenizer.get_chat_template())
        added = tokenizer.added_tokens_decoder.values()
        self.special_tokens = frozenset(token.content for token in added)

    @classmethod
    def of(cls, folder: Path) -> "ModelTemplate":
        """Return the template of a model in HF layout; raises ``ModelError`` if it has none."""
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError) as error:
            raise ModelError(f"{folder} holds no tokenizer that can be read: {error}") from error
        if not tokenizer.chat_template:
            raise ModelError(f"{folder} has no chat template; use an instruct model")
        return cls(tokenizer)

    def text(self, messages: Sequence[Message], tools: Sequence[Tool] = (), day: str = "") -> str:
        from jinja2.exceptions import TemplateError

        # a macro hides the clock that transformers gives to templates
        clock = f"{{% macro strftime_now(format) %}}{day}{{% endmacro %}}" if day else ""
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    [dict(message) for message in messages],
                    tools=[dict(tool) for tool in tools] or None,
                    chat_template=clock + self.source,
                    tokenize=False,
                    add_generation_prompt=True,
                )
            )
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise RequestRefused(f"the chat template fails: {error}", field="messages") from error


@dataclass(frozen=True)
class Break:
    """The first place where a longer conversation is not the shorter one continued.

    Attributes:
        turn: index of the message after whose rendering the shorter one ends.
        at: character in the longer text.
        expected: excerpt of what the shorter conversation and its reply say there.
        found: excerpt of what the longer one says.
    """

    turn: int
    at: int
    expected: str
    found: str


@dataclass(frozen=True)
class Verdict:
    """What became of one kind of dialogue.

    Attributes:
        kind: of dialogue.
        broken: None if it is append-only.
        refused: why the template cannot render it at all; empty if it can.
    """

    kind: str
    broken: Break | None = None
    refused: str = ""


@dataclass(frozen=True)
class Report:
    """What is known of a template.

    Attributes:
        format: name of the format detected.
        support: what it renders by itself.
        verdicts: one per kind of dialogue.
    """

    format: str
    support: TemplateSupport
    verdicts: tuple[Verdict, ...] = field(default=())

    @property
    def is_append_only(self) -> bool:
        """Whether no kind is broken and at least one was rendered."""
        rendered = [verdict for verdict in self.verdicts if not verdict.refused]
        return bool(rendered) and all(verdict.broken is None for verdict in rendered)


def check(template: Template, format: Format | None = None) -> Report:
    """Return what a template does with a fixed set of dialogues.

    Args:
        template: to check.
        format: the model's; None to detect it.
    """
    used = format or detect(template.source, template.special_tokens)
    support = TemplateSupport.probe(template.text)
    views = _View(template, used, support)
    verdicts = [_verdict(views, kind, *dialogue) for kind, dialogue in dialogues(template.source)]
    return Report(used.name, support, (*verdicts, _day_verdict(views)))


@dataclass(frozen=True)
class _View:
    """A template as conversations of any kind are shown to it."""

    template: Template
    format: Format
    support: TemplateSupport

    def text(self, messages: Sequence[Message], tools: Sequence[Tool] = (), day: str = "") -> str:
        adapted = adapt(messages, tools, self.format, self.support)
        return self.template.text(adapted, tools if self.support.tools else (), day)


def _verdict(view: _View, kind: str, messages: Sequence[Message], tools: Sequence[Tool]) -> Verdict:
    turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    cuts = [*turns, len(messages)]
    try:
        texts = {cut: view.text(messages[:cut], tools) for cut in cuts}
    except RequestRefused as error:
        return Verdict(kind, refused=str(error))
    for number, turn in enumerate(turns):
        for later in cuts[number + 1 :]:
            broken = _break(texts[turn], texts[later], turn, messages[turn])
            if broken:
                return Verdict(kind, broken)
    return Verdict(kind)


def _break(before: str, after: str, turn: int, reply: Message) -> Break | None:
    """Return where ``after`` stops being ``before`` and then the reply."""
    if not after.startswith(before):
        return _difference(turn, before, after)
    pattern, words = as_sampled(reply)
    if re.compile(pattern, re.DOTALL).match(after, len(before)):
        return None
    return Break(turn, len(before), words, after[len(before) :][:EXCERPT])


def _day_verdict(view: _View) -> Verdict:
    """Compare one conversation on two days."""
    messages = [USER]
    try:
        first, second = (view.text(messages, (), day) for day in ("01 Jan 2001", "02 Feb 2002"))
    except RequestRefused as error:
        return Verdict(ANOTHER_DAY, refused=str(error))
    if first == second:
        return Verdict(ANOTHER_DAY)
    return Verdict(ANOTHER_DAY, _difference(0, first, second))


def _difference(turn: int, before: str, after: str) -> Break:
    pairs = enumerate(zip(before, after, strict=False))
    at = next((i for i, (one, other) in pairs if one != other), min(len(before), len(after)))
    return Break(turn, at, before[at : at + EXCERPT], after[at : at + EXCERPT])


def describe(report: Report) -> str:
    """Return a report as lines for people."""
    flags = asdict(report.support)
    del flags["text_arguments"]
    lines = [
        f"{'format':<14}{report.format}",
        f"{'renders':<14}{', '.join(name for name, flag in flags.items() if flag) or 'no more'}",
        f"{'left to us':<14}{', '.join(name for name, flag in flags.items() if not flag) or '-'}",
    ]
    for verdict in report.verdicts:
        if verdict.refused:
            lines.append(f"{verdict.kind:<14}refused: {verdict.refused}")
        elif verdict.broken is None:
            lines.append(f"{verdict.kind:<14}append-only")
        else:
            broken = verdict.broken
            lines.append(
                f"{verdict.kind:<14}not append-only: message {broken.turn}, character {broken.at}\n"
                f"{'':<14}expected {broken.expected!r}\n"
                f"{'':<14}found    {broken.found!r}"
            )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the command line; return its exit status."""
    if not arguments or {"-h", "--help"} & {*arguments}:
        sys.stdout.write(USAGE)
        return 0 if arguments else 2
    if len(arguments) != 2 or arguments[0] != "check":
        sys.stderr.write(f"cannot understand {' '.join(arguments)!r}\n{USAGE}")
        return 2
    from .models import resolve

    try:
        report = check(ModelTemplate.of(resolve(arguments[1])))
    except ModelError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    sys.stdout.write(describe(report) + "\n")
    return 0 if report.is_append_only else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
