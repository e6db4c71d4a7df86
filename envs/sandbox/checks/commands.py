"""How commands run and end: time-outs, killed shells, odd bytes, state that stays."""

from envs.sandbox.checks import collect, expect, expect_usable
from envs.sandbox.protocol import Sandbox


def shell_state_stays(sandbox: Sandbox) -> None:
    """Directory, variables, functions, aliases and ``$?`` stay from one command to the next."""
    sandbox.shell("mkdir -p d && cd d && x='a b' && f() { echo \"f $1\"; } && export y=2")
    result = sandbox.shell("pwd; echo $x; f 1; sh -c 'echo $y'")
    expect(result.output == "/workspace/d\na b\nf 1\n2\n", "state is lost", result)
    sandbox.shell("(exit 7)")
    result = sandbox.shell("echo $?")
    expect(result.output == "7\n", "the last status is lost", result)


def exit_codes(sandbox: Sandbox) -> None:
    """Exit codes arrive as they are; 128 + n for a signal, 127 for a missing program."""
    for command, code in (
        ("true", 0),
        ("false", 1),
        ("(exit 42)", 42),
        ("nonesuch", 127),
        ("sh -c 'kill -9 $$'", 137),
    ):
        result = sandbox.shell(command)
        expect(result.exit_code == code, f"{command}: not {code}", result)
        result = sandbox.exec(["bash", "-c", command])
        expect(result.exit_code == code, f"exec {command}: not {code}", result)
    expect(sandbox.exec(["nonesuch"]).exit_code == 127, "a missing program is not 127")


def output_order(sandbox: Sandbox) -> None:
    """Standard output and error arrive merged in the order they were written."""
    result = sandbox.shell("echo 1; echo 2 >&2; echo 3; echo 4 >&2")
    expect(result.output == "1\n2\n3\n4\n", "order is lost", result)


def standard_input_empty(sandbox: Sandbox) -> None:
    """A program that reads its input gets none, instead of hanging or eating later commands."""
    result = sandbox.shell("cat; read x; echo \"[$x]\"; python3 -c 'input()'; echo end")
    expect(not result.timed_out and "[]\n" in result.output, "input is not empty", result)
    expect(result.output.endswith("end\n"), "commands were eaten", result)


def program_input(sandbox: Sandbox) -> None:
    """``exec`` feeds large input, also to a program that reads none of it."""
    data = b"0123456789" * 100_000
    expect(sandbox.exec(["wc", "-c"], stdin=data).output.strip() == "1000000", "input is cut")
    expect(sandbox.exec(["true"], stdin=data).exit_code == 0, "unread input is an error")


def hang(sandbox: Sandbox) -> None:
    """A sleeping command, and a list of them, end at the limit; the shell and its state live."""
    sandbox.shell("x=kept; cd /tmp")
    result = sandbox.shell("sleep 100; sleep 100; echo no", timeout_s=1)
    expect(result.timed_out and result.exit_code == 124, "not a time-out", result)
    expect("no" not in result.output.split(), "the rest of the list ran on", result)
    after = sandbox.shell("echo $x; pwd; ps -eo comm= | grep -c sleep")
    expect(after.output == "kept\n/tmp\n0\n", "shell or process not as they should be", after)


def hang_in_builtin(sandbox: Sandbox) -> None:
    """A loop of the shell itself, with no child to kill, ends too; the directory stays."""
    sandbox.shell("cd /tmp")
    for loop in ("while :; do :; done", "while true; do sleep 1; done", "trap '' INT; while :; do :; done"):  # fmt: skip  # noqa: E501
        result = sandbox.shell(loop, timeout_s=1)
        expect(result.timed_out and result.exit_code == 124, f"{loop}: not a time-out", result)
        after = sandbox.shell("pwd")
        expect(after.output == "/tmp\n", f"{loop}: shell not usable", after)


def hang_of_program(sandbox: Sandbox) -> None:
    """``exec`` kills the program and what it started."""
    result = sandbox.exec(["sh", "-c", "sleep 100 & setsid sleep 100 & sleep 100"], timeout_s=1)
    expect(result.timed_out and result.exit_code == 124, "not a time-out", result)
    left = sandbox.exec(["sh", "-c", "ps -eo comm= | grep -c sleep"])
    expect(left.output == "0\n", "processes are left", left)


def ignored_signals(sandbox: Sandbox) -> None:
    """A program that ignores every signal that can be ignored is killed."""
    script = "import signal,time\nfor s in (1,2,3,15): signal.signal(s, signal.SIG_IGN)\n"
    sandbox.write_file("/workspace/deaf.py", (script + "time.sleep(100)").encode())
    result = sandbox.shell("python3 deaf.py", timeout_s=1)
    expect(result.timed_out, "not a time-out", result)
    left = sandbox.shell("ps -eo args= | grep -c '[d]eaf'")
    expect(left.output == "0\n", "it lives on", left)


def background_child(sandbox: Sandbox) -> None:
    """A background child that holds standard output delays nothing, and lives on."""
    result = sandbox.shell("sleep 50 & echo started", timeout_s=5)
    expect(not result.timed_out and "started" in result.output, "waited for the child", result)
    result = sandbox.shell("ps -eo comm= | grep -c sleep")
    expect(result.output.endswith("1\n"), "the background child was killed", result)


def background_child_survives_time_out(sandbox: Sandbox) -> None:
    """A time-out ends what the hung command started, not the server of an earlier one."""
    sandbox.shell("sleep 77 & true")
    sandbox.shell("sleep 88", timeout_s=1)
    result = sandbox.shell("ps -eo args= | grep '[s]leep'")
    expect(result.output == "sleep 77\n", "not exactly the earlier child is left", result)


