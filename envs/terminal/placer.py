"""Writes a task's files inside the sandbox, in one call.

Like ``inspector`` this file is sent whole into the sandbox and run by ``python3 -I -B -c``. It
reads ``{"root": folder, "files": {path: file}}`` on standard input. A file is its text, or a dict
with ``text`` or ``base64`` and optionally ``mode`` (octal text); ``{"dir": true}`` is a folder and
``{"link": target}`` a symbolic link. Every entry gets the same fixed modification time, or its
own ``mtime`` (seconds), so that listings are equal from run to run.
"""

# Runs on any Python from 3.9 and starts fast: no pathlib.
# ruff: noqa: PTH101, PTH103, PTH120, PTH123, PTH211

import base64
import json
import os
import sys
from typing import Any

MTIME = 1704067200


def place(path: str, entry: Any) -> None:
    """Write one entry."""
    file: dict[str, Any] = {"text": entry} if isinstance(entry, str) else entry
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    if "link" in file:
        os.symlink(file["link"], path)
        return
    if file.get("dir"):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, int(file.get("mode", "755"), 8))
        return
    data = base64.b64decode(file["base64"]) if "base64" in file else file["text"].encode()
    with open(path, "wb") as target:
        target.write(data)
    os.chmod(path, int(file.get("mode", "644"), 8))
    os.utime(path, (file.get("mtime", MTIME),) * 2)


def main() -> None:
    """Read the request, write the files, then give the folders their time."""
    os.umask(0o022)
    request = json.load(sys.stdin)
    os.chdir(request["root"])
    for path, entry in request["files"].items():
        place(path, entry)
    for folder, _, _ in os.walk(".", topdown=False):
        os.utime(folder, (MTIME, MTIME))


if __name__ == "__main__":
    main()
