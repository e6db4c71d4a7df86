"""Two runs on the tasks both played: what one solved and the other did not, and whether it is luck.

A task counts as shared when id and content are the same. The difference of means comes with a
paired bootstrap over tasks and over families; of pass@1 also McNemar's exact test, on each task's
first sample, since samples of one task are not independent and the k-th of two runs are no pair.
"""

from typing import Any

from benchmarks.run import statistics
from benchmarks.run.folder import Run
from benchmarks.run.records import Record
from benchmarks.run.summary import KS, as_json, families, shares, tallies


def compare(before: Run, after: Run) -> dict[str, Any]:
    """Return the paired comparison ``after - before``."""
    old, new = _scored(before), _scored(after)
    digests = {r.task_id: r.task_digest for r in old}
    same = {r.task_id for r in new if digests.get(r.task_id) == r.task_digest}
    changed = {r.task_id for r in new if r.task_id in digests} - same
    ids_old, ids_new = set(digests), {r.task_id for r in new}
    old = [r for r in old if r.task_id in same]
    new = [r for r in new if r.task_id in same]
    family = families(old)
    share_old, share_new = shares(old), shares(new)
    return {
        "before": before.name,
        "after": after.name,
        "shared": len(same),
        "changed": len(changed),
        "only_before": len(ids_old - ids_new),
        "only_after": len(ids_new - ids_old),
        "differing_settings": _differing(before, after),
        "pass_at_1": {
            "before": as_json(statistics.bootstrap(list(share_old.values()))),
            "after": as_json(statistics.bootstrap(list(share_new.values()))),
            "by_task": as_json(statistics.difference(share_old, share_new)),
            "by_family": as_json(statistics.difference(share_old, share_new, family)),
        },
        "pass_at_k": [row for k in KS[1:] if (row := _at_k(old, new, family, k))],
        "mcnemar": _mcnemar(old, new),
    }


def _scored(run: Run) -> list[Record]:
    return [record for record in run.episodes.values() if not record.lost]


def _at_k(
    old: list[Record], new: list[Record], family: dict[str, str], k: int
) -> dict[str, Any] | None:
    before, after = (
        {t: statistics.pass_at_k(n, c, k) for t, (n, c) in tallies(r).items() if n >= k}
        for r in (old, new)
    )
    if not before.keys() & after.keys():
        return None
    return {
        "k": k,
        "tasks": len(before.keys() & after.keys()),
        "by_task": as_json(statistics.difference(before, after)),
        "by_family": as_json(statistics.difference(before, after, family)),
    }


def _mcnemar(old: list[Record], new: list[Record]) -> dict[str, Any]:
    before = {r.task_id: r.solved for r in old if r.sample == 0}
    after = {r.task_id: r.solved for r in new if r.sample == 0}
    pairs = [(before[task], after[task]) for task in before.keys() & after.keys()]
    only_before, only_after = pairs.count((True, False)), pairs.count((False, True))
    return {
        "pairs": len(pairs),
        "both": pairs.count((True, True)),
        "neither": pairs.count((False, False)),
        "only_before": only_before,
        "only_after": only_after,
        "p": statistics.mcnemar(only_before, only_after),
    }


def _differing(before: Run, after: Run) -> dict[str, list[Any]]:
    """Return the settings that make results differ, and code and images, where they do."""
    quiet = {"model", "name", "out", "resume", "key_env", "workers", "episodes_per_worker"}
    quiet |= {"retries", "retry_wait_s", "ray_address", "serving", "n"}
    found = {}
    old, new = before.facts["settings"], after.facts["settings"]
    for name in sorted((old.keys() | new.keys()) - quiet):
        if old.get(name) != new.get(name):
            found[name] = [old.get(name), new.get(name)]
    for name in ("code", "images"):
        pair = [before.facts["versions"].get(name), after.facts["versions"].get(name)]
        if pair[0] != pair[1]:
            found[name] = pair
    return found
