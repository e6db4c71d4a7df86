"""``python -m benchmarks.judge data=FILE|NAME [key=value…]``: how far can a judge be trusted?

Runs the judge as a program over labelled exchanges (one JSON object a line: id, kind, history,
reply, next_state, label −1, 0 or 1; ``python -m rl.judge rows part=test`` shows it) and compares.

  data    FILE of labelled exchanges; or test, fresh, fresh2: parts of our own (``rl.judge.data``);
          or simulated: talk with the users of envs/chat, whose next words have a known meaning
          (``benchmarks.simulated``)
  judge   default: also rules, or the base URL of an OpenAI-compatible server
  out     FOLDER: also write judge.json and calibration.png there
  others  any setting of the judge, such as votes=5 or name=MODEL

Definitions, all with 95% Wilson intervals:

  precision   of a class: share of what was called so that is so
  recall      of a class: share of what is so that was called so
  FP          share of truly bad replies called good
  FN          share of truly good replies called bad
  FP strict   share of truly bad or neutral replies called good
  FN strict   share of truly good replies not called good (bad, or no verdict)
  agreement   how often a judgement is right, by the share of votes (or probability) behind it; ECE
              is the mean gap between the two over ten bins, weighed by their sizes

Exit 0 done, 2 user error, 3 the judge cannot be reached.
"""

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import simulated

OWN_PARTS = ("train", "test", "fresh", "fresh2")
CLASSES = {1: "good", 0: "neutral", -1: "bad"}
Z = 1.959964
NUM_BINS = 10


@dataclass(frozen=True)
class Case:
    """One exchange: what its writer meant, what the judge found."""

    id: str
    kind: str
    label: int
    score: int
    confidence: float
    source: str
    seconds: float


@dataclass(frozen=True)
class Share:
    """``hits`` of ``total`` with a 95% interval."""

    hits: int
    total: int

    @property
    def value(self) -> float:
        """The share; NaN of nothing."""
        return self.hits / self.total if self.total else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's score interval."""
        if not self.total:
            return (0.0, 1.0)
        share, n = self.value, self.total
        middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
        half = Z * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n)) / (1 + Z * Z / n)
        return (max(0.0, middle - half), min(1.0, middle + half))

    def __str__(self) -> str:
        if not self.total:
            return "–"
        low, high = (f"{100 * bound:.0f}" for bound in self.interval)
        return f"{100 * self.value:.1f}% [{low}, {high}] ({self.hits}/{self.total})"

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        low, high = self.interval
        value = self.value if self.total else None
        return {"share": value, "low": low, "high": high, "hits": self.hits, "of": self.total}


class UserError(Exception):
    """Something to be put right by whoever called."""


