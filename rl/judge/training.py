"""Trains the default judge; equal data and settings give equal weights.

Each row is learned as written and in another spelling (``rl.judge.augment``). The settings and the
temperature of the probabilities come from the cross-validation below, which always holds out whole
styles of writing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rl.judge.augment import variants
from rl.judge.classifier import SCORES, WEIGHTS, Network, softmax, texts_of
from rl.judge.embeddings import Embedder
from rl.judge.features import Embed, Texts, embedded, features
from rl.judge.labelled import exchange_of

NUM_FOLDS = 6
TEMPERATURES = np.geomspace(0.4, 4.0, 60)


@dataclass(frozen=True)
class Settings:
    """How the classifier is trained.

    Attributes:
        hidden: units of one network.
        networks: trained from different beginnings; their mean is one wider network.
        decay: of the weights, per step and unit of learning rate.
        dropout: of hidden units; half of it of features.
        smoothing: of labels.
        spellings: other spellings of each row, and what each weighs against the row itself.
        balance: 0 takes the classes as frequent as they are, 1 as equally frequent.
    """

    hidden: int = 64
    networks: int = 2
    epochs: int = 8
    batch: int = 256
    learning_rate: float = 3e-3
    decay: float = 0.02
    dropout: float = 0.3
    smoothing: float = 0.05
    spellings: int = 1
    spelling_weight: float = 0.5
    balance: float = 1.0
    seed: int = 0


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


def table(rows: Iterable[Mapping[str, Any]], embed: Embed, settings: Settings) -> Table:
    """Return the features of the labelled rows that have a user's message."""
    found: list[tuple[Texts, int, float, str, bool]] = []
    for row in rows:
        texts = texts_of(exchange_of(row))
        if texts is None:
            continue
        label, style = int(row["label"]), str(row.get("style", ""))
        other = variants(texts.said, label, settings.spellings, str(settings.seed))
        for place, said in enumerate([texts.said, *other]):
            weight = settings.spelling_weight if place else 1.0
            spoken = replace(texts, said=said)
            found.append((spoken, SCORES.index(label), weight, style, not place))
    spoken_N, classes, weights, styles, written = zip(*found, strict=True)
    if isinstance(embed, Embedder):
        known = embed.many(text for texts in spoken_N for text in embedded(texts))
        known[""] = embed("")
        embed = lambda text: known[text if text.strip() else ""]  # noqa: E731
    return Table(
        np.asarray([features(texts, embed) for texts in spoken_N]), np.asarray(classes),
        np.asarray(weights, np.float32), styles, np.asarray(written),
    )  # fmt: skip


def fit(data: Table, keep_N: NDArray[np.bool_], settings: Settings) -> Network:
    """Return the mean of the networks trained on the kept rows."""
    import torch

    weights_N = data.weights_N[keep_N]
    classes_N = data.classes_N[keep_N]
    mass_C = np.asarray([weights_N[classes_N == c].sum() for c in range(len(SCORES))])
    mass_C = np.maximum(mass_C, 1e-9)
    weights_N = weights_N * ((mass_C.mean() / mass_C) ** settings.balance)[classes_N]
    rows = (
        torch.from_numpy(data.rows_NF[keep_N]),
        torch.from_numpy(classes_N),
        torch.from_numpy((weights_N / weights_N.mean()).astype(np.float32)),
    )
    nets = [_fit_one(rows, settings, settings.seed + n) for n in range(settings.networks)]
    return Network(
        np.concatenate([net.hidden_FH for net in nets], axis=1),
        np.concatenate([net.hidden_H for net in nets]),
        (np.concatenate([net.scores_HC for net in nets]) / len(nets)).astype(np.float32),
        np.mean([net.scores_C for net in nets], axis=0).astype(np.float32),
    )


