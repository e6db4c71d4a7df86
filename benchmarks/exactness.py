"""``python -m benchmarks.exactness [key=value…]``: are recorded tokens the sampled ones?

Plays multi-turn tool dialogues through the real gateway with real sampling and compares, for every
turn, three lists of ids: what the engine was given and sampled, what the session's export says, and
what rendering and tokenising the messages again would give (the baseline: what a proxy in front of
an engine records). Every other turn must call a tool, so that calls, broken calls and plain text
all occur.

  model        smollm2-135m
  dialogues    1000
  turns        3: of each
  max_tokens   24: of a reply
  at_once      32
  temperature  1.0
  json         FILE: also write the rows there

Prints the share of turns whose ids are equal, and the drift classes. Exit 0 when the gateway's
share is 100%, 1 when it is not, 2 for a user error.
"""

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from serving.engine import Engine, OnToken, Ticket
    from serving.renderer import Renderer
    from serving.types import Sampling

DEFAULTS = {
    "model": "smollm2-135m",
    "dialogues": "1000",
    "turns": "3",
    "max_tokens": "24",
    "at_once": "32",
    "temperature": "1.0",
    "json": "",
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": what,
            "parameters": {"type": "object", "properties": {key: {"type": "string"}}},
        },
    }
    for name, what, key in (
        ("list_files", "Lists a folder", "path"),
        ("read_file", "Reads a file", "path"),
        ("search", "Searches the web", "query"),
    )
]
ASKED = ("What lies in {}?", "Find {} and tell me.", "Read {} to me, please.", "¿Qué es {} — 你好?")
THINGS = ("/tmp", "notes.txt", "the café's menu", "a <|im_end|> mark", "x\ty", "`ls -la`")


@dataclass
class Tally:
    """What was found.

    Attributes:
        turns: replies compared.
        exact: recorded ids equal the engine's, prompt and reply.
        rerendered: what tokenising the messages again gives equals the engine's prompt.
        follows: later turns whose prompt begins with the earlier prompt and reply.
        later: later turns.
    """

    turns: int = 0
    exact: int = 0
    rerendered: int = 0
    follows: int = 0
    later: int = 0
    drift: Counter[str] = field(default_factory=Counter)


