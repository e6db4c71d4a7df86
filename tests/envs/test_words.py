"""Command lines: what is not understood is refused in one line, never ignored or a traceback."""

from collections.abc import Callable, Sequence

import pytest

from envs import check
from envs.tasks import __main__ as tasks
from envs.words import UsageError, parse


def test_words_are_taken_apart() -> None:
    words = parse(["a", "limit=4", "level=easy,hard", "--ids"], keys=("limit", "level"),
                  flags=("--ids",))  # fmt: skip
    assert words.names == ("a",) and words.flags == {"--ids"}
    assert words.number("limit") == 4 and words.number("seed", 7) == 7
    assert words.listed("level") == ["easy", "hard"] and words.listed("families") is None


@pytest.mark.parametrize("value", ["\u00b2", "-1", "1.5", "0", "x", "9" * 400, "\u0663"])
def test_numbers_are_whole_and_large_enough(value: str) -> None:
    """``"\u00b2".isdigit()`` is true and ``int("\u00b2")`` raises."""
    with pytest.raises(UsageError, match="whole number from 1"):
        parse([f"limit={value}"], keys=("limit",)).number("limit", least=1)


MISTAKES: list[tuple[Callable[[Sequence[str]], int], list[str], str]] = [
    (tasks.main, ["list", "terminal", "limit=\u00b2"], "whole number"),
    (tasks.main, ["validate", "terminal", "limit=0"], "whole number from 1"),
    (tasks.main, ["list", "terminal", "workers=3"], "no option 'workers' here"),
    (tasks.main, ["validate", "terminal", "--ids"], "no flag '--ids' here"),
    (tasks.main, ["list", "terminal", "swe"], "one environment"),
    (tasks.main, ["list", "terminal", "seed=1", "seed=2"], "twice"),
    (tasks.main, ["list", "terminal", "level="], "no value"),
    (check.main, ["terminal", "tasks=x"], "whole number"),
    (check.main, ["terminal", "taks=2"], "did you mean 'tasks'"),
    (check.main, ["terminal", "2"], "usage"),
    (check.main, ["terminel"], "did you mean 'terminal'"),
]


@pytest.mark.parametrize(("main", "argv", "message"), MISTAKES)
def test_a_mistake_is_one_line_and_exit_2(
    main: Callable[[Sequence[str]], int],
    argv: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An option that a command ignored made another run than the one asked for."""
    assert main(argv) == 2
    assert message in capsys.readouterr().err