def _fit_one(rows: tuple[Any, Any, Any], settings: Settings, seed: int) -> Network:
    import torch
    from torch import nn

    rows_NF, classes_N, weights_N = rows
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        hidden = nn.Linear(rows_NF.shape[1], settings.hidden)
        scores = nn.Linear(settings.hidden, len(SCORES))
        net = nn.Sequential(
            nn.Dropout(settings.dropout / 2),
            hidden,
            nn.ReLU(),
            nn.Dropout(settings.dropout),
            scores,
        )
        size = min(settings.batch, len(rows_NF))
        steps = settings.epochs * (len(rows_NF) // size)
        optimiser = torch.optim.AdamW(
            net.parameters(), lr=settings.learning_rate, weight_decay=settings.decay
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, settings.learning_rate, total_steps=steps + 1
        )
        for _ in range(settings.epochs):
            order_N = torch.randperm(len(rows_NF))
            for start in range(0, len(rows_NF) - size + 1, size):
                chosen_B = order_N[start : start + size]
                optimiser.zero_grad()
                losses_B = nn.functional.cross_entropy(
                    net(rows_NF[chosen_B]), classes_N[chosen_B], reduction="none",
                    label_smoothing=settings.smoothing,
                )  # fmt: skip
                (losses_B * weights_N[chosen_B]).mean().backward()
                optimiser.step()
                schedule.step()
    weights = [p.detach().numpy() for p in (hidden.weight, hidden.bias, scores.weight, scores.bias)]
    return Network(weights[0].T.copy(), weights[1], weights[2].T.copy(), weights[3])


def folds(styles: Sequence[str]) -> Iterator[set[str]]:
    """Return sets of styles to hold out, each style in one of them, about equally many rows."""
    counts = {style: styles.count(style) for style in sorted(set(styles))}
    groups: list[set[str]] = [set() for _ in range(min(NUM_FOLDS, len(counts)))]
    for style in sorted(counts, key=lambda name: (-counts[name], name)):
        min(groups, key=lambda group: sum(counts[name] for name in group)).add(style)
    yield from groups


def held_out(data: Table, settings: Settings) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return logits and classes of the rows as written, by networks that never saw their style."""
    logits: list[NDArray[np.float64]] = []
    classes: list[NDArray[np.int64]] = []
    styles_N = np.asarray(data.styles)
    for group in folds(data.styles):
        out_N = np.isin(styles_N, sorted(group))
        test_N = out_N & data.written_N
        logits.append(fit(data, ~out_N, settings).logits(data.rows_NF[test_N]))
        classes.append(data.classes_N[test_N])
    return np.concatenate(logits), np.concatenate(classes)


def temperature(logits_NC: NDArray[np.float64], classes_N: NDArray[np.int64]) -> float:
    """Return the divisor of the logits under which the held-out classes are most probable."""

    def surprise(divisor: float) -> float:
        right_N = softmax(logits_NC / divisor)[np.arange(len(classes_N)), classes_N]
        return float(-np.log(right_N + 1e-12).mean())

    return float(min(TEMPERATURES, key=surprise))


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
    embed: Embed,
    rows: Iterable[Mapping[str, Any]],
    *,
    out: Path = WEIGHTS,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Cross-validate, then train on all rows and write the weights; return the rates."""
    import torch

    settings = settings or Settings()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the order of additions, and with it the weights, depends on them
    try:
        data = table(rows, embed, settings)
        logits_NC, classes_N = held_out(data, settings)
        divisor = temperature(logits_NC, classes_N)
        network = fit(data, np.ones(len(data.classes_N), np.bool_), settings)
    finally:
        torch.set_num_threads(threads)
    factor = np.float32(1 / divisor)
    replace(network, scores_HC=network.scores_HC * factor, scores_C=network.scores_C * factor).save(
        out
    )
    found = logits_NC.argmax(axis=1).tolist()
    truth = cast(list[int], classes_N.tolist())
    return {
        "rows": int(data.written_N.sum()),
        "by_style": rates([SCORES[c] for c in truth], [SCORES[c] for c in found]),
        "temperature": divisor,
    }
