"""How well replies were judged, publication by publication: told by the learner, seen by people.

The points are few and small: they are kept in memory, and in ``quality.jsonl`` beside the turns.
"""

import json
import logging
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path

logger = logging.getLogger(__name__)

FILE = "quality.jsonl"
MOST_POINTS = 1000


@dataclass(frozen=True)
class QualityPoint:
    """What was thought of the replies of one policy version.

    Attributes:
        version: the policy version that answered.
        score: mean of the judge's scores.
        judged: number of replies it is the mean of.
        at: seconds since the epoch.
    """

    version: int
    score: float
    judged: int
    at: float = field(default_factory=time.time)


class QualityLog:
    """The newest points, the oldest first.

    Args:
        folder: where they stay over restarts; None keeps them in memory alone.
        most: older ones are forgotten.
    """

    def __init__(self, folder: Path | None = None, most: int = MOST_POINTS) -> None:
        self._path = None if folder is None else folder / FILE
        self._points: deque[QualityPoint] = deque(maxlen=most)
        self._num_lines = 0
        if self._path is not None and self._path.exists():
            self._read(self._path)

    @property
    def points(self) -> list[QualityPoint]:
        """All points kept."""
        return list(self._points)

    def add(self, point: QualityPoint) -> None:
        """Keep a point; a disk that refuses it costs only what is there after a restart."""
        self._points.append(point)
        if self._path is None:
            return
        try:
            self._write(self._path)
        except OSError as error:
            logger.error("%s: a point is not kept: %s", self._path, error)

    def _write(self, path: Path) -> None:
        """Append the last point; write the file anew when it holds twice what is kept."""
        self._num_lines += 1
        if self._num_lines <= 2 * (self._points.maxlen or MOST_POINTS):
            with path.open("a") as file:
                file.write(_line(self._points[-1]))
            return
        made = path.with_suffix(".new")
        made.write_text("".join(map(_line, self._points)))
        made.replace(path)
        self._num_lines = len(self._points)

    def _read(self, path: Path) -> None:
        whole = path.read_text()
        if whole and not whole.endswith("\n"):  # of a process that was killed while writing
            with path.open("a") as file:
                file.write("\n")
        for text in whole.splitlines():
            self._num_lines += 1
            try:
                self._points.append(QualityPoint(**json.loads(text)))
            except (TypeError, ValueError) as error:
                logger.warning("%s, line %d cannot be read: %r", path, self._num_lines, error)


def _line(point: QualityPoint) -> str:
    return json.dumps(asdict(point)) + "\n"
