"""Snapshots: the writable places of a sandbox as a tar file, under a name on this machine.

``snapshot:<tag>@<hash12>`` is an image reference of ``SandboxSpec``; it names the archive and, in
it, the image to put it on. The hash is of the content: a reference never comes to mean other files,
so a warm sandbox made from it stays right when the tag is used again. The engine's own commit
cannot do this: it leaves out tmpfs.
"""

import hashlib
import json
import os
import re
from pathlib import Path

from envs.errors import MissingImage, SandboxError
from envs.images import resolve
from envs.sandbox.lease import state_folder

PREFIX = "snapshot:"
TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def save(tag: str, image: str, archive: bytes) -> str:
    """Keep an archive; returns its reference. Raises ``SandboxError``."""
    if not TAG.fullmatch(tag):
        raise SandboxError(
            f"snapshot tag {tag!r}: use letters, digits, '_', '.', '-' (128 at most)"
        )
    try:
        base = load_image(image)
        content = json.dumps({"image": base}).encode() + b"\n" + archive
        name = f"{tag}@{hashlib.sha256(content).hexdigest()[:12]}"
        path = _path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        with draft.open("wb") as file:
            file.write(content)
        draft.replace(path)
    except OSError as error:
        raise SandboxError(f"snapshot {tag!r} could not be kept: {error}") from error
    return PREFIX + name


def load(image: str) -> tuple[str, bytes]:
    """Return the engine's reference for a spec's image and the files to start from (or none).

    Raises:
        MissingImage: no such image or snapshot; names the remedy.
        MissingDependency: no engine answers.
    """
    if not image.startswith(PREFIX):
        return resolve(image), b""
    header, archive = _read(image)
    return resolve(json.loads(header)["image"]), archive


def load_image(image: str) -> str:
    """Return the spec image a snapshot stands on; other images are themselves."""
    return str(json.loads(_read(image)[0])["image"]) if image.startswith(PREFIX) else image


def delete(reference: str) -> None:
    """Remove a snapshot. Unknown ones are no error."""
    _path(reference.removeprefix(PREFIX)).unlink(missing_ok=True)


def _read(reference: str) -> tuple[bytes, bytes]:
    try:
        header, _, archive = _path(reference.removeprefix(PREFIX)).read_bytes().partition(b"\n")
    except OSError as error:
        raise MissingImage(
            f"no snapshot {reference!r} on this machine", "make it again with Sandbox.snapshot"
        ) from error
    return header, archive


def _path(name: str) -> Path:
    return state_folder() / "snapshots" / f"{Path(name).name}.tar"
