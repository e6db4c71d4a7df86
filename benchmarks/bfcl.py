"""``python -m benchmarks.bfcl``: BFCL as its package ships it, graded by ours or its own checker.

    python -m benchmarks.bfcl list peer=PYTHON                     categories and their sizes
    python -m benchmarks.bfcl parity peer=PYTHON [limit=400]       our verdicts against its own
    python -m benchmarks.bfcl score peer=PYTHON results=FILE category=NAME [checker=ours|official]

``peer`` is the Python of an environment of its own with ``bfcl-eval`` 2026.3.23 (``pip install
--no-deps`` it with tenacity, python-dotenv, tqdm, mpmath, numpy, filelock, overrides and, for Java
and JavaScript, tree_sitter 0.21). Its files are read where they lie and never changed. ``results``
holds lines ``{"id", "result"}`` as its own runs write them: a text, for multi-turn categories the
lists of calls of each step of each turn.

Left out, refused by name: web search, memory, format sensitivity (they need services or models).
"""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bfcl_checks import PYTHON_CATEGORIES, graded
from benchmarks.bfcl_mutants import answers_to

OFFICIAL = Path(__file__).with_name("bfcl_official.py")
MULTI_TURN = tuple(f"multi_turn_{n}" for n in ("base", "miss_func", "miss_param", "long_context"))
CATEGORIES = (*PYTHON_CATEGORIES, "simple_java", "simple_javascript", *MULTI_TURN)
TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class Question:
    """A row of the package: the question as it is, and what counts as right (None: relevance)."""

    category: str
    row: Mapping[str, Any]
    gold: Any

    @property
    def id(self) -> str:
        """Of the row."""
        return str(self.row["id"])


class BfclError(Exception):
    """The package, a category or a file cannot be used; one line that says why."""


