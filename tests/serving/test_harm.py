"""What goes wrong around a reply must not harm it, nor anybody else's."""

import asyncio
import json
import threading
import time
from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from serving import admin
from serving.engine import OnToken, generate
from serving.errors import RequestRefused
from serving.journal import Journal
from serving.renderer import Renderer
from serving.server import ServerOptions
from serving.sessions import SessionStore, Trail
from serving.turns import Feedback, Turn
from serving.types import Sampling

from .scripted import Said, ScriptedEngine
from .test_gateway import CHAT, ask, chat
from .test_sdks import CALLS, TOOLS, serving
from .test_sessions import said, turn


class BadSink:
    """Fails at everything."""

    def turn(self, turn: Turn) -> None:
        raise OSError("no room")

    def feedback(self, feedback: Feedback) -> None:
        raise OSError("no room")

    def forget(self, owner: str, session: str) -> None:
        raise OSError("no room")


def bad_hook(turn: Turn) -> Turn | None:
    raise ValueError("not a turn I know")


@pytest.mark.parametrize(
    "options", [ServerOptions(sinks=(BadSink(),)), ServerOptions(redact=bad_hook)]
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_failing_sink_or_hook_costs_no_reply(
    tiny: Path, options: ServerOptions, streamed: bool
) -> None:
    """Bug prevented: a 500 after the reply was sampled; a turn recorded twice."""

    async def play(url: str) -> None:
        status, body, _ = await ask(url, body=chat(stream=streamed), **{"X-Session-Id": "s"})
        assert status == 200 and "error" not in str(body)
        _, counters, _ = await ask(url, "GET", "/admin/stats")
        kept = options.redact is None
        assert counters["recorded_turns"] == kept and counters["sink_failures"] == kept
        assert (await ask(url, "DELETE", "/v1/sessions/s"))[0] == 200

    with serving(tiny, "fine", options=options) as (_, url):
        asyncio.run(play(url))


def test_leaving_ends_every_choice_whatever_the_hook_does(tiny: Path) -> None:
    """Bug prevented: the first choice's hook fails and the others go on being sampled."""
    tickets: list[Said] = []

    class Watched(ScriptedEngine):
        def submit(
            self, ids: Sequence[int], sampling: Sampling, on_token: OnToken | None = None
        ) -> Said:
            tickets.append(super().submit(ids, sampling, on_token))
            return tickets[-1]

    async def play(url: str, engine: Any) -> None:
        engine.pause()
        headers = {"Authorization": "Bearer secret"}
        async with (
            aiohttp.ClientSession(headers=headers) as http,
            http.post(url + CHAT, json=chat(stream=True, n=3)) as response,
        ):
            await response.content.readline()
        for _ in range(500):
            if all(ticket.cancelled.is_set() for ticket in tickets):
                return
            await asyncio.sleep(0.01)
        raise AssertionError([ticket.cancelled.is_set() for ticket in tickets])

    with serving(tiny, "a long story", kind=Watched, options=ServerOptions(redact=bad_hook)) as (
        engine,
        url,
    ):
        asyncio.run(play(url, engine))
    assert len(tickets) == 3


def test_a_caller_that_leaves_while_a_schema_compiles_cancels_its_request(tiny: Path) -> None:
    """Bug prevented: the ticket comes after the caller has gone and nobody cancels it."""
    made = threading.Event()
    tickets: list[Said] = []

    class Slow(ScriptedEngine):
        def submit(
            self, ids: Sequence[int], sampling: Sampling, on_token: OnToken | None = None
        ) -> Said:
            time.sleep(0.3)
            tickets.append(super().submit(ids, sampling, on_token))
            made.set()
            return tickets[-1]

    async def play() -> None:
        asking = asyncio.ensure_future(
            generate(Slow(Renderer(tiny), "x"), [5], Sampling(json_schema="{}"))
        )
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.to_thread(made.wait, 5)
        await asyncio.sleep(0.05)

    asyncio.run(play())
    assert tickets[0].cancelled.is_set()


def test_large_tools_do_not_hold_up_the_loop(tiny: Path) -> None:
    """Bug prevented: only messages counted as long; tools were rendered on the event loop, and
    more of them than any context holds reached the engine."""
    tool = json.loads(json.dumps(TOOLS[0]))
    tool["function"]["description"] = "x" * 200_000

    async def play(url: str) -> None:
        status, refused, _ = await ask(url, body={**chat(), "tools": [tool]})
        assert status == 400 and refused["error"]["code"] == "context_length_exceeded"

    with serving(tiny, "fine") as (engine, url):
        asyncio.run(play(url))
    assert engine.prompts == []


def test_one_refused_prompt_ends_the_others(tiny: Path) -> None:
    """Bug prevented: the client is told 400 and its other prompts are sampled on."""

    class Picky(ScriptedEngine):
        def submit(
            self, ids: Sequence[int], sampling: Sampling, on_token: OnToken | None = None
        ) -> Said:
            if list(ids) == [9]:
                raise RequestRefused("not this one")
            return super().submit(ids, sampling, on_token)

    async def play(url: str, engine: Any) -> None:
        engine.pause()
        body = {"prompt": [[5], [9], [6]], "max_tokens": 50}
        assert (await ask(url, path="/v1/completions", body=body))[0] == 400
        _, counters, _ = await ask(url, "GET", "/admin/stats")
        assert counters["in_flight"] == 0
        engine.resume()

    with serving(tiny, "a long story", kind=Picky) as (engine, url):
        asyncio.run(play(url, engine))


def test_room_is_held_from_the_moment_of_asking(tiny: Path) -> None:
    """Bug prevented: prompts being rendered are not counted, so any number gets in."""
    long = chat("x" * 9_000)

    async def play(url: str, engine: Any) -> None:
        engine.pause()
        asked = [asyncio.ensure_future(ask(url, body=long)) for _ in range(6)]
        while sum(one.done() for one in asked) < 5:
            await asyncio.sleep(0.01)
        engine.resume()
        answers = [await one for one in asked]
        assert sorted(status for status, _, _ in answers) == [200, 429, 429, 429, 429, 429]

    with serving(tiny, "fine", options=ServerOptions(max_requests=1)) as (engine, url):
        engine.max_len = 16384
        asyncio.run(play(url, engine))


def test_a_key_proves_more_than_a_body_says(tiny: Path) -> None:
    """Bug prevented: Ann is served with Bob's adapter because her request says so."""

    async def play(url: str, engine: Any) -> None:
        engine.loaded |= {"Ann": 1, "Bob": 1}
        await ask(url, body=chat(user="Bob"), key="k1")
        assert engine.samplings[-1].adapter == "Ann"
        assert (await ask(url, body=chat(model="m:Bob"), key="k1"))[0] == 404
        _, listed, _ = await ask(url, "GET", "/v1/models", key="k1")
        assert [row["id"] for row in listed["data"]] == ["m", "m:Ann"]
        assert (await ask(url, "GET", "/v1/models/m:Ann", key="k1"))[0] == 200
        assert (await ask(url, "GET", "/v1/models/m:Bob", key="k1"))[0] == 404

    options = ServerOptions(adapter_by_user=True, other_keys={"k1": "Ann"})
    with serving(tiny, "fine", options=options) as (engine, url):
        asyncio.run(play(url, engine))


def test_redacted_turns_reach_the_sinks_without_the_tokens_that_spell_them(
    tiny: Path, tmp_path: Path
) -> None:
    def redact(turn: Turn) -> Turn:
        hidden = [{**m, "content": m["content"].replace("Ann", "***")} for m in turn.messages]
        return replace(turn, messages=tuple(hidden)) if "Ann" in str(turn.messages) else turn

    async def play(url: str) -> None:
        _, reply, _ = await ask(url, body=chat("my name is Ann"))
        messages = [*chat("my name is Ann")["messages"], reply["choices"][0]["message"]]
        await ask(url, body={"messages": [*messages, {"role": "user", "content": "bye"}]})
        _, counters, _ = await ask(url, "GET", "/admin/stats")
        assert counters["drift"]["exact"] == 1 and counters["unfit_turns"] == {"redacted": 2}

    with serving(tiny, "fine", options=ServerOptions(sessions=tmp_path, redact=redact)) as (_, url):
        asyncio.run(play(url))
    with Journal(tmp_path) as journal:
        first, second = (kept for kept, _ in journal.read())
    assert first.messages[0]["content"] == "my name is ***" and not first.prompt_ids_P
    assert first.unfit == ("redacted",)
    assert not second.token_ids_T and not second.prompt_ids_P  # these spell the first one, too


def test_one_bad_row_costs_the_journal_that_row(tmp_path: Path) -> None:
    """Bug prevented: its thread ends, and everything after is lost without a word."""
    with Journal(tmp_path) as journal:
        journal.turn(turn("s", "a"))
        journal._writes.put(lambda db: {}["missing"])
        journal.turn(turn("s", "b"))
        assert [kept.text for kept, _ in journal.read()] == ["a", "b"]
        assert journal.num_lost == 1
        with pytest.raises(TypeError):
            journal.turn(replace(turn("s", "c"), text={1}))  # type: ignore[arg-type]


def test_owners_and_sessions_cannot_be_mistaken_for_each_other() -> None:
    """Bug prevented: owner "a:b" with session "c" continues owner "a" with session "b:c"."""
    store = SessionStore()
    store.record(turn("c", "x", owner="a:b"))
    assert store.find("a", "b:c", Trail(said("x"))) is None
    assert store.find("a:b", "c", Trail(said("x"))) is not None


def test_numbers_written_by_another_language_are_the_same_call() -> None:
    """Bug prevented: 1.0 comes back as 1 from a JavaScript client and the reply is tokenised
    again."""
    asked = [{"role": "user", "content": "x"}]

    def reply(arguments: str) -> dict[str, Any]:
        function = {"name": "f", "arguments": arguments}
        return {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}

    nodes = {Trail(asked).node("", None, reply(a)) for a in ('{"p": 1.0}', '{"p":1}')}
    assert len(nodes) == 1
    assert Trail(asked).node("", None, reply('{"p": 1.5}')) not in nodes


def test_a_pause_that_nobody_ends_ends_itself(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug prevented: a learner dies between pause and resume and everybody waits for ever."""
    monkeypatch.setattr(admin, "PAUSE_LEASE_S", 0.2)

    async def play(url: str, engine: Any) -> None:
        assert (await ask(url, path="/admin/pause"))[0] == 200
        assert not engine.gate.is_set()
        await asyncio.sleep(0.5)
        assert engine.gate.is_set()
        await ask(url, path="/admin/pause")
        await ask(url, path="/admin/resume")
        await ask(url, path="/admin/pause")
        await asyncio.sleep(0.1)
        assert not engine.gate.is_set()
        await asyncio.sleep(0.4)
        assert engine.gate.is_set()

    with serving(tiny, "fine") as (engine, url):
        asyncio.run(play(url, engine))


def test_counting_tokens_counts_as_no_turn(tiny: Path) -> None:
    async def play(url: str) -> None:
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        _, counted, _ = await ask(url, path="/v1/messages/count_tokens", body=body)
        assert counted["input_tokens"] > 2
        _, counters, _ = await ask(url, "GET", "/admin/stats")
        assert set(counters["drift"].values()) == {0}

    with serving(tiny, "fine") as (_, url):
        asyncio.run(play(url))


def test_history_that_is_not_on_record_is_forked(tiny: Path) -> None:
    """Bug prevented: an edited reply of an inferred session counted as a new conversation."""

    async def play(url: str) -> None:
        await ask(url, body=chat("one"))
        edited = {"role": "assistant", "content": "edited"}
        messages = [*chat("one")["messages"], edited, {"role": "user", "content": "two"}]
        await ask(url, body={"messages": messages})
        _, counters, _ = await ask(url, "GET", "/admin/stats")
        assert counters["drift"] == {"new": 1, "exact": 0, "realigned": 0, "forked": 1}
        _, listed, _ = await ask(url, "GET", "/v1/sessions")
        assert [row["num_turns"] for row in listed["data"]] == [2]

    with serving(tiny, "fine") as (_, url):
        asyncio.run(play(url))


def test_a_response_is_gone_on_from_in_its_session(tiny: Path) -> None:
    async def play(url: str) -> None:
        path = "/v1/responses"
        _, first, _ = await ask(url, path=path, body={"input": "one"}, **{"X-Session-Id": "s"})
        body = {"input": "two", "previous_response_id": first["id"]}
        _, _, headers = await ask(url, path=path, body=body)
        assert headers["X-Session-Id"] == "s"
        _, counters, _ = await ask(url, "GET", "/admin/stats")
        assert counters["drift"]["exact"] == 1

    with serving(tiny, "fine") as (_, url):
        asyncio.run(play(url))


def test_redacted_arrays_are_empty_arrays() -> None:
    """A turn without tokens still goes through JSON."""
    empty = replace(turn("s", "a"), prompt_ids_P=array("i"), logprobs_T=array("d"))
    assert Turn.from_json(json.loads(empty.line())).prompt_ids_P == array("i")


def test_a_response_that_was_not_stored_cannot_be_named(tiny: Path) -> None:
    """Bug prevented: ``store: false`` ignored. Its session still goes on exactly when the client
    sends everything."""

    async def play(url: str) -> None:
        path = "/v1/responses"
        _, first, _ = await ask(url, path=path, body={"input": "one", "store": False})
        body = {"input": "two", "previous_response_id": first["id"]}
        status, refused, _ = await ask(url, path=path, body=body)
        assert status == 404 and refused["error"]["param"] == "previous_response_id"
        items = [{"role": "user", "content": "one"}, *first["output"]]
        await ask(url, path=path, body={"input": [*items, {"role": "user", "content": "two"}]})
        _, counters, _ = await ask(url, "GET", "/admin/stats")
        assert counters["drift"]["exact"] == 1

    with serving(tiny, "fine") as (_, url):
        asyncio.run(play(url))


def test_no_call_is_read_where_none_is_wanted(tiny: Path) -> None:
    """``tool_choice: none``: the tools stay in the prompt, so the next turn does not fork."""

    async def play(url: str) -> None:
        body: dict[str, Any] = {**chat(), "tools": TOOLS, "tool_choice": "none"}
        _, first, _ = await ask(url, body=body)
        said = first["choices"][0]["message"]
        assert said["content"] == CALLS and "tool_calls" not in said
        messages = [*body["messages"], said, {"role": "user", "content": "now"}]
        await ask(url, body={"messages": messages, "tools": TOOLS})
        _, counters, _ = await ask(url, "GET", "/admin/stats")
        assert counters["drift"]["exact"] == 1

    with serving(tiny, CALLS) as (_, url):
        asyncio.run(play(url))
