"""Errors of learning.

RlError
├── ConfigError           a user's mistake: value, legal set, what to do (exit code 2)
├── StoreError            the store cannot be opened or written
├── NoSpaceError          a disk is full; ``rl.space`` tells it from other failures to write
├── CheckpointError       no usable checkpoint where one was asked for
├── SampleError           a sample that no trainer may read: a missing log-prob, a first token
├── BatchRefused          the step was not taken, the weights are as before; counted and skipped
│   ├── MismatchError     engine and trainer disagree more than the bound
│   └── GuardBreach       a monitored number left its bounds; ``rl.guards``
└── RunError              the run cannot go on; carries the first cause
    ├── DivergedError     loss or gradient is not finite
    ├── MissingSignalError  the method needs a judge or teacher and the run has none
    └── StalledError      a bounded wait ran out; says what it waited for
"""


class RlError(Exception):
    """Learning failed."""


class ConfigError(RlError):
    """A user's mistake in the configuration; one line with the legal set and the remedy."""


class StoreError(RlError):
    """The store cannot be opened or written."""


class NoSpaceError(RlError):
    """A disk is full.

    Attributes:
        path: what could not be written.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"no space left on {self.path}"


class CheckpointError(RlError):
    """No usable checkpoint where one was asked for."""


class SampleError(RlError, ValueError):
    """A sample that no trainer may read; the message names the episode."""


class BatchRefused(RlError):
    """The step was not taken and the weights are as before; the message says why.

    ``outcome`` is what the store and the report call it.
    """

    outcome = "refused"


class MismatchError(BatchRefused):
    """Engine and trainer disagree about the log-probs of fresh tokens by more than the bound."""

    outcome = "refused_mismatch"


class GuardBreach(BatchRefused):
    """A monitored number left its bounds."""

    outcome = "refused_guard"


class RunError(RlError):
    """The run cannot go on; the message carries the first cause."""


class DivergedError(RunError):
    """Loss or gradient is not finite."""


class MissingSignalError(RunError):
    """The method needs a judge or a teacher, and the run has none."""


class StalledError(RunError):
    """A bounded wait ran out; the message says what it waited for."""


class JudgeUnavailable(RlError):
    """A judge did not answer. What it was asked waits; it never becomes a score."""
