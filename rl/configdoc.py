"""Writes ``docs/configuration.md`` from the configuration models.

``python -m rl.configdoc FILE`` writes it; with ``--check`` it exits 1 when the file is out of date.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rl.config import SHORTHANDS, RunConfig

INTRO = """# Configuration

Generated from `rl/config.py` by `python -m rl.configdoc docs/configuration.md`; do not edit.

Settings are `key=value` arguments of `python -m rl.train`. Order of precedence: the defaults below,
then `recipes/<env>.yaml`, then `recipe=FILE|NAME`, then the command line. Unknown keys are refused.

Short forms: {shorthands}. `recipe=FILE|NAME` adds a file of settings; `resume=FOLDER` goes on with
a run under the settings it was started with, and takes overrides (for example `optim.steps=40`).
"""


def render() -> str:
    """Return the document."""
    shorthands = ", ".join(f"`{short}=` is `{key}=`" for short, key in SHORTHANDS.items())
    lines = [INTRO.format(shorthands=shorthands)]
    lines += _table("the run", RunConfig, "")
    for name, field in RunConfig.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            lines += _table(f"{name}: {(kind.__doc__ or '').strip().rstrip('.')}", kind, f"{name}.")
    return "\n".join(lines) + "\n"


def _table(title: str, model: type[BaseModel], prefix: str) -> list[str]:
    rows = list(_rows(model, prefix))
    return [f"\n## {title}\n", "| key | default | meaning |", "|---|---|---|", *rows]


def _rows(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            continue
        yield f"| `{prefix}{name}` | {_show(field.default)} | {field.description or ''} |"


def _show(value: Any) -> str:
    if value is None:
        return "–"
    return f"`{list(value) if isinstance(value, tuple) else value}`"


def main() -> int:
    """Run the command line."""
    check = "--check" in sys.argv
    path = Path(next((a for a in sys.argv[1:] if not a.startswith("-")), "docs/configuration.md"))
    if not check:
        path.write_text(render())
        return 0
    if path.read_text() == render():
        return 0
    sys.stderr.write(f"{path} is out of date: run python -m rl.configdoc {path}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
