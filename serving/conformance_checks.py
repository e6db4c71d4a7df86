"""The checks of ``serving.conformance``: each takes an engine on trial or raises."""

import itertools
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .conformance_trial import NotOffered, Trial
from .errors import ContextOverflow
from .types import Token

SETTLE_S = 0.3  # for what must not happen
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 5}, "is_new": {"type": "boolean"}},
    "required": ["name", "is_new"],
    "additionalProperties": False,
}


def records_agree(t: Trial) -> None:
    """Ids, log-probs and versions are of one length, in range, and as told token by token."""
    told: list[Token] = []
    sampled = t.wait(t.ask(t.prompt(), told.append, max_tokens=20))
    ids = sampled.token_ids_T
    assert len(ids) == len(sampled.logprobs_T) == len(sampled.versions_T) == 20, sampled
    assert all(0 <= token < t.vocab for token in ids), f"ids outside the vocabulary: {ids}"
    assert all(-math.inf < value <= 1e-6 for value in sampled.logprobs_T), sampled.logprobs_T
    assert set(sampled.versions_T) == {t.engine.version}, sampled.versions_T
    seen = [(token.id, token.logprob, token.version) for token in told]
    wanted = list(zip(ids, sampled.logprobs_T, sampled.versions_T, strict=True))
    assert seen == wanted, "what on_token was told differs from the result"


def equal_seeds_give_equal_tokens(t: Trial) -> None:
    """However requests are batched; other seeds give others."""
    prompts = [t.prompt(seed, 10 + 9 * seed) for seed in range(6)]
    alone = [t.run(p, seed=i, max_tokens=10 + 3 * i) for i, p in enumerate(prompts)]
    tickets = [t.ask(p, seed=i, max_tokens=10 + 3 * i) for i, p in enumerate(prompts)]
    for one, ticket in zip(alone, tickets, strict=True):
        assert t.wait(ticket).token_ids_T == one.token_ids_T, "batched tokens differ"
    others = {t.run(prompts[0], seed=seed, max_tokens=10).token_ids_T for seed in range(8)}
    assert len(others) > 1, "the seed is ignored"


def greedy_is_repeatable(t: Trial) -> None:
    """Temperature 0 does not depend on the seed; its log-probs are of temperature 1."""
    replies = [t.run(t.prompt(), temperature=0.0, seed=seed) for seed in (1, 2)]
    assert replies[0].token_ids_T == replies[1].token_ids_T, "greedy tokens depend on the seed"
    t.expect_near(replies[0].logprobs_T, t.scores(t.prompt(), replies[0]), "greedy log-probs")


def logprobs_equal_score(t: Trial) -> None:
    """At temperature 1, of the distribution before ``top_p``."""
    for top_p in (1.0, 0.5):
        sampled = t.run(t.prompt(), top_p=top_p, max_tokens=20)
        t.expect_near(sampled.logprobs_T, t.scores(t.prompt(), sampled), f"top_p={top_p}")


def logprobs_equal_score_at_other_temperatures(t: Trial) -> None:
    """Of softmax(logits / temperature), sampled and scored."""
    for temperature in (0.6, 1.7):
        sampled = t.run(t.prompt(), temperature=temperature)
        wanted = t.scores(t.prompt(), sampled, temperature)
        t.expect_near(sampled.logprobs_T, wanted, f"temperature {temperature}")
        plain = t.scores(t.prompt(), sampled)
        assert not t.is_near(sampled.logprobs_T, plain), "the temperature is ignored"


def reused_prefixes_change_nothing(t: Trial) -> None:
    """The next turn of a session, and a branch of it, have the log-probs of a fresh prompt."""
    first = t.run(t.prompt())
    for prompt in ([*t.prompt(), *first.token_ids_T, *t.prompt(5, 7)], t.prompt()[:25]):
        sampled = t.run(prompt)
        t.expect_near(sampled.logprobs_T, t.scores(prompt, sampled), "a reused prefix")


def many_at_once_are_all_answered(t: Trial) -> None:
    """Each with its own tokens, none mixed up."""
    prompts = [t.prompt(seed, 5 + seed) for seed in range(40)]
    tickets = [t.ask(prompt, seed=i) for i, prompt in enumerate(prompts)]
    for prompt, ticket in zip(prompts, tickets, strict=True):
        sampled = t.wait(ticket)
        t.expect_near(sampled.logprobs_T, t.scores(prompt, sampled), "one of 40 requests")


def max_tokens_is_kept(t: Trial) -> None:
    """To the token; the ending is ``length``."""
    for num in (1, 7):
        sampled = t.run(t.prompt(), max_tokens=num)
        assert len(sampled.token_ids_T) == num, f"{len(sampled.token_ids_T)} tokens, not {num}"
        assert sampled.finish_reason == "length", sampled.finish_reason


