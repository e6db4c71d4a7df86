"""What the agent can use up: its own share, and the sandbox lives on."""

from envs.sandbox.checks import collect, expect, expect_usable
from envs.sandbox.protocol import Sandbox

MB = 1 << 20


def fork_bomb(sandbox: Sandbox) -> None:
    """A fork bomb meets the process limit, and killing everything ends it for good."""
    sandbox.shell("bomb() { bomb | bomb & }; bomb", timeout_s=2)
    sandbox.shell("sleep 1; echo hi", timeout_s=2)
    sandbox.kill_processes()
    left = sandbox.exec(["sh", "-c", "ls -d /proc/[0-9]* | wc -l"])
    expect(int(left.output) <= 4, "processes of the bomb are left", left)
    expect_usable(sandbox)


def process_limit(sandbox: Sandbox) -> None:
    """More processes than the spec's ``pids`` cannot be had."""
    result = sandbox.exec(
        ["bash", "-c", "for i in {1..200}; do sleep 5 & done 2>/dev/null; jobs -p | wc -l"],
        timeout_s=8,
    )
    counts = [int(word) for word in result.output.split() if word.isdigit()]
    expect(not counts or counts[-1] <= 64, "more processes than the limit", result)
    sandbox.kill_processes()
    expect_usable(sandbox)


def memory_hog(sandbox: Sandbox) -> None:
    """A program that takes too much memory is killed; the server and the shell are not."""
    result = sandbox.shell("python3 -c 'x = bytearray(900 << 20); print(len(x))'", timeout_s=20)
    expect(result.exit_code != 0 and "943718400" not in result.output, "no memory limit", result)
    expect_usable(sandbox)


def disk_full(sandbox: Sandbox) -> None:
    """No writable place takes more than its share, nor all of them together take the memory."""
    for place in ("/workspace", "/tmp", "/home/agent", "/var/tmp", "/run", "/dev/shm"):
        result = sandbox.exec(["dd", "if=/dev/zero", f"of={place}/full", "bs=1M", "count=400"])
        expect(result.exit_code != 0, f"{place} has no size limit", result)
        expect("No space" in result.output, f"{place}: not refused as a full disk", result)
    expect_usable(sandbox)
    sandbox.reset()
    result = sandbox.shell("dd if=/dev/zero of=/workspace/again bs=1M count=8 2>&1 && echo fine")
    expect("fine" in result.output, "a reset does not give the space back", result)


def inodes_exhausted(sandbox: Sandbox) -> None:
    """Empty files cost the kernel memory: their number is bounded too."""
    script = "import os\nfor i in range(100000): open(f'/workspace/f{i}', 'w').close()"
    result = sandbox.exec(["python3", "-c", script], timeout_s=60)
    expect("No space left" in result.output, "files without end", result)
    sandbox.reset()
    expect(sandbox.shell("ls -A /workspace").output == "", "files survive the reset")
    expect_usable(sandbox)


def output_flood(sandbox: Sandbox) -> None:
    """200 MB of output neither hang nor fill memory; head, tail and exit code are right."""
    command = "echo first; yes | head -c 200000000; echo last; (exit 7)"
    result = sandbox.shell(command, timeout_s=60, max_output_bytes=4096)
    expect(result.exit_code == 7 and not result.timed_out, "wrong ending", result)
    expect(result.truncated and result.output_bytes == 200_000_011, "wrong count", result)
    expect(len(result.output) < 4096 + 200, "too much kept", result)
    expect(result.output.startswith("first\n"), "the head is lost", result)
    expect(result.output.endswith("last\n"), "the tail is lost", result)


def output_flood_of_program(sandbox: Sandbox) -> None:
    """The same for ``exec``."""
    argv = ["sh", "-c", "echo first; yes | head -c 50000000; echo last; exit 7"]
    result = sandbox.exec(argv, timeout_s=60, max_output_bytes=4096)
    expect(result.exit_code == 7 and result.truncated, "wrong ending", result)
    expect(result.output.startswith("first\n") and result.output.endswith("last\n"), "cut", result)


def long_line(sandbox: Sandbox) -> None:
    """A 64 MB line without a newline is cut like any other output."""
    result = sandbox.shell("head -c 64000000 /dev/zero | tr '\\0' x", timeout_s=30)
    expect(result.exit_code == 0 and result.output_bytes == 64_000_000, "wrong", result)
    expect(result.truncated and len(result.output) < 17_000, "not cut", result)


def endless_output(sandbox: Sandbox) -> None:
    """``yes`` is stopped at the time limit, and the next command sees nothing of it."""
    result = sandbox.shell("yes", timeout_s=1, max_output_bytes=1000)
    expect(result.timed_out and result.exit_code == 124, "not stopped", result)
    after = sandbox.shell("echo clean")
    expect(after.output == "clean\n", "output of the command before is mixed in", after)


CHECKS = collect(
    fork_bomb,
    process_limit,
    memory_hog,
    disk_full,
    inodes_exhausted,
    output_flood,
    output_flood_of_program,
    long_line,
    endless_output,
)
