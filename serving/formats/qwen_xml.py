"""Qwen3.5 and Qwen3-Coder: a function and its parameters in tags, values without quotes.

    <tool_call>
    <function=ls>
    <parameter=path>
    /
    </parameter>
    </function>
    </tool_call>

A value is what stands between its tags less one line break at each end, converted as the tool's
schema says (``serving.formats.schema``). It may hold any text but a closing tag that is followed
by the next parameter's or the function's end.
"""

import json
import re
from collections.abc import Sequence

from .hermes import CLOSE, OPEN, listed, quoted
from .jsontext import Malformed, checked_name, value_of
from .pieces import ToolCall
from .protocol import Parser, Tool
from .reader import THINK, Reader
from .scans import Closed, Quotation, Scan
from .schema import converted, parameters_of

PARAMETERS = Quotation("<parameter=", "</parameter>")
_FUNCTION = re.compile(r"\s*<function=([^<>\n]+)>\s*")
_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>")
_VALUE_END = re.compile(r"</parameter>\s*(?=<parameter=|</function>)")
_END = re.compile(r"\s*</function>\s*")


class XmlCall(Closed):
    """One call behind its mark."""

    def __init__(self, tools: Sequence[Tool], loose: bool) -> None:
        super().__init__(CLOSE, None if loose else PARAMETERS)
        self._tools = tools

    def read(self, body: str) -> list[ToolCall]:
        body = body.removesuffix(self.end)
        function = _FUNCTION.match(body)
        if not function:
            raise Malformed("<function=…> is missing")
        name = checked_name(function[1].strip())
        schema = parameters_of(self._tools, name)
        arguments: dict[str, str] = {}  # JSON text of the values
        at = function.end()
        while parameter := _PARAMETER.match(body, at):
            value_end = _VALUE_END.search(body, parameter.end())
            if not value_end:
                raise Malformed("a parameter has no </parameter>")
            key = parameter[1].strip()
            text = body[parameter.end() : value_end.start()]
            text = text.removeprefix("\n").removesuffix("\n")
            arguments[key] = converted(text, key, schema)
            at = value_end.end()
        if not _END.fullmatch(body, at):
            raise Malformed("</function> is missing")
        members = ", ".join(f"{quoted(key)}: {value}" for key, value in arguments.items())
        return [ToolCall(name, f"{{{members}}}")]


class XmlSyntax:
    """See the module."""

    openings: tuple[str, ...] = (OPEN,)
    first: tuple[str, ...] = ()
    next: tuple[str, ...] = ()

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools

    def scan(self, mark: str, loose: bool) -> Scan:
        return XmlCall(self._tools, loose)


class QwenXml:
    """See ``serving.formats.protocol.Format``."""

    name = "qwen_xml"
    kept_tokens = frozenset((OPEN, CLOSE)) | THINK.all

    def parser(self, tools: Sequence[Tool] = (), in_reasoning: bool = False) -> Parser:
        return Reader(THINK, XmlSyntax(tools) if tools else None, in_reasoning)

    def instructions(self, tools: Sequence[Tool]) -> str:
        example = self.written_calls([ToolCall("the function", '{"a parameter": "its value"}')])
        return (
            "You can call functions. Each line between <tools> and </tools> describes one, its "
            f"parameters as a JSON schema:\n<tools>\n{listed(tools)}\n</tools>\n"
            "To call one, name it and give each parameter in tags of its own, the value on lines "
            f"between them:\n{example}\n"
            "Write one such block per call. The results come in the next message, between "
            "<tool_response> and </tool_response>."
        )

    def written_calls(self, calls: Sequence[ToolCall]) -> str:
        return "\n".join(map(_written, calls))

    def written_result(self, name: str, content: str) -> str:
        return f"<tool_response>\n{content}\n</tool_response>"

    def forced_opening(self, function: str | None) -> str:
        return f"{OPEN}\n<function=" + (f"{function}>\n" if function else "")


def _written(call: ToolCall) -> str:
    try:
        arguments = value_of(call.arguments)
    except Malformed:  # a client's own text: shown as it is
        arguments = None
    if not isinstance(arguments, dict):
        return f"{OPEN}\n<function={call.name}>\n{call.arguments}\n</function>\n{CLOSE}"
    parameters = "".join(
        f"<parameter={key}>\n"
        f"{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        "\n</parameter>\n"
        for key, value in arguments.items()
    )
    return f"{OPEN}\n<function={call.name}>\n{parameters}</function>\n{CLOSE}"
