"""BFCL: decoding without evaluating, verdicts to the letter, files read as they are.

The comparison with the package's own checker is ``python -m benchmarks.bfcl parity``, in an
environment of its own; here are rows of the package's form with verdicts that its checker gives.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bfcl import BfclError, Question, main, ours, questions, score
from benchmarks.bfcl_checks import graded
from benchmarks.bfcl_decode import NotCalls, decode
from benchmarks.bfcl_mutants import answers_to

FUNCTION = {
    "name": "area",
    "description": "Area.",
    "parameters": {
        "type": "dict",
        "properties": {
            "base": {"type": "integer"}, "height": {"type": "float"}, "unit": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}}, "more": {"type": "dict"},
        },
        "required": ["base"],
    },
}  # fmt: skip
GOLD = [{"area": {"base": [3], "height": [2.0, 4.5], "unit": ["cm", "New-York", ""],
                  "tags": [["a", "b"], ""],
                  "more": [{"x": [1, 2], "y": ["z", ""]}, ""]}}]  # fmt: skip
ROW = {"id": "simple_python_0", "question": [[]], "function": [FUNCTION]}


def verdict(answer: str, category: str = "simple_python", gold: Any = GOLD) -> str:
    return graded(category, ROW, gold, answer).error_type


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("[area(base=3, height=2.0)]", ""),
        ("area(base=3, height=4.5, unit='CM')", ""),
        ("[area(base=3, height=2.0, unit='new york')]", ""),
        ("[area(base=3, height=2)]", ""),
        ("[area(base=1+2, height=2.0)]", ""),
        ("[area(base=3, height=2.0, tags=['A', 'b'], more={'x': 2})]", ""),
        ("[area(base=3.0, height=2.0)]", "type_error:simple"),
        ("[area(base=True, height=2.0)]", "type_error:simple"),
        ("[area(base=4, height=2.0)]", "value_error:others"),
        ("[area(height=2.0)]", "simple_function_checker:missing_required"),
        ("[area(base=3)]", "simple_function_checker:missing_optional"),
        ("[area(base=3, height=2.0, depth=1)]", "simple_function_checker:unexpected_param"),
        ("[volume(base=3, height=2.0)]", "simple_function_checker:wrong_func_name"),
        ("[area(base=3, height=2.0), area(base=3, height=2.0)]",
         "simple_function_checker:wrong_count"),
        ("[area(base=3, height=2.0, unit='m')]", "value_error:string"),
        ("[area(base=3, height=2.0, tags=['b', 'a'])]", "value_error:list/tuple"),
        ("[area(base=3, height=2.0, tags=['a', 5])]", "value_error:list/tuple"),
        ("[area(base=3, height=2.0, tags='a')]", "type_error:simple"),
        ("[area(base=3, height=2.0, more={'x': 3})]", "value_error:dict_value"),
        ("[area(base=3, height=2.0, more={'q': 3})]", "value_error:dict_key"),
        ("I do not know.", "ast_decoder:decoder_failed"),
        ("", "simple_function_checker:wrong_count"),
    ],
)  # fmt: skip
def test_verdicts_on_one_call(answer: str, error: str) -> None:
    assert verdict(answer) == error


def test_parallel_calls_come_in_any_order() -> None:
    gold = [{"area": {"base": [n], "height": [1.0]}} for n in (1, 2)]
    assert verdict("[area(base=2, height=1.0), area(base=1, height=1.0)]", "parallel", gold) == ""
    twice = "[area(base=2, height=1.0), area(base=2, height=1.0)]"
    assert verdict(twice, "parallel", gold).endswith("cannot_find_match")
    assert verdict("[area(base=2, height=1.0)]", "parallel", gold).endswith("wrong_count")


@pytest.mark.parametrize(
    ("answer", "called"),
    [
        ("[area(base=3)]", True),
        ("No tool fits.", False),
        ("[]", False),
        ("", False),
        ("[x]", False),
    ],
)
def test_relevance_is_whether_a_call_decodes(answer: str, called: bool) -> None:
    assert (verdict(answer, "irrelevance", None) == "") != called
    assert (verdict(answer, "live_relevance", None) == "") == called


@pytest.mark.parametrize(
    "text",
    [
        "[f(a=__import__('os').system('touch /tmp/owned') + 1)]", "[f(a=open('x') + 1)]",
        "[f(a=9**9**9)]", "[f(a='x' * 10**9)]", "[f(a=[0] * 10**9)]", "[f(a=1/0)]", "[f(", "[1]",
        "[f(a=" + "(" * 5000 + ")]", "[f(a=1)]" * 20000, "[f(a=x.y)]", "[f(a=f'{b}')]",
        "[f(a='%1000000000d' % 1)]",
    ],
)  # fmt: skip
def test_nothing_of_a_reply_is_evaluated(text: str) -> None:
    """Bug prevented: the package evaluates operations; a reply is somebody else's code."""
    with pytest.raises(NotCalls):
        decode(text)
    assert not Path("/tmp/owned").exists()


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_any_text_decodes_or_is_refused_by_name(text: str) -> None:
    try:
        decode(text)
    except NotCalls:
        return


