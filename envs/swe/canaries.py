"""Tests whose outcome is known: what finds out a source that meddles with how tests are judged.

Some stand in a file of their own, one at the end of each test module that runs. Their names are
made of the tests' own names, so that no pattern tells them apart; they are drawn anew every time.
"""

import itertools
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_NUM_OWN = 5
_TEST = re.compile(rb"^[ \t]*(?:async )?def (test_\w+)", re.M)
_UNFIT = re.compile(rb"\b(pytestmark|load_tests|pytest_generate_tests|__test__)\b")


@dataclass(frozen=True)
class Canaries:
    """What was planted.

    Attributes:
        files: every file that holds one: test modules with theirs added, and ``own_file``.
        own_file: name of the file that holds nothing else, at the root of the tree.
        outcomes: the right outcome by node id, ``passed`` or ``failure``.
    """

    files: Mapping[str, bytes]
    own_file: str
    outcomes: Mapping[str, str]


def plant(
    support: Mapping[str, bytes], tests: Sequence[str], select: Sequence[str] | None
) -> Canaries:
    """Draw canaries for a run.

    Args:
        support: the tree's files beside the sources.
        tests: folders or files of the tests.
        select: node ids that run; None for all, when no test module is touched: which of them can
            be collected is not known yet.
    """
    draw = random.SystemRandom()
    modules = {name.partition("::")[0] for name in select or ()} & set(support)
    read = modules or {p for p in support if p.startswith(tuple(tests)) and p.endswith(".py")}
    known = {name.decode() for path in read for name in _TEST.findall(support[path])}
    words = sorted({word for name in known for word in name.split("_")[1:] if word}) or ["name"]
    taken = known | {path.rpartition("/")[2].removesuffix(".py") for path in support}

    def name() -> str:
        for length in itertools.count(2):  # few words: longer names, until one is free
            parts = [draw.choice(words) for _ in range(draw.randint(2, length + 2))]
            made = "_".join(["test", *parts])
            if made not in taken:
                taken.add(made)
                return made
        raise AssertionError("unreachable")

    own_file = f"{name()}.py"
    files, outcomes = {own_file: b""}, {}
    for number in range(_NUM_OWN):
        good = number == 0 or (number > 1 and draw.random() < 0.5)
        planted = name()
        files[own_file] += _text(planted, draw.choice(words), good)
        outcomes[f"{own_file}::{planted}"] = "passed" if good else "failure"
    for path in sorted(modules):
        if path.endswith(".py") and not _UNFIT.search(support[path]):
            planted = name()
            files[path] = support[path] + _text(planted, draw.choice(words), False)
            outcomes[f"{path}::{planted}"] = "failure"
    return Canaries(files, own_file, outcomes)


def _text(name: str, word: str, good: bool) -> bytes:
    return f"\n\ndef {name}():\n    assert {word!r} {'==' if good else '!='} {word!r}\n".encode()
