"""The second evidence: rules that cannot be wrong. Where a rule is not sure it says nothing.

In order: a reply that was cut (no verdict), that is empty or repeats itself without end; a call
that breaks the schema it was given, or repeats a call that has just failed; a result that states a
failure; what happened afterwards (a retry is bad, an edit of the request says nothing, silence
says nothing).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rl.judge.toolresults import calls_of, failure, parsed, text_of
from rl.judge.types import Exchange, Judgement, Relation, Score
from serving.types import Message

SOURCE = "rule"
TAIL_CHARS = 3000  # of a reply, looked at for repetition
LONGEST_UNIT = 400  # characters of what is repeated
MIN_REPEATED_CHARS = 160


async def from_rules(exchange: Exchange, *, judge_cut: bool = False) -> Judgement | None:
    """Return what the rules say; None when none applies.

    Args:
        exchange: the reply with what came before and after it.
        judge_cut: a reply cut by its token limit is judged by what followed it, like any other;
            otherwise it gets no verdict.
    """
    if judge_cut and exchange.finish_reason == "length":
        exchange = replace(exchange, finish_reason="stop")
    for rule in (_reply, _calls, _results, _relation):
        found = rule(exchange)
        if found is not None:
            return found
    return None


def _found(score: Score, reason: str) -> Judgement:
    return Judgement(score, reason=reason, source=SOURCE)


def _reply(exchange: Exchange) -> Judgement | None:
    text = text_of(exchange.reply)
    unit = repeated_unit(text)
    if unit and unit.strip().lower() not in _last_request(exchange).lower():
        return _found(-1, f"the reply repeats {unit.strip()[:40]!r} without end")
    if exchange.finish_reason != "stop" and exchange.finish_reason != "tool_calls":
        return _found(0, f"the reply was cut (finish reason {exchange.finish_reason})")
    if not text.strip() and not exchange.reply.get("tool_calls"):
        return _found(-1, "the reply is empty")
    return None


def repeated_unit(text: str) -> str:
    """Return what a text repeats at its end at least four times over 160 characters, or "".

    Only letters count as repetition: rules, tables and rows of numbers repeat for good reasons.
    """
    tail = " ".join(text.split())[-TAIL_CHARS:]
    size = len(tail)
    for period in range(1, min(LONGEST_UNIT, size // 4) + 1):
        at = size - 1
        while at >= period and tail[at] == tail[at - period]:
            at -= 1
        run = size - 1 - at + period
        unit = tail[size - period :]
        if run >= max(4 * period, MIN_REPEATED_CHARS) and any(c.isalpha() for c in unit):
            return unit
    return ""


def _last_request(exchange: Exchange) -> str:
    users = [m for m in exchange.history if m.get("role") == "user"]
    return text_of(users[-1]) if users else ""


def _calls(exchange: Exchange) -> Judgement | None:
    schemas = {}
    for tool in exchange.tools:
        function = tool.get("function", tool)
        schemas[str(function.get("name", ""))] = function.get("parameters") or {}
    for _, name, arguments in calls_of(exchange.reply):
        broken = _schema_error(name, arguments, schemas)
        if broken:
            return _found(-1, broken)
    return _repeats_failed_call(exchange)


def _schema_error(name: str, arguments: str, schemas: Mapping[str, Mapping[str, Any]]) -> str:
    value = parsed(arguments)
    if not isinstance(value, Mapping):
        return f"the arguments of {name} are no JSON object"
    if not schemas:
        return ""
    if name not in schemas:
        return f"there is no tool {name!r}"
    schema = schemas[name]
    missing = [key for key in schema.get("required") or () if key not in value]
    if missing:
        return f"{name} lacks {', '.join(missing)}"
    known = schema.get("properties") or {}
    unknown = [key for key in value if key not in known]
    if schema.get("additionalProperties") is False and unknown:
        return f"{name} takes no {', '.join(unknown)}"
    return ""


def _repeats_failed_call(exchange: Exchange) -> Judgement | None:
    """A call made again right after it failed; a user's word in between may have asked for it."""
    results: list[Message] = []
    for message in reversed(exchange.history):
        if message.get("role") == "tool":
            results.append(message)
        else:
            break
    else:
        return None
    if not results or message.get("role") != "assistant":
        return None
    failed = {_same(name, args) for name, args, why in _outcomes(message, results[::-1]) if why}
    for _, name, arguments in calls_of(exchange.reply):
        if _same(name, arguments) in failed:
            return _found(-1, f"{name} was called again as it had just failed")
    return None


def _same(name: str, arguments: str) -> str:
    value = parsed(arguments)
    return (
        f"{name} {arguments if value is None else sorted(value.items(), key=str)}"
        if (value is None or isinstance(value, dict))
        else f"{name} {value}"
    )


def _outcomes(message: Message, results: list[Message]) -> list[tuple[str, str, str]]:
    """Return (name, arguments, failure) of each result; its call is found by id, else by place."""
    calls = calls_of(message)
    by_id = {call_id: (name, arguments) for call_id, name, arguments in calls if call_id}
    found = []
    for place, result in enumerate(results):
        called = by_id.get(str(result.get("tool_call_id", "")))
        if called is None:
            called = calls[place][1:] if place < len(calls) else ("a tool", "")
        found.append((*called, failure(result, called[1])))
    return found


def _results(exchange: Exchange) -> Judgement | None:
    results = [m for m in exchange.next_state if m.get("role") == "tool"]
    for name, _, why in _outcomes(exchange.reply, results):
        if why:
            return _found(-1, f"{name} failed: {why}")
    return None


def _relation(exchange: Exchange) -> Judgement | None:
    if exchange.relation is Relation.RETRIED:
        return _found(-1, "the same request was sent again")
    if exchange.relation is Relation.EDITED:
        return _found(0, "the user put another request in its place")
    if exchange.relation is Relation.IDLE or not exchange.next_state:
        return _found(0, "nothing came after it")
    return None
