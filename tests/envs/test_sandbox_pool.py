"""The pool: reuse without leaks, replacement of the lost, nothing left at the end."""

import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from envs.errors import MissingDependency, MissingImage, SandboxLost, SandboxStartError
from envs.sandbox.pool import SandboxPool
from envs.sandbox.protocol import SandboxSpec
from envs.sandbox.reaper import survey

SPEC = SandboxSpec(image="terminal", disk_bytes=16 << 20, memory_bytes=128 << 20)


class FakeSandbox:
    """In memory; breaks on demand."""

    made = 0

    def __init__(self, spec):
        FakeSandbox.made += 1
        self.id = f"fake-{FakeSandbox.made}"
        self.spec, self.created = spec, float("inf")
        self.closed, self.lost, self.resets, self.beats = False, False, 0, 0

    def reset(self):
        self.ping()
        self.resets += 1

    def ping(self):
        if self.lost:
            raise SandboxLost("gone")

    def heartbeat(self):
        self.beats += 1

    def close(self):
        self.closed = True


def fake_pool(**options):
    return SandboxPool(factory=FakeSandbox, **options)


def test_equal_specs_share_a_sandbox_and_others_do_not():
    """A sandbox with other limits or variables is another sandbox."""
    with fake_pool() as pool:
        first = pool.acquire(SPEC)
        pool.release(first)
        assert first.resets == 1
        for other in (
            replace(SPEC, pids=5),
            replace(SPEC, env={"A": "1"}),
            replace(SPEC, network=True),
        ):
            assert pool.acquire(other) is not first
        assert pool.acquire(replace(SPEC)) is first
        assert pool.acquire(SPEC) is not first


def test_lost_sandboxes_are_replaced_before_anyone_sees_them():
    """An episode must not start in a container that died while it was idle."""
    with fake_pool() as pool:
        first = pool.acquire(SPEC)
        pool.release(first)
        first.lost = True
        second = pool.acquire(SPEC)
        assert second is not first and first.closed
        second.lost = True
        pool.release(second)
        assert second.closed


def test_too_many_idle_ones_are_closed_the_oldest_first():
    """Warm sandboxes cost memory: their number is bounded over all specs."""
    with fake_pool(max_idle=2) as pool:
        lent = [pool.acquire(SPEC) for _ in range(3)]
        for sandbox in lent:
            pool.release(sandbox)
        assert [sandbox.closed for sandbox in lent] == [True, False, False]


def test_release_is_forgiving():
    """Twice released or foreign sandboxes once ended up lent to two episodes at a time."""
    with fake_pool() as pool:
        first = pool.acquire(SPEC)
        pool.release(first)
        pool.release(first)
        pool.release(FakeSandbox(SPEC))
        assert pool.acquire(SPEC) is first
        assert pool.acquire(SPEC) is not first


def test_close_closes_lent_ones_and_ends_the_pool():
    """What an episode that crashed never gave back is closed with the pool."""
    pool = fake_pool()
    lent, idle = pool.acquire(SPEC), pool.acquire(SPEC)
    pool.release(idle)
    pool.close()
    pool.close()
    assert lent.closed and idle.closed
    pool.release(lent)
    with pytest.raises(SandboxStartError, match="closed"):
        pool.acquire(SPEC)


def test_one_failed_start_is_tried_again_lasting_failure_is_reported():
    """A hiccup of the engine is no reason to lose an episode; an outage is no endless loop."""
    failures = [SandboxStartError("first")]

    def flaky(spec):
        if failures:
            raise failures.pop()
        return FakeSandbox(spec)

    with SandboxPool(factory=flaky, start_waits_s=[0.0]) as pool:
        assert pool.acquire(SPEC)
        failures.extend([SandboxStartError("second"), SandboxStartError("third")])
        with pytest.raises(SandboxStartError, match="second"):
            pool.acquire(SPEC)