def stop_strings_end_the_reply(t: Trial) -> None:
    """With the token that completes one, as ``stop``."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(t.terms.folder)
    whole = t.run(t.prompt(), max_tokens=40)
    texts = [tokenizer.decode(whole.token_ids_T[: n + 1]) for n in range(40)]
    clean = [n for n in range(2, 40) if "\ufffd" not in texts[n] and texts[n].strip()]
    if not clean:
        raise NotOffered("this model's replies hold no readable text")
    stop = texts[clean[len(clean) // 2]][-3:]
    first = next(n for n, text in enumerate(texts) if stop in text)
    cut = t.run(t.prompt(), max_tokens=40, stop=(stop,))
    assert cut.finish_reason == "stop", f"{stop!r} ended as {cut.finish_reason}"
    assert cut.token_ids_T == whole.token_ids_T[: first + 1], f"{stop!r} did not end it in time"


def the_end_of_the_context_is_length(t: Trial) -> None:
    """The reply is cut there; a prompt that leaves no room is refused."""
    most = t.engine.max_len
    sampled = t.run(t.prompt(0, most - 5), max_tokens=50)
    assert sampled.finish_reason == "length", sampled.finish_reason
    assert len(sampled.token_ids_T) in (4, 5), f"{len(sampled.token_ids_T)} tokens in room for 5"
    try:
        t.ask(t.prompt(0, most))
    except ContextOverflow:
        return
    raise AssertionError("a prompt as long as the context was not refused")


def bad_requests_are_refused(t: Trial) -> None:
    """With the field's name, and the engine goes on."""
    for what, prompt in {"empty": [], "negative id": [-1], "id too large": [t.vocab]}.items():
        t.expect_refused(f"{what} prompt", prompt=prompt)
    for name, values in {
        "temperature": (-1.0, math.nan, 1e-30),
        "top_p": (0.0, 1.5),
        "max_tokens": (0,),
        "top_logprobs": (-1,),
    }.items():
        for value in values:
            t.expect_refused(f"{name}={value}", name, **{name: value})
    assert t.run(t.prompt()).token_ids_T


def pause_and_resume_lose_nothing(t: Trial) -> None:
    """Nothing is sampled in between, requests wait, all end as if nothing had happened."""
    wanted = [t.run(t.prompt(seed), seed=seed).token_ids_T for seed in range(3)]
    running, told = t.start_long(9)
    t.engine.pause()
    t.engine.pause()
    waiting = [t.ask(t.prompt(seed), seed=seed) for seed in range(3)]
    time.sleep(SETTLE_S)
    num = len(told)
    time.sleep(SETTLE_S)
    assert len(told) == num, f"{len(told) - num} tokens were sampled while paused"
    assert not any(ticket.future.done() for ticket in waiting), "a request did not wait"
    t.engine.resume()
    t.engine.resume()
    assert [t.wait(ticket).token_ids_T for ticket in waiting] == wanted, "tokens changed"
    assert len(t.wait(running).token_ids_T) == t.terms.long_tokens, "a reply was cut"


def cancelling_ends_and_frees(t: Trial) -> None:
    """Running and waiting requests end as ``cancelled`` with what they have; others go on."""
    running, _ = t.start_long()
    others = [t.ask(t.prompt(seed), max_tokens=t.terms.long_tokens) for seed in range(1, 60)]
    for ticket in [running, running, *others[1:]]:
        ticket.cancel()
    cut = t.wait(running)
    assert cut.finish_reason == "cancelled", f"ended as {cut.finish_reason}"
    assert 3 <= len(cut.token_ids_T) < t.terms.long_tokens, "what was sampled is lost, or all"
    for ticket in others[1:]:
        assert t.wait(ticket).finish_reason == "cancelled"
    kept = t.wait(others[0])
    assert len(kept.token_ids_T) == t.terms.long_tokens, "another request ended with it"
    assert t.run(t.prompt()).token_ids_T


def versions_across_a_load(t: Trial) -> None:
    """A reply in flight goes on; each token carries the version that sampled it."""
    old = t.engine.version
    ticket, _ = t.start_long()
    with t.other_weights() as version:
        assert t.engine.version == version, f"version {t.engine.version} after loading {version}"
        sampled = t.wait(ticket)
        versions = sampled.versions_T
        assert len(versions) == t.terms.long_tokens, f"the load cut the reply: {len(versions)}"
        assert set(versions) == {old, version}, f"versions {sorted(set(versions))}"
        assert list(versions) == sorted(versions), "versions fall"
        assert sampled.finish_reason == "length", sampled.finish_reason