def orphans(sandbox: Sandbox) -> None:
    """Daemons with sessions of their own end with ``kill_processes``, zombies are collected."""
    sandbox.shell(
        "(setsid nohup sleep 60 >/dev/null 2>&1 &); (setsid sh -c 'sleep 61 & sleep 62' &)"
    )
    sandbox.kill_processes()
    left = sandbox.exec(
        ["sh", "-c", "ps -eo pid=,stat=,comm= | grep -v -E '(server|python3|ps|sh|grep)$'"]
    )
    expect(left.output == "", "processes are left", left)
    expect_usable(sandbox)


def shell_exits(sandbox: Sandbox) -> None:
    """``exit``, ``exec``, a killed shell: the code arrives, a note says so, the next one works."""
    sandbox.shell("mkdir /tmp/own && chmod 700 /tmp/own && cd /tmp/own")
    for command, code in (
        ("exit 3", 3),
        ("kill -9 $$", 137),
        ("exec false", 1),
        ("set -e; false", 1),
    ):
        result = sandbox.shell(command)
        expect(result.exit_code == code, f"{command}: not exit code {code}", result)
        expect(result.note != "", f"{command}: no note", result)
        after = sandbox.shell("pwd")
        expect(after.output == "/tmp/own\n", f"{command}: directory or shell lost", after)
    sandbox.shell("rmdir /tmp/own; exit")
    after = sandbox.shell("pwd")
    expect(after.output == "/workspace\n", "a directory that is gone ends every shell", after)


def unfinished_syntax(sandbox: Sandbox) -> None:
    """Open quotes, brackets and here-documents end with their command."""
    for command in (
        "echo 'abc",
        'echo "abc',
        "if true; then",
        "cat <<X\nno end",
        "echo $(",
        "(",
        "}",
    ):
        result = sandbox.shell(command, timeout_s=5)
        expect(not result.timed_out, f"{command!r} hangs", result)
        after = sandbox.shell("echo next")
        expect(after.output == "next\n", f"{command!r} swallows the next command", after)


def odd_bytes(sandbox: Sandbox) -> None:
    """Invalid UTF-8, NUL, ANSI escapes, a missing newline: as they are, escaped at need."""
    result = sandbox.shell(r"printf 'a\xff\xfeb\0c \033[2J\033[1;31m\r end'")
    expect(result.output == "a\\xff\\xfeb\0c \x1b[2J\x1b[1;31m\r end", "changed", result)
    result = sandbox.shell("echo 'é漢😀'; printf 'no newline'")
    expect(result.output == "é漢😀\nno newline", "changed", result)
    expect(sandbox.shell("echo a\0b").exit_code == 0, "NUL in a command")


def sabotage(sandbox: Sandbox) -> None:
    """Shadowed builtins, traps, closed descriptors and prompts cost a fresh shell at most."""
    for command in (
        "builtin() { :; }; eval() { :; }; printf() { echo fake; }",
        "trap 'echo trapped' DEBUG ERR EXIT",
        "exec >/dev/null 2>&1",
        "exec 0</dev/null 253>&- 254>&-",
        'for fd in /proc/self/fd/*; do eval "exec ${fd##*/}>&-"; done 2>/dev/null',
        "PS1='prompt> '; PROMPT_COMMAND='echo hello'",
        "kill -STOP $$",
        "set -u; echo $nope",
        "stty -echo; reset; clear",
        "shopt -s extdebug; set -T; trap 'false' DEBUG",
    ):
        sandbox.shell(command, timeout_s=2)
        sandbox.shell("true", timeout_s=2)
        expect_usable(sandbox)
        sandbox.kill_processes()


def program_environment_clean(sandbox: Sandbox) -> None:
    """Nothing of the persistent shell reaches ``exec``: a verifier cannot be fooled by it."""
    sandbox.shell(
        "export PATH=/workspace/bin:$PATH EVIL=1 BASH_ENV=/workspace/x; cd /tmp; umask 777"
    )
    sandbox.shell("mkdir -p /workspace/bin; ls() { echo fake; }; export -f ls")
    result = sandbox.exec(["bash", "-c", "echo $EVIL$BASH_ENV; pwd; umask; type -t ls; echo $PATH"])
    lines = result.output.splitlines()
    expect(lines[:4] == ["", "/workspace", "0022", "file"], "the shell leaks", result)
    expect("/workspace/bin" not in lines[4], "the shell's PATH leaks", result)


def program_options(sandbox: Sandbox) -> None:
    """``cwd`` and ``env`` of one call hold for that call; a missing directory is exit code 126."""
    result = sandbox.exec(["sh", "-c", "pwd; echo $A"], cwd="/tmp", env={"A": "1"})
    expect(result.output == "/tmp\n1\n", "not applied", result)
    result = sandbox.exec(["sh", "-c", "pwd; echo $A"])
    expect(result.output == "/workspace\n\n", "they stay", result)
    expect(sandbox.exec(["true"], cwd="/nonesuch").exit_code == 126, "missing cwd not reported")


CHECKS = collect(
    shell_state_stays,
    exit_codes,
    output_order,
    standard_input_empty,
    program_input,
    hang,
    hang_in_builtin,
    hang_of_program,
    ignored_signals,
    background_child,
    background_child_survives_time_out,
    orphans,
    shell_exits,
    unfinished_syntax,
    odd_bytes,
    sabotage,
    program_environment_clean,
    program_options,
)
