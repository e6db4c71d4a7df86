"""``python -m rl.export run=FOLDER [out=FOLDER] [step=N]``: a run's weights in Hugging Face layout.

Takes the newest whole checkpoint, or that of a step, merges adapters, and writes model, tokenizer
and configuration to ``out`` (default ``FOLDER/model``). Reads only: the run may go on meanwhile.
Exit 0 done, 1 nothing to export or not readable, 2 wrong use, 3 the model it began with is missing.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rl.errors import CheckpointError, ConfigError, RlError

OPTIONS = ("run", "out", "step")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    from serving.errors import ModelError

    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or any(a in ("-h", "--help") for a in arguments):
        sys.stdout.write((__doc__ or "").strip() + "\n")
        return 0 if arguments else 2
    try:
        sys.stdout.write(f"{_export(arguments)}\n")
    except (ConfigError, ModelError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2 if isinstance(error, ConfigError) else 3
    except KeyboardInterrupt:
        return 130
    except (RlError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def export(folder: Path, out: Path, step: int | None = None) -> Path:
    """Write a run's weights; what is at ``out`` is replaced once all is written.

    Raises:
        CheckpointError: the run has no whole checkpoint (of that step).
        ModelError: the model it began with cannot be found.
        ConfigError: the folder holds no run, or ``out`` something else than a model.
    """
    from rl import checkpoint
    from rl.config import validate
    from rl.trainerhost import TrainerHost

    try:
        config = validate(json.loads((folder / "config.json").read_text()))
    except FileNotFoundError:
        raise ConfigError(f"run={folder}: no run there (config.json is missing)") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"run={folder}: its config.json cannot be read: {error}") from None
    found = checkpoint.candidates(folder / "checkpoints")
    if out.exists() and any(out.iterdir()) and not (out / "config.json").exists():
        raise ConfigError(f"out={out} holds something else than a model: choose another folder")
    chosen = [path for meta, path in found if step is None or meta.step == step]
    if not chosen:
        steps = ", ".join(str(meta.step) for meta, _ in found) or "none"
        raise CheckpointError(f"{folder}: no checkpoint of that kind; steps there are: {steps}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as made:
        host = TrainerHost(config, folder, Path(made))
        host.start()
        host.load_weights(str(chosen[0]))
        part = Path(host.export(str(Path(made) / "model")))
        if out.exists():
            out.rename(Path(made) / "replaced")
        part.rename(out)
    return out


def _export(arguments: Sequence[str]) -> Path:
    options: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in OPTIONS:
            raise ConfigError(f"{argument!r}: options are {', '.join(OPTIONS)}")
        if key in options:
            raise ConfigError(f"{key}= is there twice")
        options[key] = value
    if "run" not in options:
        raise ConfigError("run=FOLDER is missing")
    if not options.get("step", "0").isdigit():
        raise ConfigError(f"step={options['step']}: give a number")
    folder = Path(options["run"]).resolve()
    out = Path(options["out"]).resolve() if "out" in options else folder / "model"
    return export(folder, out, int(options["step"]) if "step" in options else None)


if __name__ == "__main__":
    sys.exit(main())
