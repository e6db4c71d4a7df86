"""Trains the default judge; equal data and settings give equal weights.

Each row is learned as written and in a few other spellings (``rl.judge.augment``). The settings
were chosen by the cross-validation below, which always holds out whole styles of writing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rl.judge.augment import variants
from rl.judge.classifier import SCORES, WEIGHTS, Linear, scales, texts_of
from rl.judge.features import Embed, features
from rl.judge.labelled import exchange_of, read

DATA = Path(__file__).with_name("data") / "train.jsonl"
NUM_FOLDS = 6


@dataclass(frozen=True)
class Settings:
    """How the classifier is trained.

    Attributes:
        meaning, letters, signs: scale of each group of features; a larger one is trusted more.
        l2: penalty of the weights.
        spellings: other spellings of each row, and what each weighs against the row itself.
        balance: 0 takes the classes as frequent as they are, 1 as equally frequent.
    """

    meaning: float = 1.0
    letters: float = 3.0
    signs: float = 2.0
    l2: float = 1e-3
    spellings: int = 1
    spelling_weight: float = 0.5
    balance: float = 1.0
    iterations: int = 50
    seed: str = "0"


@dataclass(frozen=True)
class Table:
    """Rows to learn from; ``_N`` row, ``_F`` feature.

    Attributes:
        rows_NF: features.
        classes_N: index into ``SCORES``.
        weights_N: what a row weighs.
        styles: of the writer.
        written_N: False for other spellings.
    """

    rows_NF: NDArray[np.float32]
    classes_N: NDArray[np.int64]
    weights_N: NDArray[np.float32]
    styles: Sequence[str]
    written_N: NDArray[np.bool_]


def table(path: Path, embed: Embed, settings: Settings) -> Table:
    """Return the features of a file's rows that have a user's message."""
    found: list[tuple[NDArray[np.float32], int, float, str, bool]] = []
    with path.open(encoding="utf-8") as lines:
        for _, row in read(lines):
            texts = texts_of(exchange_of(row))
            if texts is None:
                continue
            label, style = int(row["label"]), str(row.get("style", ""))
            other = variants(texts.said, label, settings.spellings, settings.seed)
            for place, said in enumerate([texts.said, *other]):
                row_F = features(replace(texts, said=said), embed)
                weight = settings.spelling_weight if place else 1.0
                found.append((row_F, SCORES.index(label), weight, style, not place))
    rows, classes, weights, styles, written = zip(*found, strict=True)
    return Table(
        np.asarray(rows), np.asarray(classes), np.asarray(weights, np.float32), styles,
        np.asarray(written),
    )  # fmt: skip


def fit(data: Table, keep_N: NDArray[np.bool_], settings: Settings) -> Linear:
    """Return the weights that minimise the penalised cross-entropy of the kept rows."""
    import torch

    factor_F = scales(settings.meaning, settings.letters, settings.signs, data.rows_NF.shape[1])
    rows_NF = torch.from_numpy(data.rows_NF[keep_N] * factor_F)
    classes_N = torch.from_numpy(data.classes_N[keep_N])
    weights_N = torch.from_numpy(data.weights_N[keep_N])
    mass_C = torch.stack([weights_N[classes_N == c].sum() for c in range(len(SCORES))])
    weights_N = weights_N * ((mass_C.mean() / mass_C) ** settings.balance)[classes_N]
    weights_N = weights_N / weights_N.sum()
    weights_FC = torch.zeros(rows_NF.shape[1], len(SCORES), requires_grad=True)
    bias_C = torch.zeros(len(SCORES), requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [weights_FC, bias_C],
        max_iter=settings.iterations,
        history_size=10,
        line_search_fn="strong_wolfe",
    )

    def loss() -> float:
        optimiser.zero_grad()
        logits_NC = rows_NF @ weights_FC + bias_C
        losses_N = torch.nn.functional.cross_entropy(logits_NC, classes_N, reduction="none")
        total = (losses_N * weights_N).sum() + settings.l2 * weights_FC.square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return float(total.detach())

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    weights = weights_FC.detach().numpy() * factor_F[:, None]
    return Linear(weights.astype(np.float32), bias_C.detach().numpy().copy())


def folds(styles: Sequence[str]) -> Iterator[set[str]]:
    """Return sets of styles to hold out, each style in one of them, about equally many rows."""
    counts = {style: styles.count(style) for style in sorted(set(styles))}
    groups: list[set[str]] = [set() for _ in range(min(NUM_FOLDS, len(counts)))]
    for style in sorted(counts, key=lambda name: (-counts[name], name)):
        min(groups, key=lambda group: sum(counts[name] for name in group)).add(style)
    yield from groups


def cross_validate(data: Table, settings: Settings) -> dict[str, float]:
    """Return rates over all rows as written, each judged by weights that never saw its style."""
    truth: list[int] = []
    found: list[int] = []
    styles_N = np.asarray(data.styles)
    for held_out in folds(data.styles):
        out_N = np.isin(styles_N, sorted(held_out))
        test_N = out_N & data.written_N
        linear = fit(data, ~out_N, settings)
        found += linear.probabilities(data.rows_NF[test_N]).argmax(axis=1).tolist()
        truth += data.classes_N[test_N].tolist()
    return rates([SCORES[c] for c in truth], [SCORES[c] for c in found])


def rates(truth: Sequence[int], found: Sequence[int]) -> dict[str, float]:
    """Return accuracy, false positives and negatives, and recall of neutral ones."""
    pairs = list(zip(truth, found, strict=True))

    def share(of: int, *called: int) -> float:
        among = [f for t, f in pairs if t == of]
        return sum(f in called for f in among) / len(among) if among else float("nan")

    return {
        "accuracy": sum(t == f for t, f in pairs) / len(pairs),
        "bad_called_good": share(-1, 1),
        "good_called_bad": share(1, -1),
        "good_not_called_good": share(1, 0, -1),
        "bad_not_called_bad": share(-1, 0, 1),
        "neutral_recall": share(0, 0),
    }


def train(
    embed: Embed, *, data: Path = DATA, out: Path = WEIGHTS, settings: Settings | None = None
) -> dict[str, Any]:
    """Cross-validate, then train on all rows and write the weights; return the rates."""
    settings = settings or Settings()
    rows = table(data, embed, settings)
    held_out = cross_validate(rows, settings)
    linear = fit(rows, np.ones(len(rows.classes_N), np.bool_), settings)
    linear.save(out)
    return {"rows": int(rows.written_N.sum()), "by_style": held_out}
