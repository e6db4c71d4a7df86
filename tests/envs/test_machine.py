"""A whole machine: the shell survives what hangs, nothing is left, files go in and out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from envs.errors import SandboxFileError, SandboxLimitError, SandboxLost, SandboxStartError
from envs.sandbox.machine import MachineSandbox
from envs.sandbox.pool import SandboxPool
from envs.sandbox.protocol import Sandbox, SandboxSpec
from envs.sandbox.reaper import survey

SPEC = SandboxSpec("", workdir="/srv", memory_bytes=512 << 20, pids=512, machine=True)


@pytest.fixture(scope="module")
def machine(terminal_image: str) -> Iterator[MachineSandbox]:
    from dataclasses import replace

    with MachineSandbox(replace(SPEC, image=terminal_image), run_id="test-machine") as sandbox:
        yield sandbox


def test_it_is_a_sandbox_with_root_and_a_shell_that_remembers(machine: MachineSandbox) -> None:
    assert isinstance(machine, Sandbox)
    machine.shell("x=3; cd /usr; touch /usr/made")
    result = machine.shell("echo $x $PWD $(id -u); ls made; echo 'a\"b' >&2; false")
    assert (result.output, result.exit_code) == ('3 /usr 0\nmade\na"b\n', 1)


def test_a_hung_command_dies_with_its_children_and_older_ones_live(machine: MachineSandbox) -> None:
    """Bug prevented: a time-out that leaves the process running, or that takes the agent's server
    of an earlier command with it."""
    machine.shell("sleep 501 & cd /usr; sleep 0.7")
    result = machine.shell("(trap '' TERM INT; sleep 502) & sleep 503", timeout_s=1.5)
    assert (result.exit_code, result.timed_out) == (124, True)
    left = machine.shell("ps -eo args; echo in $PWD").output
    assert "sleep 501" in left and "in /usr" in left
    assert not {"sleep 502", "sleep 503"} & set(left.splitlines())
    result = machine.exec(["sleep", "504"], timeout_s=0.5)
    assert result.timed_out and "sleep 504" not in machine.shell("ps -eo args").output
    machine.kill_processes()
    assert "sleep 501" not in machine.shell("ps -eo args").output


def test_a_shell_that_ends_is_started_anew_where_it_was(machine: MachineSandbox) -> None:
    machine.shell("cd /opt")
    result = machine.shell("exit 7")
    assert result.exit_code == 7 and "anew" in result.note
    assert machine.shell("pwd").output == "/opt\n"


def test_output_is_cut_and_bytes_stay_visible(machine: MachineSandbox) -> None:
    result = machine.shell("head -c 300000 /dev/zero | tr '\\0' x", max_output_bytes=1000)
    assert result.truncated and result.output_bytes == 300000 and len(result.output) < 1100
    assert machine.shell("printf 'a\\377b'").output == "a\\xffb"
    assert machine.exec(["cat"], stdin=b"in\n").output == "in\n"


def test_files_go_in_and_out(machine: MachineSandbox, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "run.sh").write_text("echo ran")
    (tmp_path / "sub" / "run.sh").chmod(0o755)
    machine.shell("mkdir -p /srv/to && chmod 777 /srv/to")
    machine.upload(tmp_path, "/srv/to")
    assert machine.shell("/srv/to/sub/run.sh; stat -c %a /srv/to").output == "ran\n777\n"
    machine.write_file("/new/place/f", b"\0data")
    assert machine.read_file("/new/place/f") == b"\0data"
    machine.shell("ln -s /etc/passwd /new/link")
    for path in ("/none", "/new/link", "/new"):
        with pytest.raises(SandboxFileError):
            machine.read_file(path)
    with pytest.raises(SandboxLimitError):
        machine.read_file("/etc/passwd", max_bytes=1)


def test_the_network_comes_and_goes(machine: MachineSandbox) -> None:
    count = "grep -c : /proc/net/dev"
    assert machine.shell(count).output == "1\n"
    machine.set_network(True)
    assert machine.shell(count).output == "2\n"
    machine.set_network(False)
    assert machine.shell(count).output == "1\n"


def test_its_disk_is_bounded_or_the_refusal_names_the_driver(
    terminal_image: str, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that a task states and nobody enforces must not be silent."""
    from dataclasses import replace

    monkeypatch.setenv("CLAWGYM_STORAGE", "required")
    spec = replace(SPEC, image=terminal_image, disk_bytes=1 << 30)
    try:
        machine = MachineSandbox(spec, run_id=run_id)
    except SandboxStartError as error:
        assert "no machine of 1073741824 bytes of disk: the storage driver " in str(error)
        assert "takes no size" in str(error)
        return
    with machine:
        assert machine.exec(["fallocate", "-l", "2G", "/srv/big"]).exit_code != 0


def test_a_machine_is_used_once(terminal_image: str, run_id: str) -> None:
    """Bug prevented: the next task starts on what the last agent left."""
    from dataclasses import replace

    with SandboxPool(run_id=run_id) as pool:
        one = pool.acquire(replace(SPEC, image=terminal_image))
        with pytest.raises(SandboxStartError):
            one.reset()
        pool.release(one)
        assert survey(run_id) == ()
        with pytest.raises(SandboxLost):
            one.shell("true")
