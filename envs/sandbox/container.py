"""A sandbox's container as the engine sees it: how it is created, and how it is removed.

Every limit of ``SandboxSpec`` becomes an engine setting here and nowhere else.
"""

import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from envs.errors import MissingImage, SandboxStartError
from envs.sandbox.engine import forget_images
from envs.sandbox.lease import owner_label
from envs.sandbox.protocol import SandboxSpec

if TYPE_CHECKING:
    from docker import APIClient

log = logging.getLogger(__name__)

LABEL = "clawgym"
MAX_LIFE_S = 24 * 3600.0
SMALL_BYTES = 16 << 20
SHARED_BYTES = 64 << 20
REMOVE_TIMEOUT_S = 30.0
CAPABILITIES = ("SETUID", "SETGID", "KILL")
SERVER = (
    "/usr/bin/python3",
    "-I",
    "-S",
    "-c",
    "import sys; sys.path.insert(0, '/opt/clawgym'); from inside.server import main; main()",
)

_disk_is_bounded: bool | None = None  # by this engine; None: not tried yet


def writable_places(spec: SandboxSpec) -> dict[str, int]:
    """Return every writable place and its size in bytes. No other path can be written."""
    small = min(spec.disk_bytes, SMALL_BYTES)
    places = dict.fromkeys(("/tmp", "/home/agent"), spec.disk_bytes)
    places.update({"/var/tmp": small, "/run": small, "/dev/shm": min(spec.disk_bytes, 64 << 20)})
    return {spec.workdir: spec.disk_bytes, **places}


def create_arguments(
    api: "APIClient",
    spec: SandboxSpec,
    image: str,
    name: str,
    run_id: str,
    worker: str,
    *,
    bound_ipc: bool = True,
) -> dict[str, Any]:
    """Return the body of the engine's create call.

    Files live in memory, so the memory limit is ``memory_bytes + disk_bytes``: files and processes
    together never exceed it. System V shared memory and message queues, which count as neither,
    get a small share of their own; ``bound_ipc=False`` is for engines that may not set it, where
    ``kill_processes`` alone sees to it.
    """
    from docker.types import LogConfig, Ulimit

    places = writable_places(spec)
    memory = spec.memory_bytes + spec.disk_bytes
    config = {"workdir": spec.workdir, "places": list(places), "env": dict(spec.env)}
    host_config = api.create_host_config(
        network_mode=None if spec.network else "none",
        read_only=True,
        tmpfs={path: _tmpfs(size) for path, size in places.items()},
        cap_drop=["ALL"],
        cap_add=list(CAPABILITIES),
        security_opt=["no-new-privileges"],
        mem_limit=memory,
        memswap_limit=memory,
        pids_limit=spec.pids + 1,  # the server itself is one
        nano_cpus=int(spec.cpus * 1e9),
        log_config=LogConfig(type="none"),
        ulimits=[
            Ulimit(name="core", soft=0, hard=0),
            Ulimit(name="nofile", soft=1024, hard=4096),
        ],
        ipc_mode="private",
        sysctls=_ipc_limits(spec) if bound_ipc else None,
        auto_remove=True,
    )
    body: dict[str, Any] = api.create_container_config(
        image,
        command=[json.dumps(config)],
        entrypoint=list(SERVER),
        user="0:0",
        working_dir="/",
        stdin_open=True,
        detach=False,
        labels=_labels(spec, run_id, worker),
        host_config=host_config,
    )
    body.update(AttachStdin=True, StdinOnce=True)
    return body


def machine_arguments(
    api: "APIClient", spec: SandboxSpec, run_id: str, worker: str, *, bound_disk: bool = True
) -> dict[str, Any]:
    """Return the body of the engine's create call of a machine (``envs.sandbox.machine``).

    ``bound_disk=False`` is for engines whose storage driver takes no size.
    """
    from docker.types import LogConfig

    host_config = api.create_host_config(
        network_mode="bridge" if spec.network else "none",
        mem_limit=spec.memory_bytes,
        memswap_limit=spec.memory_bytes,
        pids_limit=spec.pids,
        nano_cpus=int(spec.cpus * 1e9),
        storage_opt={"size": str(spec.disk_bytes)} if bound_disk else None,
        log_config=LogConfig(type="none"),
        init=True,
    )
    body: dict[str, Any] = api.create_container_config(
        spec.image, command=["infinity"], entrypoint=["sleep"], user="0:0",
        environment=dict(spec.env), labels=_labels(spec, run_id, worker), host_config=host_config,
    )  # fmt: skip
    if spec.workdir:
        body["WorkingDir"] = spec.workdir
    return body


