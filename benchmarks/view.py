"""``python -m benchmarks.view RUN… [plot=FILE]``: print a run's tables, compare runs, draw them.

One run: its report, written anew. Several: each run's first lines, every further one compared with
the first, and one plot of all, ``comparison.png`` in the last unless ``plot=`` says otherwise.
Exit 0 done, 2 wrong use.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from envs.words import UsageError, parse


def view(arguments: Sequence[str]) -> tuple[str, Path]:
    """Return what is to be printed, and the plot that was written.

    Raises:
        UsageError: a folder that is no run; an unknown option.
    """
    from benchmarks.run import report
    from benchmarks.run.comparison import compare
    from benchmarks.run.folder import read_run
    from benchmarks.run.summary import summarise

    words = parse(arguments, keys=("plot",))
    if not words.names:
        raise UsageError("give the folder of at least one run")
    runs = [read_run(Path(name).resolve()) for name in words.names]
    last = runs[-1].folder
    if len(runs) == 1:
        drawn = Path(words.options.get("plot", last / "report.png"))
        text = report.write(last).read_text("utf-8")
        if "plot" in words.options:
            report.plot([summarise(runs[0])], drawn)
        return text, drawn
    drawn = Path(words.options.get("plot", last / "comparison.png"))
    summaries = [summarise(run) for run in runs]
    report.plot(summaries, drawn)
    parts = [f"{s['run']['name']}: {report.headline(s)}" for s in summaries]
    parts += [report.comparison_markdown(compare(runs[0], other)) for other in runs[1:]]
    return "\n".join(parts), drawn


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return its exit status."""
    if not arguments or any(word in ("-h", "--help") for word in arguments):
        sys.stdout.write((__doc__ or "").strip() + "\n")
        return 0 if arguments else 2
    try:
        text, drawn = view(arguments)
    except (UsageError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{text}\nplot: {drawn}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
