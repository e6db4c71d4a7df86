"""Log-probs of given tokens by SGLang servers: prompts of which nothing is sampled."""

import asyncio
from collections.abc import Sequence
from typing import Any

from ..errors import EngineError
from .adapters import AdapterHandle
from .fleet import Fleet
from .http import ServerLost, ServerRefused
from .runner import MOST_ATTEMPTS, drop

MOST_AT_ONCE = 16
TRIES = 3  # before the weights are held still for it


async def score(
    fleet: Fleet, rows: Sequence[list[int]], adapter: AdapterHandle | None
) -> list[list[float]]:
    """Return for each sequence the log-probs of its 2nd to last token, at temperature 1.

    All are of one version: when weights changed meanwhile they are taken again.

    Raises:
        EngineError: no server could.
    """
    for _ in range(TRIES):
        key = fleet.cache_key
        scores = await _once(fleet, rows, adapter)
        if key == fleet.cache_key:
            return scores
    while True:
        await fleet.open.wait()
        async with fleet.changing:
            if fleet.open.is_set():  # else paused meanwhile, and the one who resumes needs the lock
                return await _once(fleet, rows, adapter)


async def _once(
    fleet: Fleet, rows: Sequence[list[int]], adapter: AdapterHandle | None
) -> list[list[float]]:
    at_once = asyncio.Semaphore(MOST_AT_ONCE)

    async def one(row: list[int]) -> list[float]:
        async with at_once:
            return await _row(fleet, row, adapter) if len(row) > 1 else []

    tasks = [asyncio.ensure_future(one(row)) for row in rows]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        await drop(*tasks)


async def _row(fleet: Fleet, row: list[int], adapter: AdapterHandle | None) -> list[float]:
    said = ""
    for _ in range(MOST_ATTEMPTS):
        server = await fleet.place(row)
        body: dict[str, Any] = {
            "input_ids": row,
            "sampling_params": {"max_new_tokens": 0, "temperature": 1.0},
            "return_logprob": True,
            "logprob_start_len": 0,
            "extra_key": fleet.cache_key,
        }
        if adapter is not None:
            body["lora_path"] = adapter.lora
        try:
            out = await server.generate(body)
        except ServerRefused as error:
            raise EngineError(f"scoring: {error}") from error
        except ServerLost as error:
            said = str(error)
            if server.alive:
                await fleet.suspect(server, said)
            continue
        finally:
            server.num_running -= 1
        given = out["meta_info"]["input_token_logprobs"]
        for at, (entry, token) in enumerate(zip(given, row, strict=True)):
            # the server (0.5.23) names the vocabulary's last token 0; its log-prob is right
            if entry[1] not in (token, 0):
                raise EngineError(f"token {at} is {token}, and the server scored {entry[1]}")
        return [float(entry[0]) for entry in given[1:]]
    raise EngineError(f"scoring gave up after {MOST_ATTEMPTS} attempts; the last: {said}")
