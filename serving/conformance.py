"""Conformance of an engine, for its author: ``check_engine(make, folder).raise_if_failed()``.

    from serving.conformance import check_engine
    from serving.embedded.engine import TorchEngine

    print(check_engine(lambda: TorchEngine(folder), folder))

Every check (``serving.conformance_checks``) gets an engine of its own from ``make`` and knows
nothing but the contract (``serving.engine.Engine``) and the model's folder, so an engine in front
of servers can be checked as well. What an engine does not offer it must refuse. Let ``make`` give
an engine whose context is short: one check fills it. Weights are put back after the checks that
load some.

Left out: speed (``benchmarks.perf engine``), equality with another implementation, dead servers.
"""

import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .conformance_checks import CHECKS
from .conformance_trial import NotOffered, Terms, Trial
from .engine import Engine


@dataclass(frozen=True)
class Report:
    """What held, what did not, and what could not be asked.

    Attributes:
        passed: names of checks.
        failed: name → reason.
        not_offered: name → reason.
    """

    passed: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    not_offered: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True when nothing failed."""
        return not self.failed

    def raise_if_failed(self) -> None:
        """Raise ``AssertionError`` with the report unless nothing failed."""
        if self.failed:
            raise AssertionError("\n" + str(self))

    def __str__(self) -> str:
        lines = [f"ok           {name}" for name in self.passed]
        lines += [f"not offered  {name}: {why}" for name, why in self.not_offered.items()]
        return "\n".join(
            lines + [f"FAILED       {name}: {why}" for name, why in self.failed.items()]
        )


def check_engine(
    make: Callable[[], Engine],
    terms: Terms | Path,
    only: Collection[str] = (),
    lacking: Mapping[str, str] | None = None,
) -> Report:
    """Run the suite.

    Args:
        make: starts an engine; each check closes its own.
        terms: see ``Terms``; a folder takes the defaults.
        only: names of checks to run; all by default.
        lacking: checks that cannot hold for this engine, with the reason; they are not run.

    Raises:
        ValueError: an unknown name of a check.
    """
    terms = terms if isinstance(terms, Terms) else Terms(terms)
    not_offered = dict(lacking or {})
    unknown = sorted({*only, *not_offered} - set(CHECKS))
    if unknown:
        raise ValueError(f"unknown checks {unknown}; choose from {', '.join(CHECKS)}")
    passed: list[str] = []
    failed: dict[str, str] = {}
    for name in [n for n in CHECKS if n not in not_offered and (not only or n in only)]:
        engine = make()
        try:
            with tempfile.TemporaryDirectory() as scratch:
                CHECKS[name](Trial(engine, terms, Path(scratch)))
        except NotOffered as reason:
            not_offered[name] = str(reason)
        except Exception as error:  # the one broad except: any failure is a finding
            failed[name] = f"{type(error).__name__}: {error}"
        else:
            passed.append(name)
        finally:
            engine.close()
    return Report(tuple(passed), failed, not_offered)


__all__ = ["CHECKS", "NotOffered", "Report", "Terms", "check_engine"]
