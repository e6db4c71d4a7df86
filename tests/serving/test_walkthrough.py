"""The walk-through in docs/serving.md: every snippet of a client that is at hand here is run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .test_sdks import serving

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
SNIPPETS: dict[str, tuple[str, str]] = {
    name: (language, code)
    for name, language, code in re.findall(
        r"^\*\*(.+?)\*\*.*?```(bash|python)\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
}
HERE = ("curl", "openai SDK", "Anthropic SDK")  # the others want environments of their own


@pytest.mark.parametrize("client", HERE)
def test_a_snippet_gets_its_reply(client: str, tiny: Path) -> None:
    """Bug prevented: a page whose first line, pasted, ends in an error."""
    language, code = SNIPPETS[client]
    program = [sys.executable, "-c"] if language == "python" else ["bash", "-c"]
    with serving(tiny, "It works.") as (_, url):
        env = {**os.environ, "BASE": url, "KEY": "secret", "NO_PROXY": "127.0.0.1"}
        done = subprocess.run(
            [*program, code], env=env, capture_output=True, text=True, timeout=300, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "It works." in done.stdout


def test_every_client_of_the_page_has_a_snippet() -> None:
    assert {*HERE, "litellm", "mini-swe-agent"} <= SNIPPETS.keys()
