"""Tasks from one-edit bugs: a short instruction, one small file, hidden checks.

Every bug is reported by what a call returns (``level:easy`` or, in a longer file,
``level:medium``). In a short file it is reported a second time by a reviewer who quotes the place
and says how it should read (``level:trivial``): what is left is to make the edit.

Two kinds of held-out tasks: whole functions that training never sees (``heldout:template``), and,
of the functions it does see, one bug each (``heldout:parameters``). Both reports of a bug lie on
the same side.
"""

from dataclasses import replace
from functools import cache

from envs.swe.bugs import Bug, load_bugs
from envs.swe.corpus import Function, load_functions
from envs.swe.edits import fragment, sed_command
from envs.types import Split, Task, TaskLimits

FOLDER = "/workspace/app"
HELDOUT_FUNCTIONS = frozenset(
    (
        "add_minutes", "balanced", "clamp", "digit_sum", "discount", "find_index", "grade",
        "inside", "is_leap", "is_sorted", "longest_word", "manhattan", "median", "overlap",
        "parse_range", "rank", "run_length", "running_total", "tax", "truncate", "two_sum",
        "value_range",
    )
)  # fmt: skip
_EASY_LINES = 12
_HIDDEN_BUGS_FROM = 4
_LIMITS = TaskLimits(max_steps=6, step_timeout_s=10.0, verifier_timeout_s=15.0, output_bytes=4096)


@cache
def generated_tasks() -> tuple[Task, ...]:
    """Return all generated tasks, grouped by function."""
    by_function: dict[str, list[Bug]] = {}
    for bug in load_bugs():
        by_function.setdefault(bug.function, []).append(bug)
    tasks = []
    for name, bugs in by_function.items():
        function = load_functions()[name]
        hidden = min(bugs, key=lambda bug: bug.name) if len(bugs) >= _HIDDEN_BUGS_FROM else None
        for bug in bugs:
            reported = _task(function, bug, held_out=bug is hidden)
            tasks += [reported, _quoted(reported, bug)] if _is_short(reported) else [reported]
    return tuple(tasks)


def _quoted(reported: Task, bug: Bug) -> Task:
    """Return the task of the same bug, told by a reviewer who quotes the place."""
    file = reported.data["file"]
    found = fragment(reported.data["source"], bug.edit.inverse(), file)
    assert found is not None
    place = f"line {found.line} of {file}" if found.line else file
    return replace(
        reported,
        id=f"{reported.id}/quoted",
        instruction=(
            f"In {place} the function {reported.family} says `{found.old.strip()}` where it "
            f"should say `{found.new.strip()}`. Fix the file."
        ),
        tags=tuple("level:trivial" if tag == "level:easy" else tag for tag in reported.tags),
    )


def _is_short(task: Task) -> bool:
    return "level:easy" in task.tags


def _task(function: Function, bug: Bug, *, held_out: bool) -> Task:
    buggy = bug.edit.apply(function.source)
    sed = sed_command(buggy, bug.edit.inverse(), function.file)
    assert sed is not None
    check = function.checks[bug.example]
    split: Split = "train"
    tags = ["source:generated", f"edit:{bug.edit.kind}"]
    easy = len(buggy.splitlines()) <= _EASY_LINES
    tags.append("level:easy" if easy else "level:medium")
    if function.name in HELDOUT_FUNCTIONS:
        split = "heldout"
        tags.append("heldout:template")
    elif held_out:
        split = "heldout"
        tags.append("heldout:parameters")
    return Task(
        id=f"swe/{function.name}/{bug.name}",
        env="swe",
        family=function.name,
        split=split,
        instruction=(
            f"In {function.file} the function {function.name} is wrong: {check.call} "
            f"{bug.answer}, expected {check.expected}. Fix the file."
        ),
        image="swe",
        limits=_LIMITS,
        data={
            "kind": "calls",
            "folder": FOLDER,
            "file": function.file,
            "source": buggy,
            "checks": [[c.call, c.expected] for c in function.checks],
            "fail_to_pass": list(bug.fails),
            "oracle": [sed],
            "demo": [f"cat {function.file}", sed],
        },
        tags=tuple(tags),
    )
