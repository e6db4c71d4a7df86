"""Building a family's image from a temporary context. Host certificates pass through it only."""

import logging
import os
import shutil
import tempfile
from collections import deque
from pathlib import Path

from envs.errors import SandboxStartError
from envs.images import context_files, reference
from envs.images.base import ensure_base
from envs.sandbox.engine import connect

log = logging.getLogger(__name__)

HOST_CERTIFICATES = Path("/usr/local/share/ca-certificates")
BUILD_TIMEOUT_S = 1800.0
PASSED_ON = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "PIP_INDEX_URL")


def build(family: str) -> str:
    """Build a family's image, whether or not it exists; returns its reference.

    Raises:
        ValueError: no such family.
        MissingDependency: no engine, or no base image can be had.
        SandboxStartError: the build failed; carries its last lines.
    """
    import docker.errors
    import requests

    tag = reference(family)
    try:
        base = ensure_base()
        with tempfile.TemporaryDirectory(prefix="clawgym-build-") as folder:
            _fill(Path(folder), family)
            log.info("building %s on %s", tag, base)
            _build(folder, tag, base)
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise SandboxStartError(f"building {tag} failed: {error}") from error
    return tag


def _fill(folder: Path, family: str) -> None:
    for name, source in context_files(family).items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    certificates = folder / "certs"
    certificates.mkdir()
    (certificates / "README").write_text("Extra certificates of the building host, if any.\n")
    if HOST_CERTIFICATES.is_dir():
        for path in HOST_CERTIFICATES.glob("*.crt"):
            shutil.copyfile(path, certificates / path.name)


def _build(folder: str, tag: str, base: str) -> None:
    """Run the engine's build. Its API serves old and new engines alike."""
    arguments = {"BASE": base, **{k: os.environ[k] for k in PASSED_ON if os.environ.get(k)}}
    last: deque[str] = deque(maxlen=20)
    api = connect(timeout_s=BUILD_TIMEOUT_S)
    try:
        for event in api.build(path=folder, tag=tag, buildargs=arguments, rm=True, forcerm=True,
                               decode=True):  # fmt: skip
            line = event.get("stream", "").rstrip()
            if line:
                last.append(line)
                log.log(logging.INFO if line.startswith("Step ") else logging.DEBUG, "%s", line)
            if "error" in event:
                raise SandboxStartError(
                    f"building {tag} failed: {event['error']}\n" + "\n".join(last)
                )
        api.tag(tag, tag.partition(":")[0], "latest")
    finally:
        api.close()
