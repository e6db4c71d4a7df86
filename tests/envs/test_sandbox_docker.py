"""Life and death of a Docker sandbox: who cleans up, and what the caller is told."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from envs.errors import MissingDependency, SandboxError, SandboxLost
from envs.sandbox import snapshots
from envs.sandbox.docker import DockerSandbox
from envs.sandbox.engine import connect
from envs.sandbox.lease import lease_path, read_lease, renew_lease, write_lease
from envs.sandbox.pool import SandboxPool
from envs.sandbox.protocol import Sandbox, SandboxSpec
from envs.sandbox.reaper import survey

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("terminal_image", "state")]

SPEC = SandboxSpec(image="terminal", disk_bytes=16 << 20, memory_bytes=128 << 20)


def names(run_id):
    return {found.name for found in survey(run_id)}


def eventually(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_close_leaves_nothing(run_id):
    """Containers and leases of finished work used to pile up until the machine was full."""
    sandbox = DockerSandbox(SPEC, run_id=run_id)
    assert isinstance(sandbox, Sandbox)
    assert names(run_id) == {sandbox.id} and lease_path(sandbox.id).exists()
    sandbox.close()
    sandbox.close()
    assert names(run_id) == set() and not lease_path(sandbox.id).exists()
    with pytest.raises(SandboxLost, match="closed"):
        sandbox.shell("true")
    sandbox.heartbeat()
    assert not lease_path(sandbox.id).exists()


def test_lost_container_is_an_error_with_its_first_cause(run_id):
    """A dead container must never look like a command's output, then or later."""
    with DockerSandbox(SPEC, run_id=run_id) as sandbox:
        killer = threading.Timer(0.3, kill_container, [sandbox.id])
        killer.start()
        with pytest.raises(SandboxLost) as first:
            sandbox.shell("sleep 30", timeout_s=20)
        with pytest.raises(SandboxLost) as second:
            sandbox.read_file("/etc/hostname")
        killer.join()
    assert str(first.value) == str(second.value)
    assert "'shell'" in str(first.value)


def kill_container(name):
    api = connect()
    api.kill(name)
    api.close()


OWNER = """
import sys, time
from envs.sandbox.docker import DockerSandbox
from envs.sandbox.protocol import SandboxSpec
sandbox = DockerSandbox(SandboxSpec(image="terminal"), run_id=sys.argv[1])
print(sandbox.id, flush=True)
sandbox.shell(sys.argv[2], timeout_s=300)
time.sleep(300)
"""


@pytest.mark.parametrize(
    "command",
    ["true", "trap '' TERM HUP INT; while :; do sleep 1; done", "setsid sleep 300 & sleep 300"],
    ids=["idle", "deaf", "children"],
)
def test_killed_owner_takes_its_container_along(run_id, command):
    """kill -9 of a trainer used to leave its containers running for ever, busy ones above all."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, run_id, command], stdout=subprocess.PIPE, text=True
    )
    try:
        name = owner.stdout.readline().strip()
        assert names(run_id) == {name}
        time.sleep(0.5)
    finally:
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
        owner.stdout.close()
    assert eventually(lambda: names(run_id) == set())


def test_snapshot_starts_a_sandbox_with_the_files(run_id):
    """tmpfs is not in an engine's commit: a snapshot that silently lost everything."""
    reference = ""
    try:
        with DockerSandbox(SPEC, run_id=run_id) as sandbox:
            sandbox.shell(
                "mkdir -p d && echo 1 > d/f && chmod 700 d && ln -s f d/l && echo 2 > ~/g"
            )
            sandbox.shell("rm ~/.bashrc")
            reference = sandbox.snapshot("test-snapshot")
        spec = SandboxSpec(image=reference, disk_bytes=16 << 20)
        with DockerSandbox(spec, run_id=run_id) as sandbox:
            seen = "cat d/l ~/g; stat -c %a d; ls ~/.bashrc 2>/dev/null"
            assert sandbox.shell(seen).output == "1\n2\n700\n"
            sandbox.shell("rm -rf d; echo 3 > new")
            sandbox.reset()
            assert sandbox.shell(seen + "; ls").output == "1\n2\n700\nd\n"
            again = sandbox.snapshot("test-snapshot-2")
        with DockerSandbox(SandboxSpec(image=again), run_id=run_id) as sandbox:
            assert sandbox.shell(seen).output == "1\n2\n700\n"
    finally:
        snapshots.delete(reference)


def test_a_tag_used_again_is_another_snapshot(run_id):
    """A warm sandbox of the first went on starting from its old files, and looked like the new."""
    with SandboxPool(run_id=run_id) as pool:
        sandbox = pool.acquire(SPEC)
        references = []
        for word in ("old", "new"):
            sandbox.shell(f"echo {word} > f")
            references.append(sandbox.snapshot("again"))
            warm = pool.acquire(replace(SPEC, image=references[-1]))
            assert warm.shell("cat f").output == f"{word}\n"
            pool.release(warm)
        for reference in references:
            snapshots.delete(reference)


