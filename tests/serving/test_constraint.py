"""Replies under a JSON schema: always valid, unless cut; other rows untouched."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema  # type: ignore[import-untyped,unused-ignore]
import pytest

from serving.embedded import constraint
from serving.embedded.engine import TorchEngine
from serving.errors import RequestRefused
from serving.renderer import Renderer
from serving.types import Generation, Sampling

from .conftest import WAIT_S

PROMPT = list(range(3, 40))
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "mood": {"enum": ["good", "bad"]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["name", "age", "mood", "tags"],
    "additionalProperties": False,
}
SCHEMAS = [
    PERSON,
    {
        "type": "array",
        "items": {"$ref": "#/$defs/x"},
        "maxItems": 2,
        "$defs": {
            "x": {"anyOf": [{"type": "null"}, {"const": "ja"}, {"type": "number", "maximum": 99}]}
        },
    },
    {"type": "integer"},
    {},
]


def run(engine: TorchEngine, schema: object, seed: int, **fields: object) -> Generation:
    given = {"max_tokens": 200, "seed": seed, "json_schema": json.dumps(schema), **fields}
    return engine.submit(PROMPT, Sampling(**given)).future.result(WAIT_S)  # type: ignore[arg-type]


def text_of(renderer: Renderer, sampled: Generation, end: int = 2) -> str:
    ids = [token for token in sampled.token_ids_T if token != end]
    return renderer.decode(ids)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_replies_are_valid_unless_cut(
    engine: TorchEngine, renderer: Renderer, schema: dict[str, object]
) -> None:
    """Bug prevented: a mask of another row or one token late; an end sampled too early."""
    num_whole = 0
    wishes = [
        Sampling(
            max_tokens=200,
            seed=seed,
            json_schema=json.dumps(schema),
            temperature=(0.0, 0.3, 1.0, 3.0)[seed % 4],
            top_p=(1.0, 0.9)[seed % 2],
        )
        for seed in range(50)
    ]
    for ticket in [engine.submit(PROMPT, wish) for wish in wishes]:
        sampled = ticket.future.result(120)
        if sampled.finish_reason == "length":
            continue
        assert sampled.finish_reason == "stop"
        num_whole += 1
        jsonschema.validate(json.loads(text_of(renderer, sampled)), schema)
    assert num_whole >= 10


def test_the_logprobs_are_of_the_whole_distribution(engine: TorchEngine) -> None:
    """Bug prevented: log-probs of the masked distribution, which a learner cannot use or detect."""
    sampled = run(engine, PERSON, 3, temperature=0.8, top_logprobs=2)
    scores = engine.score([[*PROMPT, *sampled.token_ids_T]], 0.8).result(WAIT_S)[0]
    assert sampled.logprobs_T == pytest.approx(scores[len(PROMPT) - 1 :], abs=1e-4)
    assert any(sampled.token_ids_T[i] not in dict(top) for i, top in enumerate(sampled.tops_T))


def test_free_rows_beside_constrained_ones(engine: TorchEngine) -> None:
    """Bug prevented: a free reply that obeys its neighbour's schema."""
    free = Sampling(max_tokens=60, seed=8, ignore_end=True)
    alone = engine.submit(PROMPT, free).future.result(WAIT_S)
    engine.pause()
    wish = Sampling(max_tokens=200, seed=1, json_schema=json.dumps(PERSON))
    bound = [engine.submit(PROMPT, wish) for _ in range(2)]
    ticket = engine.submit(PROMPT, free)
    engine.resume()
    assert ticket.future.result(WAIT_S).token_ids_T == alone.token_ids_T
    first, second = (t.future.result(WAIT_S).token_ids_T for t in bound)
    assert first == second


def test_a_complete_reply_ends_even_where_ends_are_ignored(
    engine: TorchEngine, renderer: Renderer
) -> None:
    sampled = run(engine, {"const": {"a": 1}}, 0, ignore_end=True)
    assert sampled.finish_reason == "stop"
    assert json.loads(text_of(renderer, sampled)) == {"a": 1}
    assert run(engine, PERSON, 0, max_tokens=3).finish_reason == "length"


@pytest.mark.parametrize(
    "schema", ["[1", '{"type": "nonsense"}', '{"not": {}}', "false", "7", '{"$ref": "#/nowhere"}']
)
def test_schemas_that_cannot_be_obeyed_are_refused(engine: TorchEngine, schema: str) -> None:
    """Bug prevented: a key ignored in silence, a failure in the engine's thread."""
    with pytest.raises(RequestRefused) as caught:
        engine.submit(PROMPT, Sampling(json_schema=schema))
    assert caught.value.field == "response_format"
    assert engine.submit(PROMPT, Sampling(max_tokens=2)).future.result(WAIT_S).token_ids_T


def test_without_the_library_it_is_not_offered(tiny: Path) -> None:
    """Bug prevented: an ImportError in the middle of a request; a promise that cannot be kept."""
    program = f"""
import importlib.util, sys
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "llguidance" else real(name, *rest)
from pathlib import Path
from serving.errors import RequestRefused
from serving.embedded.engine import TorchEngine
from serving.types import Sampling
engine = TorchEngine(Path({str(tiny)!r}))
assert engine.can == {{"adapters", "top_logprobs"}}, engine.can
try:
    engine.submit([5], Sampling(json_schema="{{}}"))
except RequestRefused as error:
    assert {constraint.INSTALL!r} in str(error) and error.field == "response_format", error
else:
    raise AssertionError("not refused")
assert engine.submit([5], Sampling(max_tokens=1)).future.result(300).token_ids_T
assert "llguidance" not in sys.modules
engine.close()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_the_library_is_offered_where_it_is_installed(engine: TorchEngine) -> None:
    assert engine.can == {"adapters", "json_schema", "top_logprobs"}
