"""The base image: a local one, else a public slim one, else one made on the spot.

``clawgym/base:<codename>`` is the local name. Left out: bases other than Debian.
"""

import logging
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator

from envs.errors import MissingDependency
from envs.sandbox.engine import has_image

log = logging.getLogger(__name__)

DEFAULT_CODENAME = "bookworm"
CODENAMES = ("bookworm", "trixie")
PULL_TIMEOUT_S = 120.0
REACH_TIMEOUT_S = 15.0
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
    name = codename()
    local, public = f"clawgym/base:{name}", f"debian:{name}-slim"
    if has_image(local):
        return local
    if has_image(public) or _pull(public):
        return public
    _make(name, local)
    return local


def _pull(public: str) -> bool:
    """Pull within a bounded time. A registry that does not answer at all is given up early."""
    log.info("pulling %s", public)
    command = ["docker", "pull", "--quiet", public]
    if shutil.which("docker") is None:
        return False
    try:
        probe = subprocess.run(
            ["docker", "manifest", "inspect", public],
            capture_output=True,
            timeout=REACH_TIMEOUT_S,
            check=False,
        )
        if probe.returncode != 0:
            log.info("no registry answers")
            return False
        done = subprocess.run(command, capture_output=True, timeout=PULL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        log.info("no registry answers in time")
        return False
    return done.returncode == 0


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


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MAKE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise MissingDependency(
            f"{command[0]} gave no base image in {MAKE_TIMEOUT_S:.0f} s",
            "check that this machine reaches a Debian mirror, then run the build again",
        ) from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise MissingDependency(
            f"{command[0]} failed: {last}",
            "check that this machine reaches a Debian mirror, then run the build again",
        )


def _import(producer: list[str], tag: str) -> None:
    """Pipe a root file system from ``producer`` into ``docker import``."""
    quoted = " ".join(producer)
    _run(["bash", "-o", "pipefail", "-c", f"{quoted} | docker import - {tag}"])
