"""Two processes that hold one policy, started by tests without Ray, once for many calls."""

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch

from rl.ranks import Meeting

TIMEOUT_S = 300.0


class Pair:
    """Two ranks that wait for calls. A context manager that ends them."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._port = port = context.Queue()
        self._pipes, self._processes = [], []
        for rank in range(2):
            here, there = context.Pipe()
            process = context.Process(target=_work, args=(rank, port, there), daemon=True)
            process.start()
            self._pipes.append(here)
            self._processes.append(process)

    def __enter__(self) -> "Pair":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.join(10)

    def __call__(self, call: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call ``call(ranks, *arguments)``, a function of a module, on both; return what each
        returned."""
        for pipe in self._pipes:
            pipe.send((call, arguments))
        told = []
        for rank, pipe in enumerate(self._pipes):
            assert pipe.poll(TIMEOUT_S), f"rank {rank} said nothing"
            told.append(pipe.recv())
        for rank, (good, value) in enumerate(told):
            assert good, f"rank {rank}:\n{value}"
        return [value for _, value in told]


def _work(rank: int, port: Any, pipe: Connection) -> None:
    torch.set_num_threads(1)
    if rank == 0:
        place = Meeting("127.0.0.1", size=2)
        port.put(place.address[1])
    else:
        place = Meeting("127.0.0.1", port.get(timeout=TIMEOUT_S), 2, first=False)
    ranks = place.join(rank)
    while True:
        call, arguments = pipe.recv()
        try:
            pipe.send((True, call(ranks, *arguments)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))