def create_machine(
    api: "APIClient", spec: SandboxSpec, name: str, run_id: str, worker: str
) -> None:
    """Create a machine's container, with its disk bounded where the storage driver can.

    Where it cannot, that is said once in the log; ``CLAWGYM_STORAGE=required`` refuses instead.

    Raises:
        SandboxStartError: the disk cannot be bounded, and that is required.
        docker.errors.APIError: another refusal.
    """
    import docker.errors

    global _disk_is_bounded
    if _disk_is_bounded is not False:
        try:
            api.create_container_from_config(  # type: ignore[no-untyped-call]
                machine_arguments(api, spec, run_id, worker), name
            )
            _disk_is_bounded = True
            return
        except docker.errors.APIError as error:
            text = str(error).lower()
            if not any(word in text for word in ("storage-opt", "storage opt", "quota")):
                raise
            _disk_is_bounded = False
            log.warning("files on a machine are not bounded: %s", _no_quota(api))
    if os.environ.get("CLAWGYM_STORAGE") == "required":
        raise SandboxStartError(f"no machine of {spec.disk_bytes} bytes of disk: {_no_quota(api)}")
    api.create_container_from_config(  # type: ignore[no-untyped-call]
        machine_arguments(api, spec, run_id, worker, bound_disk=False), name
    )


def _no_quota(api: "APIClient") -> str:
    facts = api.info()
    backing = dict(facts.get("DriverStatus") or ()).get("Backing Filesystem", "an unknown one")
    return (
        f"the storage driver {facts.get('Driver')} on {backing} takes no size; overlay2 on xfs "
        "mounted with pquota does, and so do btrfs and zfs"
    )


@contextmanager
def starting(name: str, image: str, remedy: str) -> Iterator[None]:
    """Turn what the engine says while a container starts into errors of ours.

    Raises:
        MissingImage: no such image; carries the remedy.
        SandboxStartError: anything else.
    """
    import docker.errors
    import requests

    try:
        yield
    except docker.errors.ImageNotFound as error:
        forget_images()
        raise MissingImage(f"the sandbox image {image} is not on this machine", remedy) from error
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise SandboxStartError(f"{name} did not start: {error}") from error


def _labels(spec: SandboxSpec, run_id: str, worker: str) -> dict[str, str]:
    return {
        **spec.labels,
        LABEL: "sandbox",
        f"{LABEL}.run": run_id,
        f"{LABEL}.worker": worker,
        f"{LABEL}.owner": owner_label(),
        f"{LABEL}.deadline": str(int(time.time() + MAX_LIFE_S)),
    }


def _ipc_limits(spec: SandboxSpec) -> dict[str, str]:
    pages = min(spec.disk_bytes, SHARED_BYTES) // 4096
    return {"kernel.shmall": str(pages), "kernel.msgmni": "64"}


def _tmpfs(size_bytes: int) -> str:
    inodes = max(4096, size_bytes // 4096)
    return f"rw,exec,nosuid,nodev,size={size_bytes},uid=1000,gid=1000,mode=0755,nr_inodes={inodes}"


def remove_container(api: "APIClient", name: str) -> bool:
    """Remove a container with its volumes and see it gone. Never raises; False: not certain."""
    import docker.errors
    import requests

    deadline = time.monotonic() + REMOVE_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            api.remove_container(name, v=True, force=True)
        except docker.errors.NotFound:
            return True
        except docker.errors.APIError as error:
            if error.status_code != 409:  # 409: its removal is under way
                return False
        except (docker.errors.DockerException, requests.RequestException):
            return False
        time.sleep(0.02)
    return False
