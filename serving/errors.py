"""Errors of serving.

PolicyError                   the policy could not answer; never a reward (design, contract 2)
├── PolicyUnavailable         no answer from the server: refused, reset, gone
├── PolicyTimeout             no answer within the time given
└── RequestRefused            the server understood and refused (HTTP 4xx); has ``field``
    ├── ContextOverflow       prompt and reply do not fit the model's context
    └── TooManyRequests       over the rate or the queue allowed; has ``retry_after_s``

ModelError                    a model cannot be found, fetched, converted or loaded; names a remedy
EngineError                   the engine itself failed
"""


class PolicyError(Exception):
    """The policy could not answer."""


class PolicyUnavailable(PolicyError):
    """No answer from the server: refused, reset, gone."""


class PolicyTimeout(PolicyError):
    """No answer within the time given."""


class RequestRefused(PolicyError):
    """The server refused the request.

    Attributes:
        status: HTTP status.
        field: name of the request field at fault, or None.
    """

    def __init__(self, message: str, status: int = 400, field: str | None = None) -> None:
        super().__init__(message, status, field)
        self.message = message
        self.status = status
        self.field = field

    def __str__(self) -> str:
        return self.message


class ContextOverflow(RequestRefused):
    """Prompt and reply do not fit the model's context."""


class TooManyRequests(RequestRefused):
    """More requests than the rate or the queue allowed.

    Attributes:
        retry_after_s: when to try again, in seconds from now.
    """

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message, status=429)
        self.args = (message, retry_after_s)
        self.retry_after_s = retry_after_s


class ModelError(Exception):
    """A model that cannot be found, fetched, converted or loaded. The message names the remedy."""


class EngineError(Exception):
    """The engine failed."""
