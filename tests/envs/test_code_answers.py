"""Answers are compared exactly and read without ever running them; tasks are held out for true."""

import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.toolcall.code.answers import BadAnswer, equal, read
from envs.toolcall.code.tasks import load_tasks

TASKS = load_tasks()


@pytest.mark.parametrize(
    ("text", "wanted", "form"),
    [
        ("0.75", "3/4", "number"), ("6/8", "3/4", "number"), (" $3/4$. ", "3/4", "number"),
        (r"\boxed{-2}", "-2", "number"), ("2^10", "1024", "number"), ("`5`", "5", "number"),
        ("Fraction(3, 4)", "3/4", "number"), ("sqrt(8)", "2*sqrt(2)", "number"),
        ("1/sqrt(2)", "sqrt(2)/2", "number"),
        ("{2, 1, 1}", "{1, 2}", "set"), ("1, 2", "{2, 1}", "set"), ("set()", "{}", "set"),
        ("7", "{7}", "set"),
        ("(1/2, 3)", "(0.5, 3)", "tuple"), ("1/2, 3", "(1/2, 3)", "tuple"),
        ("(x + 1)*(x - 1)", "x**2 - 1", "expression"),
    ],
)  # fmt: skip
def test_what_means_the_same_is_equal(text: str, wanted: str, form: str) -> None:
    assert equal(text, wanted, form, ("x",))


@pytest.mark.parametrize(
    ("text", "wanted", "form"),
    [
        ("0.333", "1/3", "number"), ("1.0000001", "1", "number"), ("3, 1", "(1, 3)", "tuple"),
        ("{1, 2, 3}", "{1, 2}", "set"), ("x**2", "x**2 + 1", "expression"),
        ("1.41421356", "sqrt(2)", "number"),
    ],
)  # fmt: skip
def test_what_does_not_is_not(text: str, wanted: str, form: str) -> None:
    assert not equal(text, wanted, form, ("x",))


@pytest.mark.parametrize(
    "text",
    [
        "", "None", "True", "1j", "__import__('os').system('true')", "().__class__", "y + 1",
        "9**9**9**9", "(1+x)**64**2", "1/0", "1e400", "nan", "[" * 200, "1" * 900, "'5'",
        "f'{1}'", "lambda: 1", "[i for i in range(9)]", "sqrt(10**40)", "sqrt(-1)", "\x00",
        "(x+1)**16*(x+2)**16*(x+3)**16*(x+5)**16*(1/x)", "1 if 1 else 2", "5; 6", "2 ** 0.5",
    ],
)  # fmt: skip
def test_anything_else_is_refused_at_once(text: str) -> None:
    """Bug prevented: an answer that runs code, or that takes the verifier for ever."""
    begun = time.process_time()
    with pytest.raises(BadAnswer):
        read(text, "number", ("x",))
    assert time.process_time() - begun < 20.0  # not a race: the unbounded ones take for ever


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_an_answer_or_a_named_refusal(text: str) -> None:
    for form in ("number", "set", "tuple", "expression"):
        try:
            read(text, form, ("x",))
        except BadAnswer:
            continue


@settings(max_examples=80, deadline=None)
@given(st.fractions(), st.fractions())
def test_numbers_are_equal_exactly_when_they_are(left: Fraction, right: Fraction) -> None:
    try:
        assert equal(str(left), str(right), "number") == (left == right)
    except BadAnswer:
        assert len(str(left)) + len(str(right)) > 400


def test_an_unknown_form_is_the_task_authors_mistake() -> None:
    with pytest.raises(ValueError, match="choose one of number"):
        read("1", "matrix")


def test_the_task_set_is_the_same_each_time() -> None:
    assert load_tasks() == TASKS and len(TASKS) >= 200
    assert len({task.instruction for task in TASKS}) == len({t.id for t in TASKS}) == len(TASKS)


def test_held_out_topics_and_numbers_are_never_trained_on() -> None:
    train = [task for task in TASKS if task.split == "train"]
    seen = {number for task in train for number in task.data["parameters"]}
    for task in TASKS:
        if task.split == "heldout":
            assert not seen & set(task.data["parameters"]) and task.data["parameters"], task.id
    held_topics = {t.family for t in TASKS if "heldout:template" in t.tags}
    assert len(held_topics) >= 4 and not held_topics & {task.family for task in train}


def test_an_answer_is_not_in_its_own_question() -> None:
    """Bug prevented: a task that copying solves."""
    for task in TASKS:
        if task.data["form"] in ("tuple", "expression"):
            assert task.data["answer"] not in task.instruction, task.id
