"""What people read of a run: Markdown with every table, a plot, and the same numbers as JSON."""

import json
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.run.folder import read_run, write_whole
from benchmarks.run.predictions import write_harbor, write_predictions
from benchmarks.run.statistics import Interval
from benchmarks.run.summary import summarise

log = logging.getLogger(__name__)

Json = Mapping[str, Any]
_MOST_BARS = 40


def write(folder: Path) -> Path:
    """Write everything that is said of a run; return the report's path.

    Raises:
        UsageError: the folder is no run.
    """
    run = read_run(folder)
    summary = summarise(run)
    write_whole(folder / "summary.json", json.dumps(summary, indent=1, allow_nan=False) + "\n")
    write_predictions(run)
    write_harbor(run, summary)
    plot([summary], folder / "report.png")
    path = folder / "report.md"
    write_whole(path, markdown(summary) + "\n![pass@1 by category](report.png)\n")
    return path


def markdown(summary: Json) -> str:
    """Return a run's report."""
    settings, counts = summary["run"]["settings"], summary["counts"]
    lines = [f"# {summary['run']['name']}", "", headline(summary), "", *_versions(summary), ""]
    if counts["not_played"]:
        lines += [f"**{counts['not_played']} of {counts['samples']} samples not played yet.**", ""]
    lines += ["## Success", "", *_success(summary["success"], settings["k"]), ""]
    if summary["pass_at_k"]:
        lines += _rows(
            ("", "tasks", "95% by tasks", "95% by families"),
            [
                (f"pass@{r['k']}", r["tasks"], shown(r["by_task"]), shown(r["by_family"]))
                for r in summary["pass_at_k"]
            ],
        )
    lines += ["", f"Mean reward {shown(summary['mean_reward'])}.", ""]
    for name, rows in summary["categories"].items():
        lines += [f"## By {name}", "", *_category(name, rows), ""]
    return "\n".join([*lines, *_endings(summary), *_cost(summary["cost"])])


def headline(summary: Json) -> str:
    """Return the run in one line: episodes, losses, pass@1."""
    counts, success = summary["counts"], summary["success"]
    text = f"{counts['samples']} episodes of {counts['tasks']} tasks, {counts['scored']} scored"
    lost = [f"{row['episodes']} {row['reason']}" for row in summary["lost"]]
    text += f": {counts['lost']} lost ({', '.join(lost)})" if lost else ", none lost"
    return f"{text}. **pass@1 {shown(success['wilson'])}**"


def comparison_markdown(found: Json) -> str:
    """Return the paired comparison of two runs."""
    test, one = found["mcnemar"], found["pass_at_1"]
    lines = [
        f"# {found['before']} → {found['after']}",
        "",
        f"{found['shared']} shared tasks; {found['only_before']} only in the first, "
        f"{found['only_after']} only in the second, {found['changed']} of the same name but "
        "other content left out.",
        "",
        *_rows(
            ("", "tasks", "first", "second", "difference, by tasks", "by families"),
            [
                ("pass@1", found["shared"], shown(one["before"]), shown(one["after"]),
                 shown(one["by_task"], True), shown(one["by_family"], True)),
                *(
                    (f"pass@{r['k']}", r["tasks"], "", "", shown(r["by_task"], True),
                     shown(r["by_family"], True))
                    for r in found["pass_at_k"]
                ),
            ],
        ),
        "",
        f"First samples of {test['pairs']} tasks: both solved {test['both']}, neither "
        f"{test['neither']}, only the first {test['only_before']}, only the second "
        f"{test['only_after']}; McNemar's exact p = {test['p']:.4g}.",
    ]  # fmt: skip
    if found["differing_settings"]:
        lines += ["", "Not alike besides the model:", ""]
        lines += [f"- {k}: {a} → {b}" for k, (a, b) in found["differing_settings"].items()]
    return "\n".join(lines) + "\n"