def test_an_engine_that_restarts_is_waited_for():
    """MissingDependency, no EnvError, skipped the retries and ended the whole episode loop."""
    answers = [MissingDependency("no engine", "start one")]

    def restarting(spec):
        if answers:
            raise answers.pop()
        return FakeSandbox(spec)

    with SandboxPool(factory=restarting, start_waits_s=[0.0]) as pool:
        assert pool.acquire(SPEC)
        answers.extend([MissingDependency("no engine", "start one")] * 2)
        with pytest.raises(SandboxStartError, match="start one"):
            pool.acquire(SPEC)
        answers.extend([MissingImage("no image", "build it")] * 2)
        with pytest.raises(MissingImage):
            pool.acquire(SPEC)
        assert len(answers) == 1, "an image that is not there was waited for"


def test_leases_of_all_sandboxes_are_renewed():
    """An episode longer than its lease was reaped in the middle of a command."""
    with fake_pool(heartbeat_s=0.01) as pool:
        lent, idle = pool.acquire(SPEC), pool.acquire(SPEC)
        pool.release(idle)
        before = lent.beats, idle.beats
        renewed = threading.Event()
        while not renewed.wait(0.01):
            if lent.beats > before[0] + 1 and idle.beats > before[1] + 1:
                renewed.set()


def test_threads_never_share_a_sandbox():
    """Two episodes in one sandbox see each other's files."""
    seen, clashes, lock = set(), [], threading.Lock()

    def play(pool):
        for _ in range(50):
            sandbox = pool.acquire(SPEC)
            with lock:
                if sandbox.id in seen:
                    clashes.append(sandbox.id)
                seen.add(sandbox.id)
            with lock:
                seen.discard(sandbox.id)
            pool.release(sandbox)

    with fake_pool(max_idle=3) as pool:
        threads = [threading.Thread(target=play, args=[pool]) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert clashes == []


@pytest.mark.docker
@pytest.mark.usefixtures("terminal_image", "state")
def test_real_sandboxes_are_reused_clean_and_gone_afterwards(run_id):
    """The whole way with real containers: prefetch, reuse, replacement, an empty machine."""
    with SandboxPool(run_id=run_id, worker="3") as pool:
        pool.prefetch(SPEC, 2)
        warm = {found.name for found in survey(run_id)}
        assert len(warm) == 2
        first = pool.acquire(SPEC)
        assert first.id in warm
        first.shell("echo secret > /tmp/x; export Y=1; sleep 100 &")
        pool.release(first)
        both = [pool.acquire(SPEC), pool.acquire(SPEC)]
        assert {sandbox.id for sandbox in both} == warm
        for sandbox in both:
            assert sandbox.shell("cat /tmp/x; echo [$Y]; pgrep sleep").output.endswith("[]\n")
    assert survey(run_id) == ()


@pytest.mark.docker
@pytest.mark.usefixtures("terminal_image", "state")
def test_two_runs_do_not_touch_each_other(run_id):
    """Stopping one run ended the containers of the other on the same machine."""
    with SandboxPool(run_id=run_id + "-b") as other:
        kept = other.acquire(SPEC)
        with SandboxPool(run_id=run_id) as pool:
            pool.acquire(SPEC)
        assert survey(run_id) == ()
        assert kept.shell("echo alive").output == "alive\n"


def test_engine_that_was_never_there_is_not_waited_for(tmp_path):
    """The README's first lines without Docker: one typed error with the remedy, no chain of what
    three libraries think of a missing socket, no retries."""
    code = (
        "import gymnasium; from envs import registry; registry.register(); "
        "gymnasium.make('clawgym/Terminal-v0').reset(seed=1)"
    )
    env = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("envs.errors.SandboxStartError: no Docker")
    assert "scripts/engine" in done.stderr.splitlines()[-1]
    assert done.stderr.count("Traceback") == 1 and "trying again" not in done.stderr
