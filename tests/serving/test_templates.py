"""Which chat templates are append-only, and how the command line says so."""

import shutil
from pathlib import Path

import pytest

from serving.errors import RequestRefused
from serving.formats.dialogues import USER
from serving.models import resolve
from serving.templates import ANOTHER_DAY, ModelTemplate, Report, check, describe, main

from .formats.chat_templates import (
    CHATML,
    GEMMA,
    HERMES,
    KEEPS_THOUGHTS,
    LLAMA3,
    MISTRAL,
    QWEN3,
    template,
)


def broken(report: Report) -> set[str]:
    return {verdict.kind for verdict in report.verdicts if verdict.broken}


@pytest.mark.parametrize(
    ("source", "format", "kinds"),
    [
        (CHATML, "plain", set()),
        (HERMES, "hermes", set()),
        (KEEPS_THOUGHTS, "hermes", set()),
        (QWEN3, "hermes", {"reasoning"}),
        (LLAMA3, "llama3", {ANOTHER_DAY}),
        (MISTRAL, "mistral", {"tools"}),
        (GEMMA, "gemma", set()),
    ],
)
def test_templates_that_rewrite_history_are_found(
    source: str, format: str, kinds: set[str]
) -> None:
    """Bug prevented: sessions counted as one growing prompt that the template never writes."""
    report = check(template(source))
    assert report.format == format
    assert broken(report) == kinds
    assert report.is_append_only is not bool(kinds)


def test_the_first_place_is_named() -> None:
    """Bug prevented: a report that leaves its reader to find the place."""
    (verdict,) = [v for v in check(template(QWEN3)).verdicts if v.broken]
    assert verdict.broken and verdict.broken.turn == 1
    assert "Thought one." in verdict.broken.expected
    assert verdict.broken.found.startswith("Answer one.")
    (verdict,) = [v for v in check(template(LLAMA3)).verdicts if v.broken]
    assert verdict.broken and verdict.broken.found.startswith("2 Feb 2002")
    (verdict,) = [v for v in check(template(MISTRAL)).verdicts if v.broken]
    assert verdict.broken and verdict.broken.expected.startswith("AVAILABLE_TOOLS]")


def test_a_conversation_the_template_refuses_is_no_break() -> None:
    """Bug prevented: a refusal is reported as rewritten history."""
    short = "{% if messages | length > 9 %}{{ raise_exception('too long') }}{% endif %}"
    report = check(template(short + CHATML))
    (tools,) = [verdict for verdict in report.verdicts if verdict.kind == "tools"]
    assert tools.broken is None and "too long" in tools.refused
    assert report.is_append_only
    nothing = check(template("{{ raise_exception('never') }}"))
    assert not nothing.is_append_only
    assert all(verdict.refused for verdict in nothing.verdicts)


def test_the_date_is_the_given_one_only_if_given() -> None:
    """Bug prevented: the made-up clock stays in the template."""
    dated = template("{{ strftime_now('%Y') }}")
    assert dated.text([USER], day="one day") == "one day"
    assert dated.text([USER]).startswith("20")
    with pytest.raises(RequestRefused, match="never"):
        template("{{ raise_exception('never') }}").text([USER])


def test_real_models(tiny: Path, smollm: Path) -> None:
    """Bug prevented: a default model whose sessions are rewritten at each turn."""
    for folder in (tiny, smollm):
        report = check(ModelTemplate.of(folder))
        assert report.is_append_only, describe(report)
        assert report.format == "plain"


def test_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Bug prevented: scripts that read the wrong exit status."""
    assert main(["check", "tiny"]) == 0
    assert "append-only" in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert main([]) == main(["check"]) == main(["chek", "tiny"]) == 2
    assert main(["check", "no-such-model"]) == 3
    assert "smollm2-135m" in capsys.readouterr().err
    folder = tmp_path / "thinker"
    shutil.copytree(resolve("tiny"), folder)
    (folder / "chat_template.jinja").write_text(QWEN3)
    assert main(["check", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "reasoning     not append-only: message 1" in out
