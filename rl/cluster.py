"""Ray, started on this machine or joined, with this process's own signal handlers left in force.

``ray.init`` takes SIGTERM for itself, in Python where it runs in the main thread and in native code
everywhere, and would end a run without saving. So it runs in a thread of its own, and its native
handler, which Ray installs once in a process, is installed before it, in one breath with putting
ours back.
"""

import asyncio
import ctypes
import logging
import signal
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from rl.interrupts import SIGNALS

INSTALL = "_ZN3ray6RayLog27InstallFailureSignalHandlerEPKcb"  # void(const char*, bool)


async def connect(address: str | None) -> None:
    """Start Ray here, or join the cluster at an address. Nothing happens where it is up already."""
    import ray

    if ray.is_initialized():
        return
    logging.getLogger("ray").setLevel(logging.ERROR)  # it warns of not being in the main thread
    if threading.current_thread() is threading.main_thread():
        _keep_signals()
    done: Future[None] = Future()
    # Ray's processes live as long as the thread that started them: it must not end
    threading.Thread(target=_start, args=(address, done), name="ray-start", daemon=True).start()
    started = asyncio.wrap_future(done)
    cancelled: asyncio.CancelledError | None = None
    while not started.done():
        try:
            await asyncio.wait({started})
        except asyncio.CancelledError as error:  # half a start cannot be shut down: let it end
            cancelled = error
    started.result()
    if cancelled is not None:
        raise cancelled


def _keep_signals() -> None:
    """Let Ray's native handlers be installed now, and put ours on top."""
    import ray._raylet

    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    getattr(ctypes.CDLL(ray._raylet.__file__), INSTALL)(b"", True)
    for number, handler in handlers.items():
        signal.signal(number, handler)


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
