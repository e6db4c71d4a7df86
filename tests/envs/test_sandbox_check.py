"""The Docker back end holds every check of the conformance suite, and the suite can fail."""

import pytest

from envs.errors import SandboxLost
from envs.sandbox.check import CHECKS, check_sandbox
from envs.sandbox.docker import DockerSandbox


@pytest.mark.docker
@pytest.mark.parametrize("name", CHECKS)
def test_docker_holds(name, terminal_image):
    """One test per check, so that a failure names the property that broke."""
    check_sandbox(DockerSandbox, only=[name]).raise_if_failed()


def test_suite_has_a_name_for_everything():
    """At least 25 checks, each documented: a check without a reason is not understood later."""
    assert len(CHECKS) >= 25
    assert all(check.__doc__ for check in CHECKS.values())


class Lame:
    """A sandbox that cannot do anything: the suite must say so, not pass or crash."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def shell(self, *args, **kwargs):
        raise SandboxLost("gone")

    exec = shell


def test_suite_reports_a_broken_back_end():
    """A lost sandbox is 'broken', which is not 'passed'."""
    report = check_sandbox(lambda spec: Lame(), only=["hang", "no_network"])
    assert not report.ok
    assert {result.outcome for result in report.results} == {"broken"}
    with pytest.raises(AssertionError, match="0 of 2 checks passed"):
        report.raise_if_failed()


def test_unknown_check_names_the_legal_ones():
    """A mistyped name must not run nothing and report success."""
    with pytest.raises(ValueError, match="no_network"):
        check_sandbox(lambda spec: Lame(), only=["no_netwrok"])
