"""One-edit bugs of the corpus: made once by running them, kept in ``bugs.json``.

``python -m envs.swe generate`` makes the file anew (a few minutes): each possible edit of each
function runs against that function's checks; one is kept when a check fails, every call returns
within the limit, and a short ``sed`` takes it back. Loading reads the file and runs nothing.
"""

import hashlib
import json
import secrets
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from envs.errors import TaskError
from envs.swe.call_grading import Answer, read_answers, request_bytes, runner_argv
from envs.swe.corpus import Check, Function, load_functions
from envs.swe.edits import Edit, possible_edits, sed_command
from envs.swe.programs import tagged_lines

BUGS_FILE = Path(__file__).with_name("bugs.json")
MOST_PER_FUNCTION = 7
_TIMEOUT_S = 8.0
_MOST_EXAMPLE_CHARS = 90


@dataclass(frozen=True)
class Bug:
    """One bug that a check finds.

    Attributes:
        function: name in the corpus.
        edit: what spoils the right source.
        fails: indices of the checks that fail with it; at least one.
        example: index of the check the instruction shows; one of ``fails``.
        answer: what that check's call does instead, as in ``returns 2``.
    """

    function: str
    edit: Edit
    fails: tuple[int, ...]
    example: int
    answer: str

    @property
    def name(self) -> str:
        """Short stable name, unique within the function."""
        e = self.edit
        return hashlib.sha256(f"{e.line}:{e.column}:{e.old}:{e.new}".encode()).hexdigest()[:6]


@cache
def load_bugs() -> tuple[Bug, ...]:
    """Return the kept bugs, grouped by function.

    Raises:
        TaskError: the file was made from another corpus.
    """
    stored = json.loads(BUGS_FILE.read_text("utf-8"))
    if stored["corpus"] != corpus_digest():
        raise TaskError(
            f"{BUGS_FILE.name} belongs to another corpus: run python -m envs.swe generate"
        )
    return tuple(_from_row(row) for row in stored["bugs"])


def corpus_digest() -> str:
    """Return a digest of all sources and checks."""
    rows = [asdict(function) for function in load_functions().values()]
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:16]


def generate(progress: Callable[[int, int], None]) -> int:
    """Make ``bugs.json`` anew; returns how many bugs it holds.

    Args:
        progress: called with functions done and functions in all.
    """
    functions = list(load_functions().values())
    bugs: list[Bug] = []
    for done, function in enumerate(functions, start=1):
        bugs += bugs_of(function)
        progress(done, len(functions))
    rows = ",\n".join(json.dumps(_to_row(bug)) for bug in bugs)
    text = f'{{"corpus": "{corpus_digest()}",\n"bugs": [\n{rows}\n]}}\n'
    with tempfile.NamedTemporaryFile(
        "w", dir=BUGS_FILE.parent, delete=False, encoding="utf-8"
    ) as file:
        file.write(text)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(BUGS_FILE)
    return len(bugs)


def bugs_of(function: Function) -> list[Bug]:
    """Return up to ``MOST_PER_FUNCTION`` bugs of a function, of as many kinds as there are.

    The order is the same on every machine; those that leave a check passing come first.
    """
    found: dict[str, list[Bug]] = defaultdict(list)
    for edit in possible_edits(function.source):
        bug = _try(function, edit)
        if bug is not None:
            found[edit.kind].append(bug)
    for bugs in found.values():
        bugs.sort(key=lambda bug: (len(bug.fails) == len(function.checks), bug.name))
    kept: list[Bug] = []
    while len(kept) < MOST_PER_FUNCTION and any(found.values()):
        for kind in ("operator", "constant", "name", "call"):
            if found[kind] and len(kept) < MOST_PER_FUNCTION:
                kept.append(found[kind].pop(0))
    return kept


def _try(function: Function, edit: Edit) -> Bug | None:
    buggy = edit.apply(function.source)
    if sed_command(buggy, edit.inverse(), function.file) is None:
        return None
    answers = run_on_host(function.file, buggy, function.checks)
    if any(answer.kind == "nothing" for answer in answers):
        return None
    pairs = list(zip(answers, function.checks, strict=True))
    fails = tuple(i for i, (answer, check) in enumerate(pairs) if not answer.meets(check))
    shown = [(len(str(pairs[i][0])) + len(pairs[i][1].call), i) for i in fails]
    if not shown or min(shown)[0] > _MOST_EXAMPLE_CHARS:
        return None
    example = min(shown)[1]
    return Bug(function.name, edit, fails, example, str(answers[example]))


def run_on_host(file: str, source: str, checks: Sequence[Check]) -> list[Answer]:
    """Evaluate checks on a source of the corpus here, under the sandbox runner's own limits."""
    tag = secrets.token_hex(8)
    try:
        done = subprocess.run(
            runner_argv(sys.executable),
            input=request_bytes(tag, file, source, checks),
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            env={},
        )
    except subprocess.TimeoutExpired:
        return [Answer("nothing")] * len(checks)
    lines = tagged_lines(done.stdout.decode("utf-8", "replace"), tag)
    if lines is None:
        raise RuntimeError(f"the runner did not start: {done.stderr.decode()[-400:]}")
    return read_answers(lines, len(checks))


def _to_row(bug: Bug) -> list[Any]:
    e = bug.edit
    edit = [e.kind, e.line, e.column, e.old, e.new]
    return [bug.function, edit, list(bug.fails), bug.example, bug.answer]


def _from_row(row: Sequence[Any]) -> Bug:
    function, edit, fails, example, answer = row
    return Bug(function, Edit(*edit), tuple(fails), example, answer)
