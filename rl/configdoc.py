"""Writes ``docs/configuration.md`` from the configuration models.

``python -m rl.configdoc FILE`` writes it; with ``--check`` it exits 1 when the file is out of date.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rl.config import SHORTHANDS, sections
from rl.methodsettings import AlgorithmConfig
from rl.settings import RunConfig

INTRO = """# Configuration

Generated from `rl/settings.py` by `python -m rl.configdoc docs/configuration.md`; do not edit.

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
        kinds = sections(field.annotation)
        if len(kinds) == 1:
            lines += _table(f"{name}: {_title(kinds[0])}", kinds[0], f"{name}.")
        elif kinds:
            lines += _table(f"{name}: {_title(AlgorithmConfig)}", AlgorithmConfig, f"{name}.")
            lines += [line for kind in kinds for line in _variant(kind, f"{name}.")]
    return "\n".join(lines) + "\n"


def _title(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().rstrip(".")


def _table(title: str, model: type[BaseModel], prefix: str) -> list[str]:
    rows = list(_rows(model, prefix))
    return [f"\n## {title}\n", "| key | default | meaning |", "|---|---|---|", *rows]


def _variant(model: type[BaseModel], prefix: str) -> list[str]:
    """Return what a method adds to the common keys or sets otherwise."""
    common = {key: field.default for key, field in AlgorithmConfig.model_fields.items()}
    name = model.model_fields["name"].default
    own = [
        row
        for row, (key, field) in zip(_rows(model, prefix), model.model_fields.items(), strict=True)
        if key != "name" and (key not in common or common[key] != field.default)
    ]
    lines = [f"\n### `algorithm={name}`: {_title(model)}\n"]
    return lines + (["| key | default | meaning |", "|---|---|---|", *own] if own else [])


def _rows(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if not sections(field.annotation):
            yield f"| `{prefix}{name}` | {_show(field.default)} | {field.description or ''} |"


def _show(value: Any) -> str:
    if value is None:
        return "–"
    return f"`{list(value) if isinstance(value, tuple) else value}`"


def main() -> int:
    """Run the command line."""
    if {*sys.argv[1:]} & {"-h", "--help"}:
        sys.stdout.write(f"{(__doc__ or '').strip()}\n")
        return 0
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
