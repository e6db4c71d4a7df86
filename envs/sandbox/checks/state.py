"""What a reset leaves of the agent before: nothing. What a snapshot keeps: its files."""

from envs.sandbox.checks import collect, expect, expect_usable
from envs.sandbox.protocol import Sandbox

PLACES = "/workspace /tmp /home/agent /var/tmp /run /dev/shm /dev/mqueue"
LISTING = f"find {PLACES} -printf '%p %m %s %l\\n' 2>/dev/null | sort"


def reset_clears_files(sandbox: Sandbox) -> None:
    """Every writable place is as in a fresh sandbox, modes, links and attributes included."""
    fresh = sandbox.exec(["sh", "-c", LISTING])
    places = sandbox.exec(["find", "/", "-xdev", "-maxdepth", "0", "-writable"])
    expect(places.output == "", "the root is writable", places)
    sandbox.shell(
        f"for d in {PLACES}; do mkdir -p $d/a/.b; echo x > $d/a/.b/c; echo x > $d/.hidden; "
        "ln -s /etc/passwd $d/link; mkfifo $d/pipe; done 2>/dev/null; "
        "rm -f ~/.bashrc ~/.profile; echo evil > ~/.bash_profile; chmod 000 /tmp/a; "
        "mkdir -p /workspace/locked/in; chmod -R 000 /workspace/locked; chmod 700 /workspace /tmp; "
        "touch '/workspace/-rf' $'/workspace/new\\nline'; cd /workspace; "
        "for i in {1..300}; do mkdir d; cd d; done"
    )
    sandbox.reset()
    after = sandbox.exec(["sh", "-c", LISTING])
    expect(after.output == fresh.output, "the listing differs from a fresh sandbox", after)


def reset_finds_every_writable_place(sandbox: Sandbox) -> None:
    """There is no place to write that a reset does not know."""
    script = (
        f"touch /tmp/mark; find / -xdev -o -true 2>/dev/null | head -0; df --output=target {PLACES}"
    )
    expect(sandbox.exec(["sh", "-c", script]).exit_code == 0, "a writable place is missing")
    probe = (
        "awk '{print $2}' /proc/mounts | while read m; do "
        '[ -d "$m" ] && (touch $m/clawgym-probe) 2>/dev/null && echo $m; done; true'
    )
    found = set(sandbox.exec(["bash", "-c", probe]).output.split())
    expect(found <= set(PLACES.split()), f"also writable: {sorted(found - set(PLACES.split()))}")
    sandbox.reset()
    left = sandbox.exec(["bash", "-c", f"ls -d {{{PLACES.replace(' ', ',')}}}/clawgym-probe"])
    expect(left.exit_code != 0 and "\n/" not in f"\n{left.output}".replace("ls:", ""), "left", left)


def reset_clears_processes(sandbox: Sandbox) -> None:
    """Background jobs and daemons are gone."""
    sandbox.shell("sleep 90 & (setsid sleep 91 &); (trap '' TERM HUP INT; sleep 92) &")
    sandbox.reset()
    left = sandbox.exec(["sh", "-c", "ps -eo args= | grep '[s]leep'"])
    expect(left.output == "", "processes are left", left)


def reset_clears_shell(sandbox: Sandbox) -> None:
    """Variables, functions, aliases, directory, umask, options and traps are gone."""
    sandbox.shell("export X=1; f() { :; }; alias ll=ls; cd /tmp; umask 000; set -f; ulimit -n 100")
    sandbox.reset()
    result = sandbox.shell('echo "[$X]"; type f ll 2>/dev/null; pwd; umask; echo *; ulimit -n')
    expect(result.output == "[]\n/workspace\n0022\n*\n1024\n", "the shell remembers", result)