def a_load_changes_what_is_sampled_and_scored(t: Trial) -> None:
    """No keys and values of the old weights serve new requests."""
    before = t.run(t.prompt())
    with t.other_weights() as version:
        after = t.run(t.prompt())
        assert set(after.versions_T) == {version}
        t.expect_near(after.logprobs_T, t.scores(t.prompt(), after), "after a load")
        assert not t.is_near(t.scores(t.prompt(), before), before.logprobs_T), "nothing changed"
    t.expect_near(t.scores(t.prompt(), before), before.logprobs_T, "the old weights put back")


def bad_files_and_older_versions_are_refused(t: Trial) -> None:
    """The old weights and their version stay."""
    import torch

    before = t.engine.score([t.prompt()]).result(t.terms.wait_s)[0]
    name, matrix = t.matrix()
    wrong = {
        "an unknown name": {name: matrix * 2, "model.no.such.weight": torch.zeros(2)},
        "another shape": {name: torch.zeros(3, 3)},
    }
    version = t.engine.version
    for why, tensors in wrong.items():
        update = t.publish(tensors)
        t.expect_engine_error(why, t.engine.load, update, version + 1)
    torn = t.scratch / "torn.safetensors"
    torn.write_bytes(b"\x10\0\0\0")
    for path in (torn, t.scratch / "absent.safetensors"):
        t.expect_engine_error(path.name, t.engine.load, path, version + 1)
    assert t.engine.version == version, "a refused load changed the version"
    now = t.engine.score([t.prompt()]).result(t.terms.wait_s)[0]
    t.expect_near(now, before, "after refused loads")
    t.engine.load(t.publish({name: matrix}), version + 2)
    good = t.publish({name: matrix})
    t.expect_engine_error("an older version", t.engine.load, good, version + 1)
    assert t.engine.version == version + 2, "an older version was taken"


def closing_fails_what_waits(t: Trial) -> None:
    """Nobody waits for a closed engine; it takes nothing new."""
    ticket, _ = t.start_long()
    t.engine.close()
    t.engine.close()
    if ticket.future.done() and ticket.future.exception() is None:
        assert len(ticket.future.result().token_ids_T) == t.terms.long_tokens, "a reply was cut"
    else:
        t.expect_engine_error("waiting for a closed engine", t.wait, ticket)
    t.expect_engine_error("a request to a closed engine", t.ask, t.prompt())


def the_most_probable_tokens(t: Trial) -> None:
    """As many as asked for, in order, at the request's temperature; none unasked."""
    t.need("top_logprobs", top_logprobs=2)
    assert t.run(t.prompt()).tops_T == (), "listed without being asked"
    told: list[Token] = []
    sampled = t.wait(t.ask(t.prompt(), told.append, top_logprobs=4, temperature=0.7))
    assert [token.top for token in told] == list(sampled.tops_T), "on_token was told others"
    assert len(sampled.tops_T) == len(sampled.token_ids_T), f"{len(sampled.tops_T)} lists"
    places = zip(sampled.token_ids_T, sampled.logprobs_T, sampled.tops_T, strict=True)
    for token, logprob, top in places:
        values = [value for _, value in top]
        assert len(top) == 4 and values == sorted(values, reverse=True), f"not in order: {top}"
        if token in dict(top):
            t.expect_near([dict(top)[token]], [logprob], "the sampled token's own entry")
        else:
            assert logprob <= values[-1] + t.terms.tolerance, "a more probable token is missing"
    greedy = t.run(t.prompt(), top_logprobs=1, temperature=0.0)
    firsts = tuple(top[0][0] for top in greedy.tops_T)
    assert firsts == greedy.token_ids_T, "greedy tokens are not the most probable"


def replies_obey_a_schema(t: Trial) -> None:
    """Valid unless cut; free rows beside them; a schema that cannot be obeyed is refused."""
    t.need("json_schema", json_schema=json.dumps(SCHEMA))
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(t.terms.folder)
    free = t.run(t.prompt(7)).token_ids_T
    wish: dict[str, Any] = {
        "json_schema": json.dumps(SCHEMA),
        "max_tokens": 120,
        "ignore_end": False,
    }
    tickets = [t.ask(t.prompt(seed), seed=seed, **wish) for seed in range(8)]
    beside = t.ask(t.prompt(7))
    num_whole = 0
    for sampled in map(t.wait, tickets):
        if sampled.finish_reason == "stop":
            num_whole += 1
            text = tokenizer.decode(sampled.token_ids_T, skip_special_tokens=True)
            value = json.loads(text)
            assert sorted(value) == ["is_new", "name"], f"not under the schema: {text}"
            assert isinstance(value["is_new"], bool) and len(value["name"]) <= 5, text
    assert num_whole, "no reply was completed"
    assert t.wait(beside).token_ids_T == free, "a free reply changed beside constrained ones"
    for schema in ("[1", '{"type": "nonsense"}'):
        t.expect_refused(f"schema {schema}", json_schema=schema)