class JudgeFailed(Exception):
    """The judge's program did not finish; carries its exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message, code)
        self.message = message
        self.code = code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or "--help" in arguments or "-h" in arguments:
        sys.stdout.write((__doc__ or "").strip() + "\n")
        return 0 if arguments else 2
    try:
        options = dict(_option(argument) for argument in arguments)
        if "data" not in options:
            raise UserError(f"give data=FILE, or data= one of {', '.join(OWN_PARTS)}, simulated")
        rows = _rows(options.pop("data"))
        out = options.pop("out", None)
        cases = judge(rows, [f"{key}={value}" for key, value in options.items()])
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except JudgeFailed as error:
        sys.stderr.write(f"{error.message}\n")
        return error.code
    report = measure(cases)
    sys.stdout.write(render(report))
    if out is not None:
        write(Path(out), report)
    return 0


def _option(argument: str) -> tuple[str, str]:
    key, equals, value = argument.partition("=")
    if not equals:
        raise UserError(f"{argument}: options are written KEY=VALUE; see --help")
    return key, value


def _rows(data: str) -> list[dict[str, Any]]:
    if data == "simulated":
        return simulated.rows()
    if data in OWN_PARTS:
        command = [sys.executable, "-m", "rl.judge", "rows", f"part={data}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise JudgeFailed(f"{data} cannot be composed", done.returncode)
        return [json.loads(line) for line in done.stdout.splitlines()]
    return read_rows(Path(data))


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a labelled file.

    Raises:
        UserError: no such file, or a bad row, with the number of its line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"{path}:{number}: not JSON ({error})") from None
        problem = _problem(row)
        if problem:
            raise UserError(f"{path}:{number}: {problem}")
        rows.append({**row, "id": str(row.get("id", number))})
    if not rows:
        raise UserError(f"{path} holds no rows")
    return rows


def _problem(row: Any) -> str:
    """Return what is wrong with a row; "" when nothing is."""
    if not isinstance(row, dict):
        return "not a JSON object"
    for key, kind in (("history", list), ("reply", dict), ("next_state", list)):
        if not isinstance(row.get(key), kind):
            return f"{key} must be a {'list of messages' if kind is list else 'message'}"
    label = row.get("label")
    if isinstance(label, bool) or label not in CLASSES:
        return f"label is {label!r}; it must be -1, 0 or 1"
    for message in (*row["history"], row["reply"], *row["next_state"]):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return 'a message must be {"role": ..., "content": ...}'
    return ""


def judge(rows: Sequence[dict[str, Any]], options: Sequence[str]) -> list[Case]:
    """Run the judge's program over the rows; labels and kinds are not shown to it."""
    hidden = ("label", "kind", "style")
    shown = [{k: v for k, v in row.items() if k not in hidden} for row in rows]
    done = subprocess.run(
        [sys.executable, "-m", "rl.judge", "score", *options],
        input="\n".join(json.dumps(row) for row in shown),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise JudgeFailed(f"the judge ended with exit code {done.returncode}", done.returncode)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return [
        Case(
            id=row["id"],
            kind=str(row.get("kind", "")),
            label=row["label"],
            score=said["score"],
            confidence=said["confidence"],
            source=said["source"],
            seconds=said["seconds"],
        )
        for row, said in zip(rows, found, strict=True)
    ]


def measure(cases: Sequence[Case]) -> dict[str, Any]:
    """Return all figures as JSON values."""
    kinds = sorted({case.kind for case in cases})
    seconds = np.asarray([case.seconds for case in cases])
    bins = _bins(cases)
    gaps = [b["of"] * abs(b["share"] - b["confidence"]) for b in bins]
    return {
        "rows": len(cases),
        "accuracy": _share(cases, lambda c: c.score == c.label).to_json(),
        **_rates(cases),
        "classes": {CLASSES[label]: _class(cases, label) for label in CLASSES},
        "kinds": {
            kind: {
                "rows": len(own := [case for case in cases if case.kind == kind]),
                "accuracy": _share(own, lambda c: c.score == c.label).to_json(),
                **_rates(own),
                "classes": {CLASSES[label]: _class(own, label) for label in CLASSES},
            }
            for kind in kinds
        },
        "sources": {
            s: sum(c.source == s for c in cases) for s in sorted({c.source for c in cases})
        },
        "agreement": bins,
        "ece": sum(gaps) / max(1, sum(b["of"] for b in bins)),
        "median_ms": 1e3 * float(np.median(seconds)),
        "p99_ms": 1e3 * float(np.percentile(seconds, 99)),
        "wrong": [
            {"id": c.id, "kind": c.kind, "label": c.label, "score": c.score}
            for c in cases
            if c.score != c.label
        ],
    }


def _share(cases: Iterable[Case], hit: Callable[[Case], bool]) -> Share:
    hits = [hit(case) for case in cases]
    return Share(sum(hits), len(hits))


def _rates(cases: Sequence[Case]) -> dict[str, Any]:
    bad = [case for case in cases if case.label == -1]
    good = [case for case in cases if case.label == 1]
    not_good = [case for case in cases if case.label != 1]
    return {
        "fp": _share(bad, lambda c: c.score == 1).to_json(),
        "fn": _share(good, lambda c: c.score == -1).to_json(),
        "fp_strict": _share(not_good, lambda c: c.score == 1).to_json(),
        "fn_strict": _share(good, lambda c: c.score != 1).to_json(),
    }


def _class(cases: Sequence[Case], label: int) -> dict[str, Any]:
    called = [case for case in cases if case.score == label]
    true = [case for case in cases if case.label == label]
    return {
        "precision": _share(called, lambda c: c.label == label).to_json(),
        "recall": _share(true, lambda c: c.score == label).to_json(),
    }


def _bins(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Return how often verdicts are right by their confidence; rules and feedback stay out."""
    found = []
    verdicts = [case for case in cases if case.source not in ("rule", "feedback", "none")]
    for place in range(NUM_BINS):
        own = [c for c in verdicts if min(int(c.confidence * NUM_BINS), NUM_BINS - 1) == place]
        if own:
            right = _share(own, lambda c: c.score == c.label).to_json()
            found.append({**right, "confidence": sum(c.confidence for c in own) / len(own)})
    return found


def render(report: dict[str, Any]) -> str:
    """Return the report as text."""
    lines = [f"{report['rows']} exchanges, right {_text(report['accuracy'])}", ""]
    lines += _table(("class", "precision", "recall"), [
        (name, _text(own["precision"]), _text(own["recall"]))
        for name, own in report["classes"].items()
    ])  # fmt: skip
    lines += [
        "",
        f"FP, bad called good             {_text(report['fp'])}",
        f"FN, good called bad             {_text(report['fn'])}",
        f"FP strict, not good called good {_text(report['fp_strict'])}",
        f"FN strict, good not called good {_text(report['fn_strict'])}",
        "",
    ]
    lines += _table(("kind", "right", "FP", "FN"), [
        (kind, _text(own["accuracy"]), _text(own["fp"]), _text(own["fn"]))
        for kind, own in report["kinds"].items()
    ])  # fmt: skip
    lines += ["", *_kind_classes(report)]
    lines += ["", *_table(("votes or probability", "right"), [
        (f"{100 * own['confidence']:.0f}%", _text(own)) for own in report["agreement"]
    ])]  # fmt: skip
    said = ", ".join(f"{name} {count}" for name, count in report["sources"].items())
    lines += [
        "",
        f"expected calibration error {report['ece']:.3f}; judged by {said}",
        f"a turn takes {report['median_ms']:.1f} ms (median), {report['p99_ms']:.1f} ms (p99)",
    ]
    return "\n".join(lines) + "\n"


def _kind_classes(report: dict[str, Any]) -> list[str]:
    """Return precision and recall of each class within each kind that has it."""
    rows = [
        (
            kind,
            name,
            _text(own["classes"][name]["precision"]),
            _text(own["classes"][name]["recall"]),
        )
        for kind, own in report["kinds"].items()
        for name in CLASSES.values()
        if own["classes"][name]["recall"]["of"]
    ]
    return _table(("kind", "class", "precision", "recall"), rows)


def _text(share: dict[str, Any]) -> str:
    return str(Share(share["hits"], share["of"]))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
            for row in (head, *rows)]  # fmt: skip


def write(folder: Path, report: dict[str, Any]) -> None:
    """Write ``judge.json`` and ``calibration.png``."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "judge.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    figure, axes = pyplot.subplots(figsize=(4.5, 4.5))
    bins = report["agreement"]
    x = [b["confidence"] for b in bins]
    y = [b["share"] for b in bins]
    reach = [[b["share"] - b["low"] for b in bins], [b["high"] - b["share"] for b in bins]]
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    axes.errorbar(x, y, yerr=reach, fmt="o-", capsize=3)
    axes.set(xlabel="votes or probability", ylabel="share right", xlim=(0, 1), ylim=(0, 1))
    axes.set_title(f"{report['rows']} exchanges, calibration error {report['ece']:.3f}")
    figure.tight_layout()
    figure.savefig(folder / "calibration.png", dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