def reset_clears_shared_memory(sandbox: Sandbox) -> None:
    """System V segments, semaphores and queues outlive their process; they are removed."""
    script = (
        "import ctypes; c = ctypes.CDLL(None); "
        "c.shmget(1, 4096, 0o1666); c.semget(1, 1, 0o1666); c.msgget(1, 0o1666)"
    )
    sandbox.exec(["python3", "-c", script])
    count = "cat /proc/sysvipc/shm /proc/sysvipc/sem /proc/sysvipc/msg | grep -vc key"
    made = sandbox.exec(["sh", "-c", count])
    expect(made.output == "3\n", "the check could not make its objects", made)
    sandbox.reset()
    left = sandbox.exec(["sh", "-c", count])
    expect(left.output == "0\n", "objects are left", left)


def killing_frees_shared_memory(sandbox: Sandbox) -> None:
    """Segments that fill memory are gone with the agent's processes: they would have the verifier
    killed in its place."""
    script = (
        "import ctypes; c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p\n"
        "for _ in range(200):\n"
        "    i = c.shmget(0, 16 << 20, 0o1666)\n"
        "    if i < 0: break\n"
        "    ctypes.memset(c.shmat(i, None, 0), 1, 16 << 20)\n"
    )
    sandbox.exec(["python3", "-c", script])
    made = sandbox.exec(["sh", "-c", "grep -vc key /proc/sysvipc/shm"])
    expect(made.output.strip() not in ("", "0"), "the check could not make a segment", made)
    sandbox.kill_processes()
    left = sandbox.exec(["sh", "-c", "grep -vc key /proc/sysvipc/shm"])
    expect(left.output == "0\n", "segments are left", left)
    expect_usable(sandbox)


def reset_clears_deep_folders(sandbox: Sandbox) -> None:
    """Folders nested deeper than any path is long are removed like others."""
    script = (
        "import os\nos.chdir('/workspace')\n"
        "for _ in range(60): os.mkdir('d' * 200, 0o700); os.chdir('d' * 200)\n"
        "open('f', 'w').close()\n"
    )
    made = sandbox.exec(["python3", "-c", script])
    expect(made.exit_code == 0, "the check could not make its folders", made)
    sandbox.reset()
    expect(sandbox.shell("ls -A /workspace").output == "", "folders survive the reset")


def reset_after_wreck(sandbox: Sandbox) -> None:
    """``rm -rf /`` and more break the agent's own things only; a reset mends those."""
    fresh = sandbox.exec(["sh", "-c", LISTING])
    sandbox.shell(
        "rm -rf --no-preserve-root / 2>/dev/null; mv /workspace /gone; chmod 000 ~", timeout_s=20
    )
    expect_usable(sandbox)
    sandbox.reset()
    after = sandbox.exec(["sh", "-c", LISTING])
    expect(after.output == fresh.output, "not as a fresh sandbox", after)


def reset_in_a_fork_bomb(sandbox: Sandbox) -> None:
    """A reset works while the agent's processes use up every process it may have."""
    sandbox.shell("b() { b | b & }; b", timeout_s=2)
    sandbox.reset()
    expect(sandbox.shell("echo hi").output == "hi\n", "not usable")


def kill_processes_keeps_files(sandbox: Sandbox) -> None:
    """The verifier finds the files, and nothing of the agent's alive beside it."""
    sandbox.shell("echo 1 > f; cd /tmp; (while :; do echo 2 > /workspace/f; done) & sleep 0.1")
    sandbox.kill_processes()
    sandbox.write_file("/workspace/f", b"3")
    expect(sandbox.exec(["sleep", "0.2"]).exit_code == 0, "cannot run")
    expect(sandbox.read_file("/workspace/f") == b"3", "a process of the agent's lives on")
    expect_usable(sandbox)


CHECKS = collect(
    reset_clears_files,
    reset_finds_every_writable_place,
    reset_clears_processes,
    reset_clears_shell,
    reset_clears_shared_memory,
    killing_frees_shared_memory,
    reset_clears_deep_folders,
    reset_after_wreck,
    reset_in_a_fork_bomb,
    kill_processes_keeps_files,
)
