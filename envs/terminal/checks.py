"""The vocabulary of goal states: small functions that build the checks a task carries.

A check is a dict of JSON values; ``envs.terminal.inspector`` decides it inside the sandbox, except
``runs``, whose program the environment starts itself so that it cannot forge the verdict. A
*guard* (``guard=True``) held at the start and must still hold; it earns no partial credit.

How contents are compared (``how``):
    ``text``       equal, newlines at the end of the file aside (``echo`` and ``printf`` pass)
    ``lines``      like text, and blanks at the ends of lines do not count
    ``any_order``  like lines, in any order
    ``names``      lines in any order, of which only the last path component counts
    ``number``     one number, blanks around it aside; 3, 3.0 and " 3" are equal
    ``bytes``      equal to the byte
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

Check = dict[str, Any]
RUNS_KEYS = ("path", "args", "stdin", "text", "how", "exit_code")
How = Literal["text", "lines", "any_order", "names", "number", "bytes"]


def file(
    path: str, text: str | int, how: How = "text", *, own: bool = False, guard: bool = False
) -> Check:
    """A plain file with this content; ``own`` refuses hard links (a copy must be a copy)."""
    check: Check = {"kind": "file", "path": path, "text": str(text), "how": how}
    return check | ({"own": True} if own else {}) | ({"guard": True} if guard else {})


def number(path: str, value: int | float) -> Check:
    """A file that holds this number and nothing else."""
    return file(path, f"{value}", "number")


def matches(path: str, pattern: str) -> Check:
    """A file whose whole text, blanks at the ends aside, matches a regular expression."""
    return {"kind": "matches", "path": path, "pattern": pattern}


def unchanged(files: Mapping[str, Any]) -> list[Check]:
    """Guards: these text files keep their content, to the byte."""
    return [
        file(path, entry if isinstance(entry, str) else entry["text"], "bytes", guard=True)
        for path, entry in files.items()
        if isinstance(entry, str) or "text" in entry
    ]


def exists(path: str, type: Literal["file", "dir"] | None = None, *, guard: bool = False) -> Check:
    """Something at the path, of a type if given."""
    check: Check = {"kind": "exists", "path": path}
    return check | ({"type": type} if type else {}) | ({"guard": True} if guard else {})


def absent(path: str) -> Check:
    """Nothing at the path."""
    return {"kind": "absent", "path": path}


def mode(path: str, equals: str = "", has: str = "0", lacks: str = "0") -> Check:
    """Permission bits in octal: exactly ``equals``, or all of ``has`` and none of ``lacks``."""
    check: Check = {"kind": "mode", "path": path, "has": has, "lacks": lacks}
    return check | ({"equals": equals} if equals else {})


def link(path: str, target: str) -> Check:
    """A symbolic link that leads to ``target`` (a path as seen from the working folder)."""
    return {"kind": "link", "path": path, "target": target}


def tree(path: str, files: Mapping[str, str | None], how: How = "text") -> Check:
    """A folder with exactly these files below it; ``None`` stands for any content."""
    return {"kind": "tree", "path": path, "files": dict(files), "how": how}


def compressed(path: str, text: str, format: Literal["gzip", "bzip2", "xz"] = "gzip") -> Check:
    """A compressed file with this content."""
    return {"kind": "compressed", "path": path, "text": text, "how": "bytes", "format": format}


def archive(
    path: str,
    files: Mapping[str, str],
    format: Literal["tar", "tar.gz", "zip"],
    *,
    strip: bool = False,
) -> Check:
    """An archive with exactly these files; ``strip`` compares base names only."""
    return {
        "kind": "archive",
        "path": path,
        "files": dict(files),
        "format": format,
        "strip": strip,
    }


def process(argv: Sequence[str], *, running: bool, pid_file: str = "") -> Check:
    """A process whose arguments start with ``argv`` is running, or none is."""
    check: Check = {"kind": "process", "argv": list(argv), "running": running}
    return check | ({"pid_file": pid_file} if pid_file else {})


def runs(
    argv: Sequence[str], output: str, *, stdin: str = "", how: How = "lines", exit_code: int = 0
) -> Check:
    """The agent's program, started with these arguments and input, prints this and ends so.

    ``argv[0]`` is a path from the working folder. Its output is judged outside the sandbox.
    """
    return {
        "kind": "runs",
        "path": argv[0],
        "args": list(argv[1:]),
        "stdin": stdin,
        "text": output,
        "how": how,
        "exit_code": exit_code,
    }


def name(check: Check) -> str:
    """Return a short name for reports."""
    subject = check.get("path") or " ".join(check.get("argv", ()))
    extra = " ".join(check.get("args", ()))
    return f"{check['kind']} {subject} {extra}".strip()