def test_a_directory_that_is_no_text_reaches_the_agent_as_text(run_id):
    """A lone surrogate in a note made the policy server refuse the request: an unscored episode."""
    with DockerSandbox(SPEC, run_id=run_id) as sandbox:
        sandbox.shell("mkdir $'\\xff' && cd $'\\xff'")
        note = sandbox.shell("exit").note
        assert note.encode() and "\\xff" in note


def test_a_helper_that_the_agent_kills_is_no_lost_file(run_id):
    """A read whose helper vanished counted as a missing file, that is as the agent's 0."""
    killer = (
        "while :; do for p in /proc/[0-9]*; do p=${p#/proc/}; "
        "[ $p -gt $BASHPID ] && kill -9 $p; done; done 2>/dev/null &"
    )
    with DockerSandbox(SPEC, run_id=run_id) as sandbox:
        sandbox.write_file("f", b"here")
        sandbox.shell(killer)
        for _ in range(20):
            assert sandbox.read_file("f") == b"here"


def test_a_lease_is_renewed_on_a_full_disk(tmp_path):
    """A run reaped its own sandboxes when it could not write their leases anew."""
    write_lease("clawgym-x", 10.0)
    before = read_lease("clawgym-x")
    inode = lease_path("clawgym-x").stat().st_ino
    renew_lease("clawgym-x", 500.0)
    assert read_lease("clawgym-x").deadline > before.deadline + 400
    assert lease_path("clawgym-x").stat().st_ino == inode, "renewed by writing a file"


def test_snapshot_tag_is_no_path(run_id):
    """A tag becomes a file name on the host: it must not leave its folder."""
    with DockerSandbox(SPEC, run_id=run_id) as sandbox, pytest.raises(SandboxError, match="tag"):
        sandbox.snapshot("../../escape")


@pytest.mark.parametrize("image", ["clawgym/nonesuch:0", "snapshot:nonesuch"])
def test_missing_image_names_the_remedy(image):
    """'404 Client Error' tells nobody what to do."""
    with pytest.raises(MissingDependency) as error:
        DockerSandbox(SandboxSpec(image=image))
    assert image in error.value.missing and error.value.remedy


def test_no_engine_names_the_remedy(tmp_path):
    """Without an engine the first thing a person sees is how to get one."""
    code = (
        "from envs.sandbox.docker import DockerSandbox\n"
        "from envs.sandbox.protocol import SandboxSpec\n"
        "from envs.errors import MissingDependency\n"
        "try: DockerSandbox(SandboxSpec(image='terminal'))\n"
        "except MissingDependency as error: print(error.remedy)\n"
    )
    env = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert "scripts/engine" in done.stdout, done.stderr


def test_importing_costs_nothing():
    """`import envs` is on every path: it must not load the engine's SDK."""
    code = (
        "import sys, envs.sandbox, envs.sandbox.pool, envs.images; print('docker' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_one_sandbox_is_safe_to_share_between_threads(run_id):
    """Two threads on one socket once read each other's replies."""
    wrong = []
    with DockerSandbox(SPEC, run_id=run_id) as sandbox:

        def ask(number):
            for _ in range(20):
                if sandbox.exec(["echo", str(number)]).output != f"{number}\n":
                    wrong.append(number)

        threads = [threading.Thread(target=ask, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_own_workdir_and_limits(run_id):
    """What the spec says is what the container has."""
    spec = SandboxSpec(
        image="terminal", workdir="/home/agent", pids=50, cpus=0.5, memory_bytes=1 << 27
    )
    with DockerSandbox(spec, run_id=run_id, worker="w7") as sandbox:
        assert sandbox.shell("pwd").output == "/home/agent\n"
        api = connect()
        settings = api.inspect_container(sandbox.id)
        api.close()
    host = settings["HostConfig"]
    assert host["PidsLimit"] == 51 and host["NanoCpus"] == 500_000_000
    assert host["Memory"] == host["MemorySwap"] == (1 << 27) + spec.disk_bytes
    assert host["LogConfig"]["Type"] == "none" and host["ReadonlyRootfs"]
    assert settings["Config"]["Labels"]["clawgym.worker"] == "w7"


ENGINE = Path(__file__).parents[2] / "scripts" / "engine"


def test_engine_script_leaves_a_running_engine_alone():
    """Run twice by two helpers on one machine it must not start a second daemon."""
    done = subprocess.run([ENGINE], capture_output=True, text=True)
    assert done.returncode == 0 and "ready" in done.stdout


def test_engine_script_says_what_to_do(tmp_path):
    """An engine that was named and does not answer is not replaced behind the user's back."""
    env = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    done = subprocess.run([ENGINE], capture_output=True, text=True, env=env)
    assert done.returncode == 3 and "DOCKER_HOST" in done.stderr
