"""Telling a full disk from other failures to write.

Programs say it in many ways: an ``errno``, a code of SQLite, a sentence of safetensors, and torch
only that a position is unexpected. Whoever writes asks here before it calls a failure by its name.
"""

import errno
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rl.errors import NoSpaceError

NOTHING = 1 << 20  # bytes free or less: nothing can be written any more
_SENTENCES = ("no space left on device", "os error 28", "disk is full", "disk quota exceeded")


def no_space(error: BaseException, path: Path) -> NoSpaceError | None:
    """Return what to raise if a failure to write was a full disk, else None.

    Args:
        error: the failure.
        path: what was being written.
    """
    if isinstance(error, NoSpaceError):
        return error
    name = error.filename if isinstance(error, OSError) and error.filename else path
    return NoSpaceError(str(name)) if _says_so(error) or is_full(path) else None


def is_full(path: Path) -> bool:
    """Return whether nothing can be written where a path is, or would be."""
    return _left(path) <= NOTHING


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Within it a failure that is a full disk is raised as ``NoSpaceError``, others as they are."""
    try:
        yield
    except Exception as error:
        if (full := no_space(error, path)) is not None:
            raise full from error
        raise


def _says_so(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    if isinstance(error, sqlite3.Error):
        code: int | None = getattr(error, "sqlite_errorcode", None)
        return code == sqlite3.SQLITE_FULL
    return any(sentence in str(error).lower() for sentence in _SENTENCES)


def _left(path: Path) -> int:
    """Return the free bytes where a path is, or would be."""
    there = path.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        return shutil.disk_usage(there).free
    except OSError:
        return NOTHING + 1  # not known: no reason to call it full
