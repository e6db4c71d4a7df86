"""File work of the in-container server: every function runs in a child with the agent's rights.

So a link, a device or a path of the agent's making can reach nothing that the agent could not.
Stand-alone like ``server.py``, beside which the image build copies it.
"""

from __future__ import annotations

import ctypes
import io
import os
import shutil
import stat
import tarfile

SKELETON = "/opt/clawgym/skeleton"
MQUEUE = "/dev/mqueue"


def read(path: str, max_bytes: int) -> bytes:
    """Return a regular file's bytes, at most one more than ``max_bytes``."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with open(fd, "rb") as file:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(0, "Is a directory")
        if not stat.S_ISREG(mode):
            raise OSError(0, "Not a regular file")
        return file.read(max_bytes + 1)


def write(path: str, data: bytes, mode: int) -> bytes:
    """Replace ``path`` (a link itself, not what it points to) in one step."""
    if os.path.isdir(path) and not os.path.islink(path):
        raise OSError(0, "Is a directory")
    parent = os.path.dirname(path) or "."
    os.makedirs(parent, exist_ok=True)
    draft = os.path.join(parent, f".clawgym-{os.getpid()}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
    return b""


def dump(places: list[str]) -> bytes:
    """Return a tar of the writable places."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for place in places:
            for name in sorted(os.listdir(place)):
                tar.add(os.path.join(place, name), arcname=os.path.join(place, name).lstrip("/"))
    return buffer.getvalue()


def restore(places: list[str], archive: bytes) -> bytes:
    """Empty the writable places, prove them empty, fill them from ``archive`` or the skeleton."""
    for place in places:
        _reset_root(place)
        _wipe(place)
        if os.listdir(place):
            raise OSError(0, f"{place} could not be emptied")
    remove_ipc()
    if archive:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            if hasattr(tarfile, "fully_trusted_filter"):
                tar.extraction_filter = tarfile.fully_trusted_filter
            tar.extractall("/")
    else:
        for place in places:
            source = SKELETON + place
            if os.path.isdir(source):
                shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
                os.chmod(place, _mode(place))
    return b""


def _mode(place: str) -> int:
    return 0o1777 if place in ("/tmp", "/var/tmp", "/dev/shm") else 0o755


def _reset_root(place: str) -> None:
    """Undo what the agent did to the place itself: mode, extended attributes, access lists."""
    os.chmod(place, _mode(place))
    try:
        for name in os.listxattr(place):
            os.removexattr(place, name)
    except OSError:
        pass  # a file system without them


def _wipe(folder: str) -> None:
    """Remove all below ``folder``, whatever its modes and depth; follows no link.

    A folder's own folders are first moved up beside it. So no path gets long, whatever the depth,
    and two descriptors are open at most.
    """
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    prefix, moved = f".wipe-{os.urandom(8).hex()}-", 0
    while entries := _entries(top):
        for name, is_dir in entries:
            if not is_dir:
                os.unlink(name, dir_fd=top)
                continue
            os.chmod(name, 0o700, dir_fd=top)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
            for child, child_is_dir in _entries(inner):
                if not child_is_dir:
                    os.unlink(child, dir_fd=inner)
                    continue
                os.chmod(child, 0o700, dir_fd=inner)
                os.rename(child, f"{prefix}{moved}", src_dir_fd=inner, dst_dir_fd=top)
                moved += 1
            os.close(inner)
            os.rmdir(name, dir_fd=top)
    os.close(top)


def _entries(fd: int) -> list[tuple[str, bool]]:
    """Return names in a folder, and whether each is a folder itself (a link to one is not)."""
    with os.scandir(fd) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def remove_ipc() -> bytes:
    """Remove shared memory, semaphores and message queues: they outlive their processes, and the
    memory they hold would be missing to whoever runs next."""
    if os.path.isdir(MQUEUE):
        for name in os.listdir(MQUEUE):
            os.unlink(os.path.join(MQUEUE, name))
    libc = ctypes.CDLL(None)
    rm_id = 0
    for kind, control in (("shm", libc.shmctl), ("sem", libc.semctl), ("msg", libc.msgctl)):
        try:
            with open(f"/proc/sysvipc/{kind}") as table:
                rows = table.read().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            ident = int(row.split()[1])
            if kind == "sem":
                control(ident, 0, rm_id)
            else:
                control(ident, rm_id, None)
    return b""
