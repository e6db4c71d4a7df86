"""The torch engine conforms, and each kind of broken engine is found out."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from serving.conformance import CHECKS, Terms, check_engine
from serving.embedded.engine import TorchEngine
from serving.engine import EngineOptions, OnToken
from serving.errors import EngineError
from serving.types import Generation, Sampling, Token

OPTIONS = EngineOptions(threads=1, max_slots=8, cached_slots=8, max_len=512, prefill_tokens=64)


@pytest.mark.parametrize("kind", ["fp32", "int8"])
def test_the_torch_engine_conforms(tiny: Path, kind: str) -> None:
    report = check_engine(lambda: TorchEngine(tiny, replace(OPTIONS, weights=kind)), tiny)
    report.raise_if_failed()
    assert report.not_offered == {} and set(report.passed) == set(CHECKS)


class Relay:
    """A ticket whose result is another's, changed."""

    def __init__(self, inner: Any, change: Callable[[Generation], Generation]) -> None:
        self.future: Future[Generation] = Future()
        self._inner, self._change = inner, change
        inner.future.add_done_callback(self._take)

    def _take(self, future: "Future[Generation]") -> None:
        if (error := future.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(self._change(future.result()))

    def cancel(self) -> None:
        self._inner.cancel()


class Whole:
    """A good engine that passes everything on; the broken ones below change one thing."""

    def __init__(self, folder: Path) -> None:
        self.inner = TorchEngine(folder, OPTIONS)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def ask(self, sampling: Sampling) -> Sampling:
        return sampling

    def change(self, sampled: Generation) -> Generation:
        return sampled

    def submit(
        self, prompt: Sequence[int], sampling: Sampling, on_token: OnToken | None = None
    ) -> Any:
        return Relay(self.inner.submit(prompt, self.ask(sampling), on_token), self.change)


class LogprobsOff(Whole):
    def change(self, sampled: Generation) -> Generation:
        return replace(sampled, logprobs_T=tuple(value - 0.05 for value in sampled.logprobs_T))


class SeedIgnored(Whole):
    def ask(self, sampling: Sampling) -> Sampling:
        return replace(sampling, seed=7)


class SeedForgotten(Whole):
    def ask(self, sampling: Sampling) -> Sampling:
        return replace(sampling, seed=None)


class VersionOfTheEnd(Whole):
    """One version for all tokens: the one in use when the reply ended."""

    def change(self, sampled: Generation) -> Generation:
        versions = (self.inner.version,) * len(sampled.token_ids_T)
        return replace(sampled, versions_T=versions)


class CutByALoad(Whole):
    def load(self, update: Path, version: int) -> None:
        self.inner.load(update, version)
        for row in self.inner._scheduler.rows:
            if row.request is not None:
                row.request.cancelled = True
        self.inner._wake()


class KeepsPrefixes(Whole):
    """Serves keys and values of older weights."""

    def load(self, update: Path, version: int) -> None:
        self.inner._scheduler.weights_changed = lambda *_: None  # type: ignore[method-assign]
        self.inner.load(update, version)


class TakesAnyFile(Whole):
    def load(self, update: Path, version: int) -> None:
        try:
            self.inner.load(update, version)
        except EngineError:
            self.inner._version = version


class PauseIsNothing(Whole):
    def pause(self) -> None:
        pass


class PauseRefuses(Whole):
    paused = False

    def pause(self) -> None:
        self.paused = True
        self.inner.pause()

    def resume(self) -> None:
        self.paused = False
        self.inner.resume()

    def submit(self, *arguments: Any) -> Any:
        if self.paused:
            raise EngineError("paused")
        return super().submit(*arguments)


class CancelIsNothing(Whole):
    def submit(self, *arguments: Any) -> Any:
        ticket = super().submit(*arguments)
        ticket.cancel = lambda: None
        return ticket


class StopsOneLate(Whole):
    """Stop strings are looked for in all but the last token."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        reason = self.inner._stop.reason

        def late(ids: Sequence[int], sampling: Sampling) -> Any:
            if sampling.stop and len(ids) > 1:
                return reason(ids[:-1], sampling)
            return reason(ids, replace(sampling, stop=()))

        self.inner._stop.reason = late  # type: ignore[method-assign]


class OneTokenMore(Whole):
    def ask(self, sampling: Sampling) -> Sampling:
        return replace(sampling, max_tokens=sampling.max_tokens + 1)


class LosesWhatWaits(Whole):
    """Closing never settles the requests that are left."""

    def submit(self, *arguments: Any) -> Any:
        return Silent(super().submit(*arguments))


class Silent:
    def __init__(self, ticket: Any) -> None:
        self.future: Future[Generation] = Future()
        self.cancel = ticket.cancel
        ticket.future.add_done_callback(self._take)

    def _take(self, future: "Future[Generation]") -> None:
        if future.exception() is None:
            self.future.set_result(future.result())


class AcceptsAnything(Whole):
    """Clips values into their range."""

    def submit(self, prompt: Sequence[int], sampling: Sampling, *rest: Any) -> Any:
        ids = [min(max(0, token), 200) for token in prompt][:500] or [0]
        return super().submit(ids, replace(sampling, top_p=min(sampling.top_p, 1.0)), *rest)


class TopsUnsorted(Whole):
    def change(self, sampled: Generation) -> Generation:
        return replace(sampled, tops_T=tuple(top[::-1] for top in sampled.tops_T))


class TellsTwice(Whole):
    def submit(
        self, prompt: Sequence[int], sampling: Sampling, on_token: OnToken | None = None
    ) -> Any:
        def twice(token: Token) -> None:
            if on_token is not None:
                on_token(token)
                on_token(token)

        return super().submit(prompt, sampling, twice)


class SchemaIgnored(Whole):
    def ask(self, sampling: Sampling) -> Sampling:
        return replace(sampling, json_schema="")


class AdaptersIgnored(Whole):
    def ask(self, sampling: Sampling) -> Sampling:
        return replace(sampling, adapter="")


class AdapterOutlivesItself(Whole):
    """Unloading leaves replies running and takes new ones."""

    def unload_adapter(self, name: str) -> None:
        pass


class TakesAnyAdapter(Whole):
    def load_adapter(self, name: str, path: Path, version: int) -> None:
        try:
            self.inner.load_adapter(name, path, version)
        except EngineError:
            return


class OffersLess(Whole):
    """Says it has no adapters, and ignores them."""

    can = frozenset({"top_logprobs", "json_schema"})

    def ask(self, sampling: Sampling) -> Sampling:
        return replace(sampling, adapter="")


BROKEN: Mapping[type[Whole], str] = {
    LogprobsOff: "logprobs_equal_score",
    SeedIgnored: "equal_seeds_give_equal_tokens",
    SeedForgotten: "equal_seeds_give_equal_tokens",
    VersionOfTheEnd: "versions_across_a_load",
    CutByALoad: "versions_across_a_load",
    KeepsPrefixes: "a_load_changes_what_is_sampled_and_scored",
    TakesAnyFile: "bad_files_and_older_versions_are_refused",
    PauseIsNothing: "pause_and_resume_lose_nothing",
    PauseRefuses: "pause_and_resume_lose_nothing",
    CancelIsNothing: "cancelling_ends_and_frees",
    StopsOneLate: "stop_strings_end_the_reply",
    OneTokenMore: "max_tokens_is_kept",
    LosesWhatWaits: "closing_fails_what_waits",
    AcceptsAnything: "bad_requests_are_refused",
    TopsUnsorted: "the_most_probable_tokens",
    TellsTwice: "records_agree",
    SchemaIgnored: "replies_obey_a_schema",
    AdaptersIgnored: "adapters_beside_the_base",
    AdapterOutlivesItself: "unloading_an_adapter_ends_its_requests",
    TakesAnyAdapter: "adapters_are_replaced_in_place",
    OffersLess: "adapters_beside_the_base",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda cls: cls.__name__)
def test_a_broken_engine_is_found_out(tiny: Path, broken: type[Whole]) -> None:
    """Bug prevented: a check that cannot fail."""
    name = BROKEN[broken]
    terms = Terms(tiny, wait_s=10)
    report = check_engine(lambda: broken(tiny), terms, only=[name])  # type: ignore[arg-type,return-value]
    assert list(report.failed) == [name], str(report)
    with pytest.raises(AssertionError, match=name):
        report.raise_if_failed()


def test_the_wrapper_itself_conforms(tiny: Path) -> None:
    """Bug prevented: broken engines that fail for the wrapper's sake."""
    names = sorted(set(BROKEN.values()))
    check_engine(lambda: Whole(tiny), tiny, only=names).raise_if_failed()  # type: ignore[arg-type,return-value]


def test_checks_by_name(tiny: Path) -> None:
    with pytest.raises(ValueError, match="unknown checks"):
        check_engine(lambda: TorchEngine(tiny, OPTIONS), tiny, only=["no_such_check"])
    name = "max_tokens_is_kept"
    report = check_engine(
        lambda: TorchEngine(tiny, OPTIONS), tiny, only=[name], lacking={name: "no limits"}
    )
    assert report.ok and report.not_offered == {name: "no limits"} and "no limits" in str(report)
