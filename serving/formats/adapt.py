"""Conversations made fit for a chat template that cannot render all of them.

What a template can do is found once by rendering probes. What it cannot do is written into the
messages instead, in the words of the model's format: calls as text of the assistant's message,
results as a user message, tools as part of the system message.

Content in parts becomes text unless it holds more than text. Left out: images, which stay where
they are; reasoning, which is the renderer's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .jsontext import Malformed, value_of
from .pieces import ToolCall
from .protocol import Format, Tool

Message = Mapping[str, Any]
Render = Callable[[Sequence[Message], Sequence[Tool]], str]  # raises whatever a template raises

ID = "probe000"  # and a digit: nine characters are all that Mistral's templates accept
USER: Message = {"role": "user", "content": "probe-question"}
UNKNOWN_ROLE = "zzprobe"  # no template was written for it


@dataclass(frozen=True)
class TemplateSupport:
    """What a chat template renders, each part found by a probe.

    Example:
        >>> TemplateSupport.probe(render_smollm2)
        TemplateSupport(tools=False, tool_calls=False, tool_role=False, system_role=True, ...

    Attributes:
        tools: the request's tools.
        tool_calls: a call of an assistant's message.
        parallel_calls: several calls of one message.
        tool_role: results. Writing down the name of any role whatever does not count.
        system_role: a system message at the start.
        developer_role: a developer message at the start; as ``tool_role``.
        text_arguments: it wants a call's arguments as JSON text, not as an object.
    """

    tools: bool = False
    tool_calls: bool = False
    parallel_calls: bool = False
    tool_role: bool = False
    system_role: bool = False
    developer_role: bool = False
    text_arguments: bool = False

    @classmethod
    def probe(cls, render: Render) -> "TemplateSupport":
        """Return what a template supports.

        Args:
            render: renders messages and tools to text, or raises.
        """

        def shows(messages: Sequence[Message], *words: str, tools: Sequence[Tool] = ()) -> bool:
            text = _rendered(render, messages, tools)
            return all(word in text for word in words)

        as_object = shows(_dialogue({"probe_key": "probe-value"}), "probe_call", "probe-value")
        as_text = not as_object and shows(
            _dialogue('{"probe_key": "probe-value"}'), "probe_call", "probe-value"
        )
        arguments: Any = '{"a": "probe-other"}' if as_text else {"a": "probe-other"}
        before = _dialogue(arguments)[:2]
        if not (as_object or as_text):
            before = [USER, {"role": "assistant", "content": "probe-call"}]
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        function = {"name": "probe_tool", "description": "probe", "parameters": schema}
        return cls(
            tools=shows([USER], "probe_tool", tools=[{"type": "function", "function": function}]),
            tool_calls=as_object or as_text,
            parallel_calls=(as_object or as_text)
            and shows(_dialogue(arguments, arguments, names=("probe_a", "probe_b")), "probe_b"),
            tool_role=_knows(render, before, "tool", []),
            system_role=shows([{"role": "system", "content": "probe-rule"}, USER], "probe-rule"),
            developer_role=_knows(render, [], "developer", [USER]),
            text_arguments=as_text,
        )


def adapt(
    messages: Sequence[Message],
    tools: Sequence[Tool],
    format: Format,
    support: TemplateSupport,
) -> list[dict[str, Any]]:
    """Return the messages as the template can render them; those given are left alone.

    Args:
        messages: OpenAI's, with tool calls, results and any role.
        tools: what the request offers. Where ``support.tools`` they go to the template as well.
        format: of the model.
        support: of the template.
    """
    adapted: list[dict[str, Any]] = []
    names: dict[str, str] = {}  # of the functions by call id
    for given in messages:
        message = {**given, "content": _simple(given.get("content"))}
        calls = message.get("tool_calls") or ()
        names |= {str(call.get("id")): call["function"]["name"] for call in calls}
        role = message["role"]
        if calls:
            adapted.append(_with_calls(message, format, support))
        elif role == "tool":
            name = str(message.get("name") or names.get(str(message.get("tool_call_id")), ""))
            if support.tool_role:
                adapted.append({**message, "name": name} if name else message)
                continue
            result = format.written_result(name, _text_of(message.get("content")))
            _add(adapted, {"role": "user", "content": result, "written": True})
        elif role == "developer" and not support.developer_role:
            _add(adapted, {**message, "role": "system", "written": True})
        elif role == "user" and adapted and adapted[-1].get("written"):
            _add(adapted, message)
        else:
            message.pop("tool_calls", None)  # an empty list: templates ask whether it is there
            adapted.append(message)
    if tools and not support.tools:
        _instruct(adapted, format.instructions(tools))
    if not support.system_role:
        adapted = _without_system(adapted)
    for each in adapted:
        each.pop("written", None)
    return adapted


def _add(adapted: list[dict[str, Any]], message: dict[str, Any]) -> None:
    """Append a message, or join it to the one before if that has the same role: many templates
    demand that roles alternate."""
    if adapted and adapted[-1]["role"] == message["role"]:
        last = adapted[-1]
        last["content"] = _joined(last.get("content"), message.get("content"), "\n")
        last["written"] = last.get("written", False) and message.get("written", False)
    else:
        adapted.append(message)


def _with_calls(message: Message, format: Format, support: TemplateSupport) -> dict[str, Any]:
    several = len(message["tool_calls"]) > 1
    if support.parallel_calls if several else support.tool_calls:
        if support.text_arguments:
            return dict(message)
        return {**message, "tool_calls": [_with_object(call) for call in message["tool_calls"]]}
    functions = [call["function"] for call in message["tool_calls"]]
    calls = [ToolCall(each["name"], each.get("arguments") or "{}") for each in functions]
    content = _joined(message.get("content"), format.written_calls(calls), "\n")
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": content}


def _with_object(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call with its arguments as an object, if they are one."""
    function = call["function"]
    try:
        arguments = value_of(function.get("arguments") or "{}")
    except Malformed:  # a client's own text: shown as it is
        return dict(call)
    if not isinstance(arguments, dict):
        return dict(call)
    return {**call, "function": {**function, "arguments": arguments}}


def _instruct(adapted: list[dict[str, Any]], instructions: str) -> None:
    """Put instructions behind the system message, or make one."""
    if adapted and adapted[0]["role"] in ("system", "developer"):
        first = adapted[0]
        first["content"] = _joined(first.get("content"), instructions, "\n\n")
    else:
        adapted.insert(0, {"role": "system", "content": instructions})


def _without_system(adapted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put what system messages say before the user message that follows."""
    result: list[dict[str, Any]] = []
    said: Any = None
    for message in adapted:
        if message["role"] == "system":
            said = _joined(said, message.get("content"), "\n\n")
            continue
        if said is not None and message["role"] == "user":
            message = {**message, "content": _joined(said, message.get("content"), "\n\n")}
        elif said is not None:
            result.append({"role": "user", "content": said})
        said = None
        result.append(message)
    if said is not None:
        result.append({"role": "user", "content": said})
    return result


def _joined(first: Any, second: Any, between: str) -> Any:
    """Return two contents as one: text, or a list of parts if either is one."""
    if not first or not second:
        return first or second or ""
    if isinstance(first, str) and isinstance(second, str):
        return first + between + second
    return [*_parts(first), {"type": "text", "text": between}, *_parts(second)]


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _simple(content: Any) -> Any:
    """Return text for text in parts and for nothing: what templates of text models expect."""
    is_text = isinstance(content, list) and all(part.get("type") == "text" for part in content)
    return _text_of(content) if is_text or content is None else content


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return content if isinstance(content, str) else ""


def _dialogue(*arguments: Any, names: Sequence[str] = ("probe_call",)) -> list[Message]:
    """Return a question, a message with calls, and their results."""
    ids = [f"{ID}{number}" for number in range(len(names))]
    calls = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": each}}
        for id, name, each in zip(ids, names, arguments, strict=True)
    ]
    return [
        USER,
        {"role": "assistant", "content": "", "tool_calls": calls},
        *(_result(id, name) for id, name in zip(ids, names, strict=True)),
    ]


def _result(id: str, name: str, role: str = "tool") -> Message:
    return {"role": role, "tool_call_id": id, "name": name, "content": "probe-result"}


def _knows(render: Render, before: Sequence[Message], role: str, after: Sequence[Message]) -> bool:
    """Whether a role means something to the template: what it says is shown, and not in the way
    any role's word would be."""

    def text(name: str) -> str:
        message = _result(f"{ID}0", "probe_call", role=name)
        return _rendered(render, [*before, message, *after], ())

    own = text(role)
    return "probe-result" in own and own != text(UNKNOWN_ROLE).replace(UNKNOWN_ROLE, role)


def _rendered(render: Render, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
    try:
        return render(messages, tools)
    except Exception:  # a template is somebody's program and may fail in any way: no support
        return ""
