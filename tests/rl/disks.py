"""A disk small enough to be full: a file system of a few MiB in memory."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size_mib: int) -> Iterator[Path]:
    """Mount one at a folder; fails, with the reason, where mounting is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "none", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.fail(f"a small disk could not be mounted, be root: {done.stderr}", pytrace=False)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, but: int = 0) -> Path:
    """Fill a disk up to ``but`` bytes; return the file that does."""
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file:
        with suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        with suppress(OSError):
            while True:
                file.write(bytes(512))
        file.truncate(max(0, file.tell() - but))
    return filler
