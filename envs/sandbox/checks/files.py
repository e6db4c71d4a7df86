"""Files in and out: whole, bounded, with the agent's rights and no others."""

import stat

from envs.errors import SandboxFileError, SandboxLimitError
from envs.sandbox.checks import collect, expect
from envs.sandbox.protocol import Sandbox


def round_trip(sandbox: Sandbox) -> None:
    """Any bytes come back as they went; parents are made, modes hold, files are replaced."""
    data = bytes(range(256)) * 4096
    sandbox.write_file("/workspace/a/b/c.bin", data)
    expect(sandbox.read_file("/workspace/a/b/c.bin") == data, "bytes changed")
    sandbox.write_file("/workspace/a/b/c.bin", b"", mode=0o755)
    expect(sandbox.read_file("/workspace/a/b/c.bin") == b"", "not replaced")
    result = sandbox.exec(["stat", "-c", "%a %u", "/workspace/a/b/c.bin"])
    expect(result.output == "755 1000\n", "wrong mode or owner", result)
    names = sandbox.exec(["ls", "-A", "/workspace/a/b"])
    expect(names.output == "c.bin\n", "something else is left in the folder", names)


def unreadable_files(sandbox: Sandbox) -> None:
    """Missing files, folders, pipes, sockets and devices are refused at once; none hangs."""
    sandbox.shell(
        "mkfifo /workspace/pipe; mkdir /workspace/folder; ln -s /dev/zero zero; ln -s loop loop"
    )
    inside = [f"/workspace/{name}" for name in ("none", "folder", "pipe", "zero", "loop")]
    for path in (*inside, "/dev/zero", "/dev/stdin", "/etc/shadow", "/proc/1/environ"):
        try:
            sandbox.read_file(path)
        except SandboxFileError:
            continue
        raise AssertionError(f"{path} was read")


def too_large(sandbox: Sandbox) -> None:
    """A file over the caller's limit is refused, not cut."""
    sandbox.shell("head -c 100001 /dev/zero > big")
    expect(
        len(sandbox.read_file("/workspace/big", max_bytes=100_001)) == 100_001, "limit off by one"
    )
    try:
        sandbox.read_file("/workspace/big", max_bytes=100_000)
    except SandboxLimitError:
        return
    raise AssertionError("a file over the limit was read")


def unwritable_files(sandbox: Sandbox) -> None:
    """System files, folders, and a full disk are errors of the file, not of the sandbox."""
    sandbox.shell("mkdir -p /workspace/folder")
    for path in ("/etc/passwd", "/opt/x", "/proc/sys/kernel/core_pattern", "/workspace/folder",
                 "/opt/clawgym/inside/server.py"):  # fmt: skip
        try:
            sandbox.write_file(path, b"x")
        except SandboxFileError:
            continue
        raise AssertionError(f"{path} was written")
    sandbox.exec(["dd", "if=/dev/zero", "of=/workspace/full", "bs=1M", "count=400"])
    try:
        sandbox.write_file("/workspace/more", bytes(1 << 20))
    except SandboxFileError:
        return
    raise AssertionError("writing to a full disk is no error")


def links_lead_nowhere(sandbox: Sandbox) -> None:
    """A link of the agent's making opens nothing that the agent could not open, and writing to
    one replaces the link: it never writes through it."""
    sandbox.shell("ln -s /etc/shadow s; ln -s / r; echo old > target; ln -s target link")
    for path in ("/workspace/s", "/workspace/r/etc/shadow"):
        try:
            sandbox.read_file(path)
        except SandboxFileError:
            continue
        raise AssertionError(f"{path} was read through a link")
    sandbox.write_file("/workspace/link", b"new")
    expect(sandbox.read_file("/workspace/target") == b"old\n", "written through a link")
    try:
        sandbox.write_file("/workspace/r/etc/cron.d/x", b"x")
    except SandboxFileError:
        return
    raise AssertionError("written outside through a link")


def modes_are_kept(sandbox: Sandbox) -> None:
    """A file written executable runs."""
    sandbox.write_file("/workspace/run.sh", b"#!/bin/sh\necho ran\n", mode=stat.S_IRWXU)
    result = sandbox.shell("./run.sh")
    expect(result.output == "ran\n", "it does not run", result)


CHECKS = collect(
    round_trip,
    unreadable_files,
    too_large,
    unwritable_files,
    links_lead_nowhere,
    modes_are_kept,
)