def plot(summaries: Sequence[Json], path: Path) -> None:
    """Draw pass@1 of every category, with intervals; several runs side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    labels = _labels(summaries)
    figure, axes = pyplot.subplots(figsize=(8, 1.5 + 0.3 * len(labels)), layout="constrained")
    height = 0.8 / len(summaries)
    for number, summary in enumerate(summaries):
        points = _points(summary)
        for place, label in enumerate(labels):
            part = points.get(label)
            if part is None or part["value"] is None:
                continue
            low, high = part["low"] or 0.0, 1.0 if part["high"] is None else part["high"]
            y = place + (number - (len(summaries) - 1) / 2) * height
            axes.errorbar(
                part["value"], y, xerr=[[part["value"] - low], [high - part["value"]]],
                fmt="o", color=f"C{number}", capsize=2, markersize=4,
            )  # fmt: skip
        axes.plot([], [], "o", color=f"C{number}", label=summary["run"]["name"])
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set(xlim=(-0.02, 1.02), xlabel="pass@1, Wilson 95% over tasks")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def shown(interval: Json, signed: bool = False) -> str:
    """Return an interval of a summary as text."""
    value, low, high = (
        math.nan if interval[part] is None else float(interval[part])
        for part in ("value", "low", "high")
    )
    if signed and not math.isnan(value):
        bounds = "" if math.isnan(low) else f" [{low:+.3f}, {high:+.3f}]"
        return f"{value:+.3f}{bounds}"
    return str(Interval(value, low, high))


# ------------------------------------------------------------- parts


def _versions(summary: Json) -> list[str]:
    run = summary["run"]
    settings, versions = run["settings"], run["versions"]
    code, model = versions["code"], versions["model"]
    dirty = {True: ", with changes", False: "", None: ""}[code["dirty"]]
    images = [f"{v['reference']} ({v['digest'][:19]}…)" for v in versions["images"].values()]
    digest = f", sha256 {model['digest'][:16]}…" if model.get("digest") else ""
    sampling = (
        f"temperature {settings['temperature']:g}, {settings['max_reply_tokens']} tokens a reply, "
        f"{settings['max_steps'] or 'as the task says'} steps"
    )
    return _rows(
        ("what", "version"),
        [
            ("model", f"{model['name']}{digest}"),
            (
                "tasks",
                f"{settings['suite']}, {settings['split']}, sha256 {versions['tasks'][:16]}…",
            ),
            ("code", f"clawgym {code['package']}, commit {code['commit'][:12]}{dirty}"),
            ("images", ", ".join(images) or "none"),
            ("seed", settings["seed"]),
            ("sampling", sampling),
            ("started", run["started"]),
            *(("resumed", _resumed(row)) for row in run["resumed"]),
        ],
    )


def _resumed(row: Json) -> str:
    text = str(row["at"])
    if "code" in row:
        text += f", code at commit {row['code']['commit'][:12]}"
        text += ", with changes" if row["code"]["dirty"] else ""
    if "images" in row:
        text += ", images " + ", ".join(v["reference"] for v in row["images"].values())
    return text


def _success(success: Json, k: int) -> list[str]:
    lines = [
        f"{success['solved']} of {success['episodes']} scored episodes solved, "
        f"{success['tasks']} tasks in {success['families']} families.",
        "",
        f"- Wilson {shown(success['wilson'])}",
        f"- bootstrap of tasks {shown(success['by_task'])}",
        f"- bootstrap of families {shown(success['by_family'])}",
        "",
    ]
    if k > 1:
        lines += ["Wilson counts tasks, not samples: those of one task are no new evidence.", ""]
    return lines


def _category(name: str, rows: Sequence[Json]) -> list[str]:
    return _rows(
        (name, "tasks", "episodes", "lost", "pass@1, Wilson 95%"),
        [(r["name"], r["tasks"], r["episodes"], r["lost"], shown(r["wilson"])) for r in rows],
    )


def _endings(summary: Json) -> list[str]:
    lines = ["## How episodes ended", ""]
    lines += _rows(
        ("StopReason", "episodes", "share", "mean reward", "mean turns"),
        [
            (r["reason"], r["episodes"], f"{r['share']:.1%}", f"{r['mean_reward']:.3f}",
             f"{r['mean_turns']:.1f}")
            for r in summary["stop_reasons"]
        ],
    )  # fmt: skip
    if summary["lost"]:
        lines += ["", "Lost to the machine, in no number above:", ""]
        lines += _rows(
            ("StopReason", "cause", "episodes", "example"),
            [
                (r["reason"], r["cause"], r["episodes"], _cell(r["example"]))
                for r in summary["lost"]
            ],
        )
    return [*lines, ""]


def _cost(cost: Json) -> list[str]:
    if not cost:
        return []
    lines = ["## Cost of an episode", ""]
    return lines + _rows(
        ("", "mean", "median", "90%", "total"),
        [
            (name.replace("_", " "), *(f"{part[key]:,.1f}" for key in ("mean", "median", "p90")),
             f"{part['total']:,.0f}")
            for name, part in cost.items()
        ],
    )  # fmt: skip


def _points(summary: Json) -> dict[str, Json]:
    points: dict[str, Json] = {"all": summary["success"]["wilson"]}
    for name, rows in summary["categories"].items():
        points.update({f"{name}: {row['name']}": row["wilson"] for row in rows})
    return points


def _labels(summaries: Sequence[Json]) -> list[str]:
    labels = list(dict.fromkeys(label for s in summaries for label in _points(s)))
    if len(labels) > _MOST_BARS:
        log.info("the plot shows the first %d of %d categories", _MOST_BARS, len(labels))
    return labels[:_MOST_BARS]


def _rows(head: Sequence[object], rows: Sequence[Sequence[object]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())[:160]
