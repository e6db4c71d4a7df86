"""One episode on a SWE row: a machine of the row's image, and the verdict in a fresh one.

The agent works at ``/testbed`` of a container without network, in which no commit but the base is
left. Judging takes its changes as a patch, puts them on a fresh container by the official chain of
commands, runs the official script there, and has ``swebench`` read the log. Nothing of the agent's
container but the text of the patch gets there.
"""

import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from envs.errors import SetupError, VerifierError
from envs.sandbox.machine import MachineSandbox
from envs.swe.formats.official import NoTestOutput, verdict
from envs.swe.formats.recipes import ACTIVATE, PLACE, eval_script, patched_files, recipe_of
from envs.swe.formats.rows import Row
from envs.types import Verdict

APPLY = (
    "git apply --verbose",
    "git apply --verbose --3way",
    "git apply --verbose --reject",
    "patch --batch --forward --fuzz=5 -p1 -i",
)
Fresh = Callable[[], AbstractContextManager[MachineSandbox]]
PATCH_FILE = "/tmp/patch.diff"
MOST_PATCH_BYTES = 4 << 20
_HYGIENE = f"""cd {PLACE} || exit 9
git config --global --add safe.directory {PLACE}
for name in $(git remote); do git remote remove "$name"; done
here=$(git symbolic-ref -q HEAD)
git for-each-ref --format='%(refname)' | while read -r ref; do
  [ "$ref" = "$here" ] || git update-ref -d "$ref"
done
git reflog expire --expire=now --all && git gc --quiet --prune=now
[ "$(git rev-list --all --not HEAD | wc -l)" = 0 ] && git rev-parse HEAD
"""
_ENTER = f"cd {PLACE}; [ ! -f {ACTIVATE} ] || {{ source {ACTIVATE} && conda activate testbed; }}"
_SETTLE_S = 300.0


def prepare(machine: MachineSandbox, row: Row) -> str:
    """Bring a machine to the row's start; returns the commit that the agent's changes are against.

    Raises:
        SetupError: no usable tree at ``/testbed``.
        SandboxLost: the machine is gone.
    """
    if row.reversed:
        _spoil(machine, row)
    done = machine.exec(["bash", "-c", _HYGIENE], timeout_s=_SETTLE_S)
    if done.exit_code != 0:
        raise SetupError(f"{row.instance_id}: no clean tree at {PLACE}: {done.output[-300:]}")
    machine.shell(_ENTER, timeout_s=60.0)
    return done.output.strip().splitlines()[-1]


def _spoil(machine: MachineSandbox, row: Row) -> None:
    """Put in the bug of a SWE-smith row, as the base commit."""
    machine.write_file(PATCH_FILE, row.patch.encode())
    script = f"cd {PLACE} && git apply {PATCH_FILE} && git commit -q -a -m bug && rm {PATCH_FILE}"
    who = "GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x"
    done = machine.exec(["bash", "-c", f"export {who}; {script}"], timeout_s=60.0)
    if done.exit_code != 0:
        raise SetupError(f"{row.instance_id}: its bug does not fit: {done.output[-300:]}")


def agent_patch(machine: MachineSandbox, base: str) -> str:
    """Return what the agent changed since the base commit, as a patch.

    Raises:
        SandboxLost: the machine is gone.
    """
    script = f"cd {PLACE} && git add -A && git -c core.fileMode=false diff --cached {base}"
    done = machine.exec(["bash", "-c", script], timeout_s=120.0, max_output_bytes=MOST_PATCH_BYTES)
    return "" if done.exit_code or done.truncated else done.output


def grade(
    row: Row,
    patch: str,
    fresh: Fresh,
    timeout_s: float,
) -> tuple[Verdict, str]:
    """Return the official verdict on a patch, and the log it was read from.

    Args:
        fresh: lends a machine of the row's image, as it is.

    Raises:
        VerifierError: the tests do not run on the untouched tree either.
        SandboxLost, SandboxStartError: a machine failed.
    """
    if not patch.strip():
        return Verdict(0.0, failed=row.fail_to_pass, detail="the patch is empty"), ""
    if touched := sorted(set(patched_files(patch)) & set(patched_files(row.test_patch))):
        detail = f"the patch changes what judges it: {touched[0]}"
        return Verdict(0.0, failed=row.fail_to_pass, detail=detail), ""
    recipe = None if row.eval_script and row.log_parser else recipe_of(row)
    named = row if row.log_parser or recipe is None else replace(row, log_parser=recipe.log_parser)
    script = eval_script(row, recipe)
    log, problem = _run(row, patch, script, fresh, timeout_s)
    if problem:
        return Verdict(0.0, failed=row.fail_to_pass, detail=problem), log
    try:
        return verdict(named, log, patch), log
    except NoTestOutput as error:
        untouched, why = _run(row, "", script, fresh, timeout_s)
        try:
            verdict(named, untouched)
        except NoTestOutput:
            raise VerifierError(f"{row.instance_id}: no tests run: {why or error}") from error
        return Verdict(0.0, failed=row.fail_to_pass, detail=f"with the patch: {error}"), log


def _run(
    row: Row,
    patch: str,
    script: str,
    fresh: Fresh,
    timeout_s: float,
) -> tuple[str, str]:
    """Return the log of the judging script on a patch, and why there is none, or ""."""
    with fresh() as machine:
        if row.reversed:
            _spoil(machine, row)
        if patch and not _apply(machine, patch):
            return "", "the patch does not apply"
        machine.write_file("/eval.sh", script.encode())
        done = machine.exec(
            ["/bin/bash", "/eval.sh"], timeout_s=timeout_s, cwd=PLACE, max_output_bytes=32 << 20
        )
        if done.timed_out:
            return done.output, f"the tests ran past {timeout_s:.0f} s"
        return done.output, ""


def _apply(machine: MachineSandbox, patch: str) -> bool:
    """Apply a patch by the official chain; each attempt starts from the untouched tree."""
    machine.write_file(PATCH_FILE, patch.encode())
    tries = [f"{command} {shlex.quote(PATCH_FILE)}" for command in APPLY]
    again = " || { git checkout -- . ; git clean -fdq; false; } || "
    script = f"cd {PLACE} && git config --global --add safe.directory {PLACE}; "
    script += again.join(tries) + f" || git apply --check --reverse {PATCH_FILE}"
    return machine.exec(["bash", "-c", script], timeout_s=120.0).exit_code == 0
