"""The difference of two source trees as a patch that ``git apply`` and ``patch -p1`` take.

Left out: modes, renames (a deletion and a new file), files that are no UTF-8 text, and names that
would need quoting.
"""

import difflib
from collections.abc import Iterator, Mapping

_EMPTY = "index 0000000..e69de29\n"


def unified(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """Return the patch that turns one tree into the other; "" when no text differs."""
    parts = []
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path) and _is_plain(path):
            parts.append(_file(path, before.get(path), after.get(path)))
    return "".join(parts)


def _file(path: str, old: bytes | None, new: bytes | None) -> str:
    """Return one file's part; "" for a binary one."""
    try:
        lines = _lines(old or b""), _lines(new or b"")
    except UnicodeDecodeError:
        return ""
    head = f"diff --git a/{path} b/{path}\n"
    tab = "\t" if " " in path else ""  # git's mark for where a name with blanks ends
    names = f"a/{path}{tab}", f"b/{path}{tab}"
    if old is None:
        head += "new file mode 100644\n" + ("" if new else _EMPTY)
        names = "/dev/null", names[1]
    elif new is None:
        head += "deleted file mode 100644\n" + ("" if old else "index e69de29..0000000\n")
        names = names[0], "/dev/null"
    return head + "".join(_ended(difflib.unified_diff(*lines, *names, lineterm="\n")))


def _lines(data: bytes) -> list[str]:
    """Split at line feeds only: other separators are part of a line, as in git."""
    text = data.decode("utf-8")
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _ended(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _is_plain(path: str) -> bool:
    return path.isprintable() and not set(path) & set('"\\')