def test_generated_answers_hold_right_and_wrong_ones() -> None:
    """Bug prevented: a comparison on answers that are all wrong, which any two checkers pass."""
    question, rng = Question("simple_python", ROW, GOLD), random.Random(0)
    found: dict[str, set[bool]] = {}
    for _ in range(60):
        for kind, answer in answers_to(GOLD, [FUNCTION], rng):
            found.setdefault(kind, set()).add(ours(question, answer) == "")
    assert found["right"] == {True} and found["missing"] >= {False}
    assert found["name"] == found["extra"] == found["fewer"] == found["more"] == {False}


@pytest.fixture
def peer(tmp_path: Path) -> Path:
    """A Python whose ``bfcl_eval`` is a folder of rows in the package's form."""
    data = tmp_path / "bfcl_eval/data"
    (data / "possible_answer").mkdir(parents=True)
    (tmp_path / "bfcl_eval/__init__.py").write_text("")
    (data / "BFCL_v4_simple_python.json").write_text(json.dumps(ROW) + "\n")
    gold = json.dumps({"id": ROW["id"], "ground_truth": GOLD})
    (data / "possible_answer/BFCL_v4_simple_python.json").write_text(gold + "\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_results_are_scored(peer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"id": ROW["id"], "result": "[area(base=3, height=2.0)]"}))
    assert score(str(peer), "simple_python", results, "ours") == (1, 1, {})
    words = ["score", f"peer={peer}", f"results={results}", "category=simple_python"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0


@pytest.mark.parametrize("text", ["{", '{"id": "x", "result": ""}', "5", '{"result": ""}'])
def test_results_that_make_no_sense_are_refused(peer: Path, tmp_path: Path, text: str) -> None:
    results = tmp_path / "results.json"
    results.write_text(text)
    with pytest.raises(BfclError, match=r"results\.json"):
        score(str(peer), "simple_python", results, "ours")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "usage"), (["list", "peer=/no/such/python"], "/no/such"),
        (["play", "peer=PEER"], "no command"),
        (["score", "peer=PEER", "results=x", "category=web_search"], "not supported"),
        (["score", "peer=PEER", "results=x", "category=multi_turn_base", "checker=ours"],
         "checker=official only"),
        (["score", "peer=PEER", "results=x", "category=simple_python", "checker=mine"], "official"),
        (["list", "peer=PEER", "colour=1"], "colour"),
    ],
)  # fmt: skip
def test_the_command_line_names_what_is_wrong(
    words: list[str], said: str, peer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.replace("PEER", str(peer)) for word in words]) == 2
    assert said in capsys.readouterr().err


def test_categories_that_need_services_are_refused_by_name(tmp_path: Path) -> None:
    for category in ("web_search_base", "memory_kv", "format_sensitivity", "sql"):
        with pytest.raises(BfclError, match=category):
            questions(tmp_path, category)
    with pytest.raises(ValueError, match="simple_java"):
        graded("simple_java", ROW, GOLD, "")
