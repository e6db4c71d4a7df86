"""What a reply is made of once its text is understood: content, reasoning, tool calls."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Content:
    """A stretch of what the user is to see."""

    text: str


@dataclass(frozen=True)
class Reasoning:
    """A stretch of thought before the reply."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """A complete, well-formed call.

    Attributes:
        name: of the function.
        arguments: a JSON object as text.
    """

    name: str
    arguments: str


@dataclass(frozen=True)
class Fault:
    """A call that could not be read; its text came as ``Content`` just before.

    Attributes:
        reason: what is wrong with it, in one line.
    """

    reason: str


Piece = Content | Reasoning | ToolCall | Fault


@dataclass(frozen=True)
class Parsed:
    """A whole reply.

    Example:
        >>> collect([Content("Let me "), Content("look."), ToolCall("ls", "{}")])
        Parsed(content='Let me look.', reasoning='', calls=(ToolCall(name='ls', ...

    Attributes:
        content: what the user is to see.
        reasoning: thoughts, without their marks.
        calls: in order.
        faults: why what looked like a call is none, in order.
    """

    content: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    faults: tuple[str, ...] = field(default=())


def collect(pieces: Iterable[Piece]) -> Parsed:
    """Return the reply that a stream of pieces adds up to."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[ToolCall] = []
    faults: list[str] = []
    for piece in pieces:
        match piece:
            case Content(text):
                content.append(text)
            case Reasoning(text):
                reasoning.append(text)
            case ToolCall():
                calls.append(piece)
            case Fault(reason):
                faults.append(reason)
    return Parsed("".join(content), "".join(reasoning), tuple(calls), tuple(faults))
