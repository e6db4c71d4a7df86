"""Errors of learning.

RlError
├── ConfigError           a user's mistake: value, legal set, what to do (exit code 2)
├── StoreError            the store cannot be opened or written
├── CheckpointError       no usable checkpoint where one was asked for
└── RunError              the run cannot go on; carries the first cause
    ├── DivergedError     loss or gradient is not finite
    └── StalledError      a bounded wait ran out; says what it waited for
"""


class RlError(Exception):
    """Learning failed."""


class ConfigError(RlError):
    """A user's mistake in the configuration; one line with the legal set and the remedy."""


class StoreError(RlError):
    """The store cannot be opened or written."""


class CheckpointError(RlError):
    """No usable checkpoint where one was asked for."""


class RunError(RlError):
    """The run cannot go on; the message carries the first cause."""


class DivergedError(RunError):
    """Loss or gradient is not finite."""


class StalledError(RunError):
    """A bounded wait ran out; the message says what it waited for."""
