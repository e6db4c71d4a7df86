"""Records of the world: tasks, actions, observations, verdicts.

All are frozen and hold plain values, so they pickle, compare and serialise as they are.

Example:
    >>> task = Task(id="terminal/count_lines/0007", env="terminal", family="count_lines",
    ...             split="train", instruction="Write the number of lines of a.txt to n.txt.")
    >>> Task.from_json(task.to_json()) == task
    True
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from envs.text import printable

Split = Literal["train", "heldout"]


@dataclass(frozen=True)
class TaskLimits:
    """What a task grants; the episode loop and the sandbox enforce it.

    Attributes:
        max_steps: agent actions per episode.
        step_timeout_s: wall-clock limit of one command.
        verifier_timeout_s: wall-clock limit of the verifier.
        output_bytes: most bytes of one command's output that reach an observation.
        memory_bytes, pids, disk_bytes, cpus: limits of the sandbox.
    """

    max_steps: int = 8
    step_timeout_s: float = 10.0
    verifier_timeout_s: float = 60.0
    output_bytes: int = 4096
    memory_bytes: int = 512 * 2**20
    pids: int = 128
    disk_bytes: int = 64 * 2**20
    cpus: float = 1.0


@dataclass(frozen=True)
class Task:
    """One problem an environment can be reset to.

    Attributes:
        id: unique over all task sets, ``env/family/name``.
        env: short name of the environment that plays it.
        family: template or source package; splits are disjoint by family *and* by parameters.
        split: ``train`` or ``heldout``.
        instruction: what the agent is asked, in words.
        image: sandbox image family, see ``envs.images``.
        limits: see ``TaskLimits``.
        data: what set-up, oracle and verifier of this environment need; JSON values only.
        tags: free labels; reports use ``level:easy``, ``source:release``, ``source:generated``.
    """

    id: str
    env: str
    family: str
    split: Split
    instruction: str
    image: str = "terminal"
    limits: TaskLimits = field(default_factory=TaskLimits)
    data: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the task as JSON values; ``from_json`` is the inverse."""
        return {**asdict(self), "tags": list(self.tags)}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Task":
        """Build a task from ``to_json``'s value.

        Raises:
            TypeError: an unknown key, or a value of the wrong type.
            ValueError: a limit that is not positive.
        """
        values = dict(row)
        values["limits"] = _limits(values.get("limits", {}))
        values["tags"] = tuple(values.get("tags", ()))
        for key in ("id", "env", "family", "split", "instruction", "image"):
            if not isinstance(values.get(key, ""), str):
                raise TypeError(f"{key}={values[key]!r}: give text")
        if not all(isinstance(tag, str) for tag in values["tags"]):
            raise TypeError(f"tags={values['tags']!r}: give a list of texts")
        if not isinstance(values.get("data", {}), Mapping):
            raise TypeError(f"data={values['data']!r}: give an object")
        return cls(**values)


def _limits(row: Mapping[str, Any]) -> TaskLimits:
    for key, value in row.items():
        legal = (int, float) if key.endswith("_s") or key == "cpus" else (int,)
        if isinstance(value, bool) or not isinstance(value, legal):
            raise TypeError(f"limits.{key}={value!r}: give a number")
        if not 0 < value < float("inf"):
            raise ValueError(f"limits.{key}={value!r}: give a number above 0")
    return TaskLimits(**row)


@dataclass(frozen=True)
class Verdict:
    """What a verifier says of the state of the world.

    Attributes:
        reward: in [0, 1]; 1 is solved.
        passed: names of checks that held.
        failed: names of checks that did not.
        detail: one line for people.
    """

    reward: float
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    detail: str = ""

    def __post_init__(self) -> None:
        """Escape what is no UTF-8: names and details may quote what the agent made."""
        object.__setattr__(self, "passed", tuple(map(printable, self.passed)))
        object.__setattr__(self, "failed", tuple(map(printable, self.failed)))
        object.__setattr__(self, "detail", printable(self.detail))

    @property
    def solved(self) -> bool:
        """True when the whole task is solved."""
        return self.reward >= 1.0
