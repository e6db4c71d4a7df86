"""The reaper removes what nobody owns, and nothing that somebody does."""

import subprocess
import sys
import time

import pytest

from envs.sandbox.container import create_arguments
from envs.sandbox.docker import DockerSandbox
from envs.sandbox.engine import connect
from envs.sandbox.lease import lease_path, owner_alive, owner_label, read_lease, write_lease
from envs.sandbox.protocol import SandboxSpec
from envs.sandbox.reaper import Reaper, _survey, reap, survey

SPEC = SandboxSpec(image="terminal", disk_bytes=16 << 20, memory_bytes=128 << 20)
UNSEEN = "elsewhere/1/1"
docker = pytest.mark.docker


def dead_owner() -> str:
    code = "from envs.sandbox.lease import owner_label; print(owner_label())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_owner_is_a_process_not_a_pid():
    """A pid is used again: the new process once kept the dead one's containers alive."""
    assert owner_alive(owner_label()) is True
    place, _, ticks = owner_label().rpartition("/")
    assert owner_alive(f"{place}/{int(ticks) - 1}") is False
    assert owner_alive(dead_owner()) is False


@pytest.mark.parametrize("label", ["", "x", "otherboot/pid:[1]/1/1", "a/b/c/d"])
def test_unknown_owners_are_not_judged(label):
    """A process on another machine or in another namespace is not dead because we do not see it."""
    assert owner_alive(label) is None


@pytest.mark.usefixtures("state")
def test_a_broken_lease_file_is_no_lease():
    """A half-written file must not stop the reaper."""
    write_lease("clawgym-x", 10.0)
    assert read_lease("clawgym-x").owner == owner_label()
    lease_path("clawgym-x").write_text('{"owner": ')
    assert read_lease("clawgym-x") is None


@docker
@pytest.mark.usefixtures("terminal_image", "state")
def test_live_sandboxes_stay(run_id):
    """A second run's reaper at start once removed the first run's containers."""
    with DockerSandbox(SPEC, run_id=run_id) as sandbox:
        assert reap(run_id).removed == ()
        assert [found.reason for found in survey(run_id)] == [""]
        assert sandbox.shell("echo alive").output == "alive\n"
        assert reap(run_id, force=True).removed == (sandbox.id,)


@docker
@pytest.mark.usefixtures("terminal_image", "state")
def test_expired_leases_are_reaped(run_id):
    """An owner nobody can see here holds the machine's memory only as long as its lease."""
    with DockerSandbox(SPEC, run_id=run_id) as sandbox:
        write_lease(sandbox.id, -1.0, owner=UNSEEN)
        assert [found.reason for found in survey(run_id)] == ["lease expired"]
        assert reap(run_id).removed == (sandbox.id,)
        assert survey(run_id) == () and not lease_path(sandbox.id).exists()


@docker
@pytest.mark.usefixtures("terminal_image", "state")
def test_expiry_alone_ends_nothing_that_lives(run_id):
    """With a full disk or a clock set forward a run's own reaper removed its live sandboxes."""
    with DockerSandbox(SPEC, run_id=run_id) as sandbox:
        write_lease(sandbox.id, -1e6)
        assert reap(run_id).removed == ()
        assert sandbox.shell("echo alive").output == "alive\n"


def test_a_hidden_owner_is_not_dead():
    """Under hidepid a process of another user's is not in /proc: it was taken for dead."""
    code = (
        "import os; from envs.sandbox.lease import _exists; os.setuid(65534)\n"
        "print(_exists(1), _exists(os.getppid()), _exists(2**22 - 1))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True True False\n", done.stderr


@pytest.mark.parametrize("row", [{}, {"Names": None}, {"Names": [], "Labels": None}])
def test_a_container_on_its_way_out_is_passed_over(row):
    """The engine lists one without a name for a moment: the reaper's thread ended for good."""

    class Api:
        def containers(self, **filters):
            return [row, {"Names": ["/x"], "Labels": None, "State": "running"}]

    assert [found.name for found in _survey(Api(), None)] == ["x"]


@docker
@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("how", ["lease", "label", "deadline"])
def test_orphans_are_reaped_however_they_are_known(run_id, how, terminal_image):
    """A container created but never started ends by no socket: only labels and leases tell."""
    api = connect()
    name = f"{run_id}-orphan"
    body = create_arguments(api, SPEC, terminal_image, name, run_id, "0")
    if how == "label":
        body["Labels"]["clawgym.owner"] = dead_owner()
    if how == "deadline":
        body["Labels"]["clawgym.owner"] = "elsewhere"
        body["Labels"]["clawgym.deadline"] = str(int(time.time()) - 1)
    try:
        api.create_container_from_config(body, name)
        if how == "lease":
            write_lease(name, 100.0, owner=dead_owner())
        assert reap(run_id).removed == (name,)
        assert survey(run_id) == ()
    finally:
        reap(run_id, force=True)
        api.close()


@docker
@pytest.mark.usefixtures("terminal_image", "state")
def test_timer_reaps_at_start_and_at_the_end(run_id):
    """A reaper that only runs once misses what dies afterwards."""
    first, second = DockerSandbox(SPEC, run_id=run_id), DockerSandbox(SPEC, run_id=run_id)
    with first, second:
        write_lease(first.id, -1.0, owner=UNSEEN)
        with Reaper(period_s=3600.0, run_id=run_id):
            while first.id in {found.name for found in survey(run_id)}:
                time.sleep(0.05)
            write_lease(second.id, -1.0, owner=UNSEEN)
        assert survey(run_id) == ()


def test_force_needs_a_run():
    """Nobody ends everyone else's sandboxes by accident."""
    with pytest.raises(ValueError, match="run_id"):
        reap(force=True)
