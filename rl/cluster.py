"""Ray, started on this machine or joined, with this process's own signal handlers left in force.

``ray.init`` takes SIGTERM for itself, once in Python and once in native code, and would end a run
without saving. It runs in a thread of its own, so that signals are heard meanwhile, and the
handlers that were there are put back as often as it takes them away.
"""

import asyncio
import logging
import signal
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from rl.interrupts import SIGNALS

PUT_BACK_S = 0.005


async def connect(address: str | None) -> None:
    """Start Ray here, or join the cluster at an address. Nothing happens where it is up already."""
    import ray

    if ray.is_initialized():
        return
    logging.getLogger("ray").setLevel(logging.ERROR)  # it warns of not being in the main thread
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    main = threading.current_thread() is threading.main_thread()
    done: Future[None] = Future()
    # Ray's processes live as long as the thread that started them: it must not end
    threading.Thread(target=_start, args=(address, done), name="ray-start", daemon=True).start()
    started = asyncio.wrap_future(done)
    cancelled: asyncio.CancelledError | None = None
    while not started.done():
        try:
            await asyncio.wait({started}, timeout=PUT_BACK_S)
        except asyncio.CancelledError as error:  # half a start cannot be shut down: let it end
            cancelled = error
        if main:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    started.result()
    if cancelled is not None:
        raise cancelled


def _start(address: str | None, done: "Future[None]") -> None:
    import ray

    try:
        ray.init(**_options(address))
        done.set_result(None)
    except BaseException as error:
        done.set_exception(error)
    threading.Event().wait()


def _options(address: str | None) -> dict[str, Any]:
    if address is None:
        return {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
    root = str(Path(__file__).resolve().parent.parent)
    excludes = ["runs", ".venv", ".git"]
    runtime = {"working_dir": root, "excludes": excludes}
    return {"address": address, "runtime_env": runtime, "log_to_driver": False}
