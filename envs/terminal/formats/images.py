"""Images of public tasks: built from the task's own Dockerfile, nothing in it changed.

The tag names what the build reads: a changed file asks for a build. Where the image of a ``FROM``
is neither here nor can be pulled, the task is refused by name, unless a substitute was given
(``base=``): then that ``FROM`` alone is replaced, the task carries a tag that says so, and its
results are never taken for official ones.

Left out: compose, ready images that must be pulled, build secrets.
"""

import fcntl
import hashlib
import logging
import os
import re
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from envs.errors import SetupError, TaskError
from envs.images import families, resolve
from envs.images.base import pull
from envs.sandbox.engine import connect, has_image

log = logging.getLogger(__name__)

_FROM = re.compile(
    r"^(?P<head>[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*)(?P<image>\S+)(?:[ \t]+AS[ \t]+(?P<stage>\S+))?",
    re.IGNORECASE | re.MULTILINE,
)
_ARG = re.compile(r"^[ \t]*ARG[ \t]+(\w+)(?:=(\S+))?", re.IGNORECASE | re.MULTILINE)
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))")
PASSED_ON = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "PIP_INDEX_URL")


def tag_of(folder: Path, dockerfile: Path, base: str = "") -> str:
    """Return the reference of the image of a build context: its files, their modes, ``base``."""
    digest = hashlib.sha256(f"{dockerfile.name}\0{base}\0".encode())
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            data = str(path.readlink()).encode()
        elif path.is_file():
            data = path.read_bytes()
        else:
            continue
        mode = path.lstat().st_mode & 0o777
        digest.update(f"{path.relative_to(folder)}\0{mode}\0{len(data)}\0".encode() + data)
    return f"clawgym/task:{digest.hexdigest()[:16]}"


def bases(text: str) -> list[str]:
    """Return the images that a Dockerfile starts from; its own stages and ``scratch`` are none.

    Raises:
        TaskError: an argument before ``FROM`` that has no value.

    Example:
        >>> bases("ARG V=24.04\\nFROM ubuntu:${V} AS a\\nFROM a\\n")
        ['ubuntu:24.04']
    """
    return list(dict.fromkeys(image for image, _ in _found(text)))


def substituted(text: str, substitutes: Mapping[str, str]) -> str:
    """Return the Dockerfile with some of its images replaced, all else as it was."""
    for image, match in reversed(list(_found(text))):
        start, end = match.span("image")
        text = text[:start] + substitutes.get(image, match["image"]) + text[end:]
    return text


def _found(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    stages: set[str] = set()
    values: dict[str, str] = {}
    for arg in _ARG.finditer(text[: (first.start() if (first := _FROM.search(text)) else 0)]):
        values[arg[1]] = (arg[2] or "").strip("\"'")
    for match in _FROM.finditer(text):
        image = _VARIABLE.sub(lambda v: values.get(v[1] or v[3]) or v[2] or "", match["image"])
        if not image:
            raise TaskError(f"FROM {match['image']}: the argument has no value")
        if image.lower() not in stages and image != "scratch":
            yield image, match
        if match["stage"]:
            stages.add(match["stage"].lower())


def ensure_image(tag: str, folder: Path, dockerfile: Path, base: str, timeout_s: float) -> str:
    """Return ``tag``, building it first where it is missing. One process builds, others wait.

    Args:
        base: an image family or a reference that stands in for what cannot be had; "" for none.

    Raises:
        TaskError: an image cannot be had and there is no substitute; the context changed.
        SetupError: the build failed or took longer than ``timeout_s``; carries its last lines.
        MissingDependency: no engine, or no such substitute.
    """
    if has_image(tag):
        return tag
    if tag_of(folder, dockerfile, base) != tag:
        raise TaskError(f"{folder} has changed since the task was loaded")
    with _Lock(tag):
        if not has_image(tag):
            text = dockerfile.read_text("utf-8")
            substitutes = _substitutes(text, base, dockerfile)
            _build(tag, folder, substituted(text, substitutes), timeout_s)
    return tag


def _substitutes(text: str, base: str, dockerfile: Path) -> dict[str, str]:
    found = {}
    for image in bases(text):
        if has_image(image) or pull(image):
            continue
        if not base:
            raise TaskError(
                f"{dockerfile}: FROM {image}: neither here nor to be pulled. Pull or tag it, or "
                f"give base=IMAGE as a substitute (an image family: {', '.join(families())})"
            )
        found[image] = resolve(base)
        log.warning("%s: FROM %s is substituted by %s", dockerfile, image, found[image])
    return found


def _build(tag: str, folder: Path, text: str, timeout_s: float) -> None:
    import docker.errors
    import docker.utils
    import requests

    last: deque[str] = deque(maxlen=12)
    log.info("building %s from %s", tag, folder)
    arguments = {k: os.environ[k] for k in PASSED_ON if os.environ.get(k)}
    ignore = folder / ".dockerignore"
    exclude = ignore.read_text("utf-8").splitlines() if ignore.is_file() else None
    context: Any = docker.utils.tar(
        folder, exclude=exclude, dockerfile=(".clawgym.Dockerfile", text)
    )
    api = connect(timeout_s=timeout_s)
    try:
        for event in api.build(fileobj=context, custom_context=True, tag=tag, buildargs=arguments,
                               dockerfile=".clawgym.Dockerfile", rm=True, forcerm=True,
                               decode=True, labels={"clawgym": "task"}):  # fmt: skip
            if line := event.get("stream", "").rstrip():
                last.append(line)
            if "error" in event:
                raise SetupError(f"{folder}: build failed: {event['error']}\n" + "\n".join(last))
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise SetupError(f"{folder}: build failed: {error}") from error
    finally:
        context.close()
        api.close()


class _Lock:
    """One builder of a tag on this machine."""

    def __init__(self, tag: str) -> None:
        name = hashlib.sha256(tag.encode()).hexdigest()[:16]
        self._path = Path(tempfile.gettempdir()) / f"clawgym-build-{os.getuid()}-{name}.lock"

    def __enter__(self) -> None:
        self._file = self._path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()
