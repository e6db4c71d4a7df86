"""What the agent can see and reach of the machine it runs on: nothing."""

import os

from envs.sandbox.checks import collect, expect
from envs.sandbox.protocol import Sandbox

SECRET = "clawgym-check-secret-7f3a"


def no_network(sandbox: Sandbox) -> None:
    """Only loopback exists and connecting outward fails at once: no exfiltration, no hang."""
    links = sandbox.exec(["sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"])
    expect(set(links.output.split()) <= {"lo"}, "a network interface besides lo", links)
    result = sandbox.shell("exec 3<>/dev/tcp/1.1.1.1/53", timeout_s=5)
    expect(result.exit_code != 0 and not result.timed_out, "a connection was not refused", result)


def host_environment_hidden(sandbox: Sandbox) -> None:
    """No variable of the owner's reaches a command or is readable in /proc."""
    os.environ["CLAWGYM_CHECK_SECRET"] = SECRET
    try:
        for result in (
            sandbox.shell("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'"),
            sandbox.exec(["env"]),
        ):
            expect(SECRET not in result.output, "a variable of the host is visible", result)
    finally:
        del os.environ["CLAWGYM_CHECK_SECRET"]


def spec_environment_visible(sandbox: Sandbox) -> None:
    """The spec's variables reach both kinds of command."""
    for result in (sandbox.shell("echo $FROM_SPEC"), sandbox.exec(["sh", "-c", "echo $FROM_SPEC"])):
        expect(result.output == "yes\n", "spec.env is not set", result)


def runs_as_ordinary_user(sandbox: Sandbox) -> None:
    """Uid 1000 with no supplementary groups in shell, programs and files written for it."""
    for result in (sandbox.shell("id -u; id -G"), sandbox.exec(["sh", "-c", "id -u; id -G"])):
        expect(result.output == "1000\n1000\n", "not the ordinary user", result)


def no_capabilities(sandbox: Sandbox) -> None:
    """No capability is permitted, effective, inheritable or ambient."""
    result = sandbox.shell("grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status")
    values = {line.split()[1] for line in result.output.splitlines()}
    expect(values == {"0" * 16}, "capabilities are left", result)


def no_new_privileges(sandbox: Sandbox) -> None:
    """A set-uid program gives nothing."""
    result = sandbox.shell("grep NoNewPrivs /proc/self/status")
    expect(result.output.split()[-1:] == ["1"], "no-new-privileges is off", result)


def no_user_namespaces(sandbox: Sandbox) -> None:
    """A user namespace would give every capability inside it, and the kernel's bugs with them."""
    result = sandbox.shell("unshare -U -r true")
    expect(result.exit_code != 0, "a user namespace could be made", result)


def server_out_of_reach(sandbox: Sandbox) -> None:
    """The main process can be neither killed nor read by the agent."""
    result = sandbox.shell("kill -9 1; ls /proc/1/fd; cat /proc/1/environ; cat /proc/1/mem")
    expect("not permitted" in result.output, "process 1 could be signalled", result)
    expect(result.output.count("ermission denied") >= 3, "process 1 could be read", result)
    expect(sandbox.exec(["echo", "on"]).output == "on\n", "process 1 is gone", result)


def root_read_only(sandbox: Sandbox) -> None:
    """No file outside the writable places can be made, and none of the system's changed."""
    probe = (
        "for d in / /etc /usr/bin /opt /var /root /lib /srv /boot; do touch $d/x && echo $d; done"
    )
    result = sandbox.shell(f"({probe}) 2>/dev/null; true")
    expect(result.output == "", "places outside are writable", result)


def kernel_settings_not_writable(sandbox: Sandbox) -> None:
    """/proc/sys, /sys and sysrq are the host's."""
    result = sandbox.shell(
        "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sysrq-trigger "
        "/sys/kernel/uevent_helper /proc/sys/vm/drop_caches; do "
        "(echo x > $f) 2>/dev/null && echo $f; done; true"
    )
    expect(result.output == "", "kernel settings are writable", result)


def no_engine_socket(sandbox: Sandbox) -> None:
    """The engine's socket would be root on the host."""
    result = sandbox.shell("ls /var/run/docker.sock /run/docker.sock /run/containerd 2>/dev/null")
    expect(result.output == "", "an engine socket is visible", result)


def no_host_devices(sandbox: Sandbox) -> None:
    """No disk, memory or kernel log device can be opened."""
    result = sandbox.shell(
        "for d in /dev/mem /dev/kmsg /dev/sd* /dev/vd* /dev/nvme* /proc/kcore; do "
        "head -c 1 $d >/dev/null 2>&1 && [ -s $d -o -b $d -o -c $d ] && echo $d; done; true"
    )
    expect(result.output == "", "host devices can be opened", result)


CHECKS = collect(
    no_network,
    host_environment_hidden,
    spec_environment_visible,
    runs_as_ordinary_user,
    no_capabilities,
    no_new_privileges,
    no_user_namespaces,
    server_out_of_reach,
    root_read_only,
    kernel_settings_not_writable,
    no_engine_socket,
    no_host_devices,
)
