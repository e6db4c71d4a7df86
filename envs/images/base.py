"""The base image: your own, else a local one, else a public slim one, else one made on the spot.

``CLAWGYM_BASE`` names your own, ``clawgym/base:<codename>`` is the local name. Talks to the engine
through the SDK alone: on newer Debians the command line is a package of its own. Left out: bases
other than Debian.
"""

import json
import logging
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator

from envs.errors import MissingDependency
from envs.images import OWN_BASE
from envs.sandbox.engine import connect, has_image

log = logging.getLogger(__name__)

DEFAULT_CODENAME = "bookworm"
CODENAMES = ("bookworm", "trixie")
PULL_TIMEOUT_S = 300.0
SILENCE_S = 15.0
MAKE_TIMEOUT_S = 1200.0
PACKAGES = "ca-certificates,python3"


def codename() -> str:
    """Return the Debian release to build on: the host's when it is one of ours, else bookworm."""
    try:
        name = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        name = ""
    return name if name in CODENAMES else DEFAULT_CODENAME


def ensure_base() -> str:
    """Return a base image that the engine has.

    Raises:
        MissingDependency: none is here, none can be pulled and none can be made.
    """
    own = os.environ.get(OWN_BASE)
    if own:
        if has_image(own) or pull(own):
            return own
        raise MissingDependency(f"{OWN_BASE}={own} is not on this machine", "pull or unset it")
    name = codename()
    local, public = f"clawgym/base:{name}", f"debian:{name}-slim"
    if has_image(local):
        return local
    if has_image(public) or pull(public):
        return public
    _make(name, local)
    return local


def split_reference(image: str) -> tuple[str, str]:
    """Return repository and tag (or digest) of an image reference; the tag is latest if missing.

    Example:
        >>> split_reference("host:5000/x")
        ('host:5000/x', 'latest')
    """
    name, sign, digest = image.partition("@")
    if sign:
        return name, digest
    folder, slash, last = image.rpartition("/")
    last, _, tag = last.partition(":")
    return f"{folder}{slash}{last}", tag or "latest"


def pull(image: str) -> bool:
    """Pull within a bounded time. A registry that says nothing for a while is given up."""
    import docker.errors
    import requests

    log.info("pulling %s", image)
    deadline = time.monotonic() + PULL_TIMEOUT_S
    api = connect(timeout_s=SILENCE_S)
    try:
        name, tag = split_reference(image)
        for event in api.pull(name, tag=tag, stream=True, decode=True):
            if "error" in event or time.monotonic() > deadline:
                return False
        return has_image(image)
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        log.info("no registry answers (%s)", error)
        return False
    finally:
        api.close()


def _make(name: str, tag: str) -> None:
    """Make a minimal Debian with mmdebstrap or debootstrap and import it."""
    maker = _maker(name)
    log.info("making %s with %s: about a minute or two", tag, maker[0])
    if maker[0] == "mmdebstrap":
        _import([*maker, "-"], tag)
        return
    root = f"/var/tmp/clawgym-base-{os.getpid()}"
    try:
        _run([*maker, root])
        _import(["tar", "-C", root, "-c", "."], tag)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _maker(name: str) -> list[str]:
    commands = {
        "mmdebstrap": ["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", name],
        "debootstrap": ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", name],
    }
    for tool in _install_in_turn(commands):
        if shutil.which(tool):
            return commands[tool]
    raise MissingDependency(
        f"no base image: neither clawgym/base:{name} nor debian:{name}-slim is here, and none can "
        "be pulled or made",
        f"as root on Debian run: apt-get install -y mmdebstrap && mmdebstrap --variant=minbase "
        f"--include={PACKAGES} {name} - | docker import - clawgym/base:{name}",
    )


def _install_in_turn(tools: dict[str, list[str]]) -> Iterator[str]:
    """Yield each tool as it is, then again after an attempt to install it."""
    if os.geteuid() != 0:
        return
    yield from tools
    if shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for tool in tools:
            for step in (["update"], ["install", "-y", "--no-install-recommends", tool]):
                subprocess.run(
                    ["apt-get", "-q", *step],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    timeout=MAKE_TIMEOUT_S,
                    check=False,
                )
            yield tool


def _run(command: list[str], stdout: int = subprocess.DEVNULL) -> None:
    """Run a maker to its end. Raises ``MissingDependency`` with its last line when it fails."""
    remedy = "check that this machine reaches a Debian mirror, then run the build again"
    try:
        done = subprocess.run(
            command,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=MAKE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        missing = f"{command[0]} gave no base image in {MAKE_TIMEOUT_S:.0f} s"
        raise MissingDependency(missing, remedy) from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise MissingDependency(f"{command[0]} failed: {last}", remedy)


def _import(producer: list[str], tag: str) -> None:
    """Import the root file system that ``producer`` writes as a tar: whole, or not at all."""
    name, _, version = tag.rpartition(":")
    with tempfile.TemporaryFile(dir="/var/tmp") as archive:
        _run(producer, stdout=archive.fileno())
        archive.seek(0)
        api = connect(timeout_s=MAKE_TIMEOUT_S)
        try:
            # A generator, not the file: the SDK declares the body chunked, so it must be sent so.
            chunks = iter(lambda: archive.read(1 << 20), b"")
            answer = api.import_image_from_stream(chunks, repository=name, tag=version)
        finally:
            api.close()
    failure = import_failure(answer)
    if failure:
        raise MissingDependency(
            f"the engine did not take {tag}: {failure}", "free its disk or mend it, then try again"
        )


def import_failure(answer: str | bytes) -> str:
    """Return the error in an engine's answer to an import, or "". It comes with status 200."""
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "error" in row:
            return str(row["error"])
    return ""
