"""Problem statements from what a distribution says about its own release."""

import re
from collections.abc import Mapping

from envs.swe.trees import Tree

_NAMES = re.compile(r"^(CHANGE(S|LOG)?|CHANGELOG|NEWS|HISTORY|README)(\.(md|rst|txt))?$", re.I)
_MOST_CHARS = 700
_THANKS = re.compile(r"[ \t]*\(?\b[Tt]hanks\b[^.()!\n]*(\([^)\n]*\))?[^.()!\n]*[.)!]?")


def changelog_entry(tree: Tree, version: str) -> str:
    """Return the entry of a version as plain text, or "" when the tree has none.

    Two shapes are known: a heading that names the version, up to the next heading that names one,
    and a list with one item per version.
    """
    for path in sorted(tree):
        if not _NAMES.match(path):
            continue
        text = tree[path].decode("utf-8", "replace")
        entry = _section(text, version) or _item(text, version)
        if entry:
            return _clean(entry)
    return ""


def _section(text: str, version: str) -> str:
    heading = re.compile(
        rf"^(?:#+ *)?(?:\[|v|version |release )*{re.escape(version)}(?![.\d])[^\n]*$", re.I | re.M
    )
    found = heading.search(text)
    if found is None:
        return ""
    rest = text[found.end() :]
    following = re.search(
        r"^(?:#+ *)?(?:\[|v|version |release )*\d+\.\d+[^\n]*\n?(?=[-=*~#\n])", rest, re.I | re.M
    )
    return rest[: following.start()] if following else rest


def _item(text: str, version: str) -> str:
    found = re.search(
        rf"^[-*] *v?{re.escape(version)}(?![.\d])[ :]*((?:[^\n]+\n)(?:[ \t]+[^\n]+\n)*)", text, re.M
    )
    return found.group(1) if found else ""


def _clean(entry: str) -> str:
    text = re.sub(r"^[-=*~^]{3,}\s*$", "", entry, flags=re.M)
    text = re.sub(r"^#+\s*", "", text, flags=re.M)
    text = re.sub(r"\(?\[(#\d+)\]\([^)]*\)\)?", "", text)
    text = re.sub(r"\s*\((?::\w+:`[^`]*`|#\d+|(?:issue|pr|bug)\s*#?\d+[^)]*|fix #\d+)\)", "", text)
    text = re.sub(r":\w+:`([^`<]*?)`", r"\1", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    text = re.sub(r"\s*\[[\w, ]+\]$", "", text, flags=re.M)
    text = re.sub(r"https?://\S+", "", text)
    text = re.sub(r"[ \t]*\n[ \t]*(?![-*\s])", " ", text)
    text = _THANKS.sub("", text)
    lines = [line.strip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line)[:_MOST_CHARS].strip()


def statement(package: str, version: str, entry: str, messages: Mapping[str, str]) -> str:
    """Write the problem as an issue: the changelog's words, or, without any, what fails how.

    Args:
        version: the buggy one.
        entry: of the fixed version; "" falls back to ``messages``.
        messages: per failing test, the first line of why.
    """
    head = f"The source of {package} {version} is in this folder."
    if entry:
        return (
            f"{head} The next release reports these changes, which are still missing here:\n\n"
            f"{entry}\n\nMake them in the package's source. Hidden tests judge the result."
        )
    shown = []
    for name, message in list(messages.items())[:3]:
        test = name.rpartition("::")[2]
        line = " ".join(message.split())[:160]
        shown.append(f"- {test}: {line}")
    return (
        f"{head} Its behaviour is wrong in these cases:\n\n" + "\n".join(shown) + "\n\n"
        "Mend the package's source. Hidden tests judge the result."
    )