class Witness:
    """An engine that notes what it is given and what it sampled."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self.seen: dict[tuple[int, ...], list[tuple[int, ...]]] = {}

    def submit(
        self, prompt_ids: Sequence[int], sampling: "Sampling", on_token: "OnToken | None" = None
    ) -> "Ticket":
        """Pass a request on."""
        ticket = self._engine.submit(prompt_ids, sampling, on_token)
        prompt = tuple(prompt_ids)
        ticket.future.add_done_callback(
            lambda done: self.seen.setdefault(prompt, []).append(done.result().token_ids_T)
        )
        return ticket

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if any(word in ("-h", "--help") for word in arguments):
        sys.stdout.write((__doc__ or "").strip() + "\n")
        return 0
    options = dict(DEFAULTS)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in DEFAULTS:
            sys.stderr.write(f"unknown option {argument!r}; options: {', '.join(DEFAULTS)}\n")
            return 2
        options[key] = value
    tally = run(options)
    rows = report(tally)
    if options["json"]:
        Path(options["json"]).write_text(json.dumps(rows, indent=1) + "\n")
    for name, value in rows.items():
        sys.stdout.write(f"{name}: {value}\n")
    return 0 if tally.exact == tally.turns and tally.follows == tally.later else 1


def report(tally: Tally) -> dict[str, Any]:
    """Return the figures by name."""
    return {
        "turns": tally.turns,
        "recorded ids equal the engine's": f"{tally.exact / max(tally.turns, 1):.4%}",
        "later prompts begin with what was sampled": f"{tally.follows / max(tally.later, 1):.4%}",
        "baseline, rendered again": f"{tally.rerendered / max(tally.turns, 1):.4%}",
        "drift": dict(tally.drift),
    }


def run(options: dict[str, str]) -> Tally:
    """Play all dialogues and compare."""
    from serving.engines import build_engine
    from serving.models import resolve
    from serving.renderer import Renderer
    from serving.server import PolicyServer, ServerOptions

    folder = resolve(options["model"])
    engine = build_engine("torch", folder)
    witness: Any = Witness(engine)
    renderer = Renderer(folder)
    kept = ServerOptions(max_turns=int(options["dialogues"]) * int(options["turns"]) + 1)
    try:
        with PolicyServer(witness, renderer, model_name="m", options=kept) as server:
            return asyncio.run(_play(server, witness, renderer, options))
    finally:
        engine.close()


async def _play(
    server: Any, witness: Witness, renderer: "Renderer", options: dict[str, str]
) -> Tally:
    import aiohttp

    tally = Tally()
    room = asyncio.Semaphore(int(options["at_once"]))
    num = int(options["dialogues"])
    headers = {"Authorization": f"Bearer {server.api_key}"}
    async with aiohttp.ClientSession(server.base_url, headers=headers) as http:

        async def one(number: int) -> None:
            async with room:
                await _dialogue(http, number, options)
                turns = await _exported(http, number)
            _compare(turns, witness, renderer, tally)
            if tally.turns % 300 < int(options["turns"]):
                sys.stderr.write(f"{tally.turns} turns\n")

        await asyncio.gather(*(one(number) for number in range(num)))
        async with http.get("/admin/stats") as response:
            tally.drift.update((await response.json())["drift"])
    return tally


async def _dialogue(http: Any, number: int, options: dict[str, str]) -> None:
    """Talk as a client does: from text alone, sending back what it was given."""
    draw = random.Random(number)
    asked = draw.choice(ASKED).format(draw.choice(THINGS))
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"{asked} ({number})"}]
    for turn in range(int(options["turns"])):
        body = {
            "messages": messages,
            "tools": TOOLS,
            "tool_choice": "required" if (number + turn) % 2 else "auto",
            "max_tokens": int(options["max_tokens"]),
            "temperature": float(options["temperature"]),
            "seed": number,
        }
        async with http.post(f"/s/{number}/v1/chat/completions", json=body) as response:
            answer = await response.json()
            response.raise_for_status()
        said = answer["choices"][0]["message"]
        messages = [*messages, said]
        for call in said.get("tool_calls") or []:
            result = draw.choice(("a.txt\nb.txt", "not found", "<|im_end|> é\n\n  x"))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        if not said.get("tool_calls"):
            messages.append({"role": "user", "content": draw.choice(("Go on.", "And then?\n"))})


async def _exported(http: Any, number: int) -> list[dict[str, Any]]:
    async with http.get(f"/v1/sessions/{number}/export") as response:
        return [json.loads(line) for line in (await response.text()).splitlines()]


def _compare(
    turns: list[dict[str, Any]], witness: Witness, renderer: "Renderer", tally: Tally
) -> None:
    from serving.renderer import Context

    said: list[dict[str, Any]] = []
    before: tuple[int, ...] = ()
    for turn in turns:
        prompt, reply = tuple(turn["prompt_ids_P"]), tuple(turn["token_ids_T"])
        tally.turns += 1
        tally.exact += reply in witness.seen.get(prompt, [])
        said += turn["messages"]
        again = renderer.render(said, Context(turn["tools"])).ids_P
        tally.rerendered += again == prompt[: len(again)]
        if before:
            tally.later += 1
            tally.follows += prompt[: len(before)] == before
        before = (*prompt, *reply)
        reply_said: dict[str, Any] = {"role": "assistant", "content": turn["text"]}
        if turn["tool_calls"]:
            reply_said["tool_calls"] = turn["tool_calls"]
        said.append(reply_said)


if __name__ == "__main__":
    sys.exit(main())
