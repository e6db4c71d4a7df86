"""``python -m envs.gui record [gui|browser] [TASK] [out=FOLDER] [kind=webp|gif]`` plays a task's
oracle and writes it as an animated picture; ``… pictures [FOLDER]`` writes the pictures of the
documentation, with a mark on each element.

Exit codes: 0 done, 1 the world failed, 2 a mistake in the call, 3 something is missing here.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envs import images, registry
from envs.errors import EnvError, MissingDependency, TaskError
from envs.types import Task
from envs.words import UsageError, Words, parse

USAGE = " ".join((__doc__ or "").split("\n\n")[0].replace("``", "").split())
WORLDS = ("gui", "browser")
SHOWN: dict[str, tuple[str, dict[str, Any]]] = {
    "gui": ("gui/fill_form/0000", {"width": 640, "height": 400}),
    "browser": ("browser/email-inbox-reply/0001", {"width": 320, "height": 240}),
}


def _world(words: Words) -> str:
    name = words.names[0] if words.names else "gui"
    if name not in WORLDS or len(words.names) > 2:
        raise UsageError(f"{name!r} is not recorded: choose of {', '.join(WORLDS)}. {USAGE}")
    return name


def _task(world: str, wanted: str) -> Task:
    tasks = registry.load_tasks(world)
    found = [task for task in tasks if wanted in ("", task.id, task.family)]
    if not found:
        raise TaskError(f"no task {wanted!r}: see python -m envs.tasks list {world} --ids")
    return found[0]


def _record(words: Words) -> int:
    world = _world(words)
    task = _task(world, words.names[1] if len(words.names) > 1 else "")
    images.resolve("gui")
    out = words.options.get("out", "recordings")
    kind = words.options.get("kind", "webp")
    if kind not in ("webp", "gif"):
        raise UsageError(f"kind={kind}: choose webp or gif")
    env = registry.make(world, [task], record=out, record_kind=kind)
    try:
        actions = env.oracle(task)
        env.reset(options={"task": task})
        for action in actions:
            env.step(action)
    finally:
        env.close()
    print(env.recording.written[-1])  # type: ignore[attr-defined]
    return 0


def _pictures(words: Words) -> int:
    from PIL import Image

    folder = Path(words.names[0] if words.names else "docs/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    images.resolve("gui")
    for world, (wanted, size) in SHOWN.items():
        task = _task(world, wanted)
        env = registry.make(world, [task], observe="both", marks=True, **size)
        try:
            seen, _ = env.reset(options={"task": task})
        finally:
            env.close()
        path = folder / f"{world}.png"
        Image.fromarray(seen["screenshot"]).quantize(128).save(path, optimize=True)
        print(path)
    return 0


def main(argv: Sequence[str]) -> int:
    """Run one command; return the exit code."""
    if {*argv} & {"-h", "--help"}:
        print(USAGE)
        return 0
    commands = {"record": (_record, ("out", "kind")), "pictures": (_pictures, ())}
    try:
        if not argv or argv[0] not in commands:
            raise UsageError(USAGE)
        command, keys = commands[argv[0]]
        return command(parse(argv[1:], keys=keys))
    except (UsageError, TaskError) as error:
        print(error, file=sys.stderr)
        return 2
    except MissingDependency as error:
        print(error, file=sys.stderr)
        return 3
    except EnvError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
