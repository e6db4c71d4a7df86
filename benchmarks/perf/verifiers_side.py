"""verifiers as a child of ``python -m benchmarks.perf rollout``, in its own environment.

    PEER_PYTHON -m benchmarks.perf.verifiers_side EPISODES

Plays the episodes that ``rl.rollouts`` plays, with the very same waits: a client that answers after
its wait, an environment whose steps wait in the loop. (Ours are called in threads, as environments
that block are; in its default pool of threads they would queue.) Its own ``generate`` runs them all
at once. Prints one JSON line.
"""

import asyncio
import json
import logging
import sys
import time
from typing import Any

import verifiers as vf  # type: ignore[import-not-found]
from datasets import Dataset  # type: ignore[import-not-found]
from verifiers.clients import Client  # type: ignore[import-not-found]
from verifiers.types import Response, ResponseMessage  # type: ignore[import-not-found]

from agents.waits import ENV_S, POLICY_S, TURNS, ideal_s, wait_s


def _name(state: Any) -> str:
    return f"e{state['example_id']}"


class SlowClient(Client):  # type: ignore[misc]
    """Says ``true`` after its wait."""

    def setup_client(self, config: Any) -> None:
        """Nothing is open."""

    async def to_native_tool(self, tool: Any) -> Any:
        """Return it as it is."""
        return tool

    async def to_native_prompt(self, messages: Any) -> tuple[Any, dict[str, Any]]:
        """Return them as they are."""
        return messages, {}

    async def get_native_response(
        self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **kwargs: Any
    ) -> Any:
        """Wait."""
        state = kwargs["state"]
        await asyncio.sleep(wait_s(_name(state), len(state["trajectory"]), POLICY_S))
        message = ResponseMessage(
            role="assistant", content="true", finish_reason="stop", is_truncated=False
        )
        return Response(id="r", created=0, model=model, message=message)

    async def raise_from_native_response(self, response: Any) -> None:
        """It is valid."""

    async def from_native_response(self, response: Any) -> Any:
        """Return it as it is."""
        return response

    async def close(self) -> None:
        """Nothing is open."""


class SlowEnv(vf.MultiTurnEnv):  # type: ignore[misc]
    """Takes a step in its wait; the last one ends the episode."""

    async def env_response(self, messages: Any, state: Any, **_: Any) -> Any:
        """Wait."""
        turn = len(state["trajectory"]) - 1
        await asyncio.sleep(wait_s(_name(state), turn, ENV_S))
        said = [{"role": "user", "content": "Wait."}]
        if turn + 1 == TURNS:
            state["final_env_response"] = said
        return said


async def measure(num_episodes: int) -> dict[str, float]:
    """Play the episodes all at once."""
    rows = [
        {"example_id": n, "prompt": [{"role": "user", "content": "Wait."}], "answer": ""}
        for n in range(num_episodes)
    ]
    env = SlowEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[lambda **_: 1.0]))
    begun = time.perf_counter()
    out = await env.generate(
        env.get_dataset(), client=SlowClient(None), model="slow", on_progress=lambda *_: None
    )
    wall = time.perf_counter() - begun
    turns = [len(each["completion"]) for each in out["outputs"]]
    assert turns == [2 * TURNS] * num_episodes, turns[:5]
    return {"wall_s": wall, "ideal_s": ideal_s([f"e{n}" for n in range(num_episodes)])}


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    sys.stdout.write(json.dumps(asyncio.run(measure(int(sys.argv[1])))) + "\n")
