"""Errors of the environments. An ``EnvError`` is never a reward (design, contract 2).

    EnvError                      the world failed; the episode is retried or left out, never scored
    ├── SandboxError              the sandbox could not do what its contract says
    │   ├── SandboxLost           container, daemon or in-container server is gone
    │   ├── SandboxStartError     the sandbox could not be created or did not become ready in time
    │   ├── SandboxFileError      a file could not be moved into or out of the sandbox
    │   └── SandboxLimitError     the request exceeds a limit of the contract (size, path)
    ├── SetupError                the task's own set-up failed
    ├── VerifierError             the verifier gave no usable verdict
    └── TaskError                 a task, task set or task id that cannot be used

    MissingDependency             this machine lacks something (Docker, a base); names the remedy
    ├── MissingEngine             there is no Docker engine at all; waiting brings none
    └── MissingImage              the engine answers and has no such image or snapshot

What the *agent* does wrong (a bad command, its own time-out) is an observation and raises nothing.
"""


class EnvError(Exception):
    """The world failed. Carries one line for people; the class name is the reason in reports."""


class SandboxError(EnvError):
    """The sandbox could not do what its contract says."""


class SandboxLost(SandboxError):
    """The container, the daemon or the server inside is gone."""


class SandboxStartError(SandboxError):
    """The sandbox could not be created or did not become ready in time."""


class SandboxFileError(SandboxError):
    """A file could not be moved into or out of the sandbox."""


class SandboxLimitError(SandboxError):
    """The request exceeds a limit that the contract states."""


class SetupError(EnvError):
    """The task's own set-up failed."""


class VerifierError(EnvError):
    """The verifier gave no usable verdict."""


class TaskError(EnvError):
    """A task, a task set or a task id that cannot be used."""


class MissingDependency(Exception):
    """This machine lacks something a run needs.

    Attributes:
        remedy: what to install or start, as one line a person can follow.
    """

    def __init__(self, missing: str, remedy: str) -> None:
        super().__init__(missing, remedy)
        self.missing = missing
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.missing}. {self.remedy}"


class MissingEngine(MissingDependency):
    """There is no Docker engine at all, or none that this user may use; waiting brings none."""


class MissingImage(MissingDependency):
    """The engine answers and has no such image, or this machine no such snapshot."""