def folder_of(peer: str) -> Path:
    """Return the package's data folder. Raises ``BfclError``."""
    code = "import bfcl_eval; print(bfcl_eval.__path__[0])"
    try:
        done = subprocess.run([peer, "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BfclError(f"peer={peer}: {error}") from None
    if done.returncode:
        raise BfclError(f"peer={peer} has no bfcl_eval: pip install --no-deps bfcl-eval==2026.3.23")
    return Path(done.stdout.strip()) / "data"


def questions(folder: Path, category: str) -> list[Question]:
    """Return a category's rows. Raises ``BfclError``: unknown, not supported, or not there."""
    if category not in CATEGORIES:
        raise BfclError(f"category={category!r} is not supported: {', '.join(CATEGORIES)}")
    name = f"BFCL_v4_{category}.json"
    try:
        rows = _lines(folder / name)
        gold = {}
        if "relevance" not in category:
            gold = {row["id"]: row["ground_truth"]
                    for row in _lines(folder / "possible_answer" / name)}  # fmt: skip
        return [Question(category, row, gold.get(row["id"])) for row in rows]
    except (OSError, ValueError, KeyError) as error:
        raise BfclError(f"{name}: {error!r}") from None


def official(peer: str, cases: Sequence[tuple[Question, Any]]) -> list[dict[str, Any]]:
    """Return the package's verdicts, in order. Raises ``BfclError``."""
    lines = [
        json.dumps({"id": q.id, "category": q.category, "row": q.row, "gold": q.gold, "answer": a})
        for q, a in cases
    ]
    done = subprocess.run(
        [peer, str(OFFICIAL)], input="\n".join(lines), capture_output=True, text=True,
        timeout=TIMEOUT_S, cwd="/",
    )  # fmt: skip
    found = [json.loads(line) for line in done.stdout.splitlines()]
    if len(found) != len(cases):
        raise BfclError(f"its checker ended after {len(found)} answers: {done.stderr[-300:]}")
    return found


@dataclass(frozen=True)
class Difference:
    """An answer on which the two disagree."""

    id: str
    kind: str
    answer: str
    ours: str
    its: str


@dataclass(frozen=True)
class Parity:
    """A comparison: answers by category and kind, how many were valid, where the two disagree.

    Attributes:
        crashed: how often its checker raised; ours must say invalid then.
    """

    counts: Counter[tuple[str, str]]
    num_valid: int
    crashed: int
    verdicts: tuple[Difference, ...]
    names: tuple[Difference, ...]


def parity(peer: str, limit: int, seed: int = 0) -> Parity:
    """Grade generated answers (right, wrong, malformed) by both. Raises ``BfclError``."""
    folder, rng = folder_of(peer), random.Random(seed)
    cases: list[tuple[Question, str]] = []
    kinds: list[str] = []
    for category in PYTHON_CATEGORIES:
        rows = questions(folder, category)
        for question in rng.sample(rows, min(limit, len(rows))):
            for kind, answer in answers_to(question.gold, question.row["function"], rng):
                cases.append((question, answer))
                kinds.append(kind)
    verdicts, names = [], []
    valid = crashed = 0
    found = official(peer, cases)
    for (question, answer), kind, its in zip(cases, kinds, found, strict=True):
        mine = ours(question, answer)
        valid += its["valid"]
        crashed += its["error_type"] == "crashed"
        pair = Difference(question.id, kind, answer[:300], mine, its["error_type"])
        if (not mine) != its["valid"]:
            verdicts.append(pair)
        elif mine != its["error_type"] and its["error_type"] != "crashed":
            names.append(pair)
    counts = Counter((q.category, kind) for (q, _), kind in zip(cases, kinds, strict=True))
    return Parity(counts, valid, crashed, tuple(verdicts), tuple(names))


def ours(question: Question, answer: str) -> str:
    """Return our error type, "" when valid; ``crashed`` where the row itself makes no sense."""
    try:
        return graded(question.category, question.row, question.gold, answer).error_type
    except (KeyError, TypeError, AttributeError):
        return "crashed"


def score(peer: str, category: str, results: Path, checker: str) -> tuple[int, int, Counter[str]]:
    """Return how many answers are right, of how many, and the error types.

    Raises:
        BfclError: a file or category that cannot be used, an unknown id, or one that is there
            twice.
    """
    known = {question.id: question for question in questions(folder_of(peer), category)}
    try:
        rows = _lines(results)
        answers = {row["id"]: row["result"] for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BfclError(f"results={results}: {error!r}") from None
    if len(answers) != len(rows) or answers.keys() - known.keys():
        strange = sorted(answers.keys() - known.keys())[:3]
        raise BfclError(f"results={results}: ids twice or unknown {strange}")
    cases = [(known[name], answer) for name, answer in answers.items()]
    if checker == "ours":
        errors = [ours(question, str(answer)) for question, answer in cases]
    else:
        errors = [row["error_type"] for row in official(peer, cases)]
    counts = Counter(errors)
    return counts.pop("", 0), len(known), counts


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def _report(found: Parity) -> Iterator[str]:
    by_kind: Counter[str] = Counter()
    by_category: Counter[str] = Counter()
    for (category, kind), count in found.counts.items():
        by_kind[kind] += count
        by_category[category] += count
    for title, counts in (("category", by_category), ("answer", by_kind)):
        yield f"{title}: " + ", ".join(f"{name} {count}" for name, count in counts.items())
    for pair in (*found.verdicts[:20], *found.names[:20]):
        yield f"{pair.id} ({pair.kind}): ours {pair.ours!r}, its {pair.its!r}: {pair.answer}"
    total = found.counts.total()
    yield (
        f"{total} answers, {found.num_valid} right by its checker, {found.crashed} on which it "
        f"raised: {len(found.verdicts)} verdicts differ, {len(found.names)} error types differ"
    )


def main(argv: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    from envs.words import UsageError, parse

    if {*argv} & {"-h", "--help"}:
        sys.stdout.write(f"{__doc__}\n")
        return 0
    try:
        words = parse(argv, keys=("peer", "limit", "results", "category", "checker"))
        if len(words.names) != 1 or "peer" not in words.options:
            raise UsageError("usage: python -m benchmarks.bfcl list|parity|score peer=PYTHON …")
        peer = words.options["peer"]
        match words.names[0]:
            case "list":
                folder = folder_of(peer)
                for category in CATEGORIES:
                    sys.stdout.write(f"{category:24} {len(questions(folder, category)):5}\n")
            case "parity":
                found = parity(peer, words.number("limit", 400, least=1))
                sys.stdout.write("\n".join(_report(found)) + "\n")
                return 1 if found.verdicts else 0
            case "score":
                if {"results", "category"} - words.options.keys():
                    raise UsageError("score needs results=FILE and category=NAME")
                category = words.options["category"]
                usual = "ours" if category in PYTHON_CATEGORIES else "official"
                checker = words.options.get("checker", usual)
                if checker not in ("ours", "official"):
                    raise UsageError(f"checker={checker}: choose ours or official")
                if checker == "ours" and usual == "official":
                    raise UsageError(f"category={category} is graded by checker=official only")
                right, total, errors = score(
                    peer, category, Path(words.options["results"]), checker
                )
                row = {"accuracy": right / total, "correct_count": right, "total_count": total}
                sys.stdout.write(json.dumps({**row, "errors": dict(errors)}) + "\n")
            case name:
                raise UsageError(f"no command {name!r}: list, parity or score")
    except (UsageError, BfclError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