def adapters_beside_the_base(t: Trial) -> None:
    """Each request under its own adapter, with its version; the base unchanged."""
    t.need("adapters", adapter="mine")
    t.expect_refused("an adapter that is not loaded", adapter="mine")
    base = t.run(t.prompt())
    with _loaded(t, a=3, b=5):
        assert dict(t.engine.adapters()) == {"a": 3, "b": 5}, t.engine.adapters()
        names = ["a", "", "b", "a", "b", ""]
        tickets = [t.ask(t.prompt(), seed=i, adapter=name) for i, name in enumerate(names)]
        for name, sampled in zip(names, map(t.wait, tickets), strict=True):
            wanted = t.scores(t.prompt(), sampled, adapter=name)
            t.expect_near(sampled.logprobs_T, wanted, f"adapter {name!r}")
            version = {"a": 3, "b": 5, "": t.engine.version}[name]
            assert set(sampled.versions_T) == {version}, f"adapter {name!r}: {sampled.versions_T}"
        by_base = t.scores(t.prompt(), base)
        t.expect_near(base.logprobs_T, by_base, "the base")
        for a, b in itertools.combinations(("", "a", "b"), 2):
            both = [t.scores(t.prompt(), base, adapter=name) for name in (a, b)]
            assert not t.is_near(*both), f"adapters {a!r} and {b!r} score alike"


def adapters_are_replaced_in_place(t: Trial) -> None:
    """Replies in flight go on; new ones are of the new adapter; bad ones change nothing."""
    t.need("adapters", adapter="mine")
    with _loaded(t, mine=1):
        before = t.run(t.prompt(), adapter="mine")
        ticket, _ = t.start_long(2, adapter="mine")
        t.engine.load_adapter("mine", t.adapter(99), 4)
        versions = t.wait(ticket).versions_T
        assert len(versions) == t.terms.long_tokens, "the load cut the reply"
        assert set(versions) <= {1, 4} and list(versions) == sorted(versions), set(versions)
        after = t.run(t.prompt(), adapter="mine")
        wanted = t.scores(t.prompt(), after, adapter="mine")
        t.expect_near(after.logprobs_T, wanted, "after replacing")
        assert set(after.versions_T) == {4}, after.versions_T
        again = t.scores(t.prompt(), before, adapter="mine")
        assert not t.is_near(again, before.logprobs_T), "nothing changed"
        wrong = {"absent": t.scratch / "absent", "another rank": t.adapter(1, r=3)}
        for why, folder in wrong.items():
            t.expect_engine_error(why, t.engine.load_adapter, "mine", folder, 5)
        t.expect_engine_error("an older version", t.engine.load_adapter, "mine", t.adapter(1), 3)
        kept = t.scores(t.prompt(), before, adapter="mine")
        t.expect_near(kept, again, "after refused adapters")


def unloading_an_adapter_ends_its_requests(t: Trial) -> None:
    """With ``EngineError``; new ones are refused, the base goes on."""
    t.need("adapters", adapter="mine")
    with _loaded(t, mine=1):
        ticket, _ = t.start_long(adapter="mine")
        other, _ = t.start_long(3)
        t.engine.unload_adapter("mine")
        t.engine.unload_adapter("mine")
        t.expect_engine_error("sampling on without its adapter", t.wait, ticket)
        t.expect_refused("an adapter that was unloaded", adapter="mine")
        assert len(t.wait(other).token_ids_T) == t.terms.long_tokens, "the base's reply was cut"


@contextmanager
def _loaded(t: Trial, **versions: int) -> Iterator[None]:
    """Load random adapters of these names and versions; unload them at the end."""
    try:
        for seed, (name, version) in enumerate(versions.items()):
            t.engine.load_adapter(name, t.adapter(seed), version)
        yield
    finally:
        for name in versions:
            t.engine.unload_adapter(name)


CHECKS: dict[str, Callable[[Trial], None]] = {
    check.__name__: check
    for check in (
        records_agree,
        equal_seeds_give_equal_tokens,
        greedy_is_repeatable,
        logprobs_equal_score,
        logprobs_equal_score_at_other_temperatures,
        reused_prefixes_change_nothing,
        many_at_once_are_all_answered,
        max_tokens_is_kept,
        stop_strings_end_the_reply,
        the_end_of_the_context_is_length,
        bad_requests_are_refused,
        pause_and_resume_lose_nothing,
        cancelling_ends_and_frees,
        versions_across_a_load,
        a_load_changes_what_is_sampled_and_scored,
        bad_files_and_older_versions_are_refused,
        closing_fails_what_waits,
        the_most_probable_tokens,
        replies_obey_a_schema,
        adapters_beside_the_base,
        adapters_are_replaced_in_place,
        unloading_an_adapter_ends_its_requests,
    )
}
