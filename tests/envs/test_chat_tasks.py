"""The task set of simulated users: fair, varied, held out for true."""

import re
from collections import Counter

import pytest

from envs.chat import criteria, phrasings
from envs.chat.bank.templates import by_domain, draw_request
from envs.chat.criteria import check
from envs.chat.env import ChatEnv
from envs.chat.personas import PERSONAS, Persona
from envs.chat.request import Request
from envs.chat.session import OFF_TOPIC, Plan
from envs.chat.tasks import load_tasks
from envs.errors import TaskError
from envs.tasks.__main__ import main
from envs.types import Task


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return load_tasks()


def test_the_set_is_the_same_each_time(tasks: list[Task]) -> None:
    assert tasks == load_tasks()
    assert len({task.id for task in tasks}) == len(tasks) > 1000
    assert {task.image for task in tasks} == {""}


def test_every_oracle_meets_every_wish_and_silence_none(tasks: list[Task]) -> None:
    env = ChatEnv(tasks)
    for task in tasks:
        plan = Plan.of(task)
        replies = env.oracle(task)
        for request, reply in zip(plan.requests, replies, strict=True):
            assert request.aside or all(check(plan.wishes, request, reply).values())
        assert not any(check(plan.wishes, plan.requests[0], "").values())


def test_openings_are_disjoint_and_so_are_templates_and_parameters(tasks: list[Task]) -> None:
    """Bug prevented: a held-out question was trained on under another number."""
    train = [task for task in tasks if task.split == "train"]
    heldout = [task for task in tasks if task.split == "heldout"]
    assert not {t.instruction for t in train} & {t.instruction for t in heldout}
    parameters = {p for t in train for p in t.data["parameters"]}
    assert not parameters & {p for t in heldout for p in t.data["parameters"]}
    known = {name for t in train for name in t.data["templates"]}
    new = {n for t in heldout if "heldout:template" in t.tags for n in t.data["templates"]}
    assert known and new and not known & new
    kinds = Counter(tag for t in heldout for tag in t.tags if tag.startswith("heldout:"))
    assert kinds["heldout:parameters"] == kinds["heldout:template"] == len(heldout) / 2


def test_no_opening_is_asked_twice_by_one_persona(tasks: list[Task]) -> None:
    asked = Counter((task.family, task.instruction) for task in tasks)
    assert max(asked.values()) == 1


@pytest.mark.parametrize("domain", sorted(by_domain()))
def test_every_domain_has_hundreds_of_questions(domain: str) -> None:
    import random

    rng = random.Random(1)
    drawn = {draw_request(domain, "train", False, rng)[1].text for _ in range(1500)}
    assert len(drawn) >= 200


def test_template_names_are_unique() -> None:
    names = [template.name for templates in by_domain().values() for template in templates]
    assert len(names) == len(set(names)) >= 50


def test_there_are_enough_personas_and_each_can_be_played(tasks: list[Task]) -> None:
    assert len(PERSONAS) >= 8
    assert {Plan.of(task).persona for task in tasks} == set(PERSONAS)
    drifting = {persona.name for persona in PERSONAS if persona.drift_after}
    assert {t.family.removesuffix("_drifted") for t in tasks if "_drifted" in t.family} == drifting
    used = {criteria.find(n).kind for p in PERSONAS for n in (*p.criteria, *p.drifted)}
    assert used == set(criteria.RULES)


@pytest.mark.parametrize("persona", PERSONAS, ids=lambda persona: persona.name)
def test_every_wish_is_said_in_twelve_ways_and_three_tones(persona: Persona) -> None:
    for name in (*persona.criteria, *persona.drifted):
        lines = phrasings.sentences(criteria.find(name), persona.language)
        assert len({said for _, said in lines}) >= 12, name
        assert Counter(tone for tone, _ in lines).keys() == {"blunt", "polite", "indirect"}
    if persona.language != "en":
        wishes = [criteria.find(name) for name in persona.criteria]
        said = {phrasings.sentences(wish, persona.language) for wish in (*wishes, OFF_TOPIC)}
        assert len(said) == len(wishes) + 1
        for lines in said:  # said in the user's own language
            text = " ".join(sentence for _, sentence in lines)
            assert criteria.language(Request(""), text, persona.language)


def test_no_persona_is_named_in_what_users_say(tasks: list[Task]) -> None:
    said = [s for lines in phrasings.corrections().values() for _, s in lines]
    said += [text for task in tasks for text in (task.instruction,)]
    names = "|".join(re.escape(n) for p in PERSONAS for n in (p.name, p.name.replace("_", " ")))
    named = [text for text in said if re.search(rf"\b(?:{names})s?\b", text, re.IGNORECASE)]
    assert named == []


def test_sentences_are_not_repeated_among_wishes() -> None:
    said = Counter(s for lines in phrasings.corrections().values() for _, s in lines)
    assert [s for s, count in said.items() if count > 1] == []
    assert len(said) >= 200


def test_an_unknown_persona_is_named() -> None:
    from envs.chat import personas

    with pytest.raises(TaskError, match="no persona 'x': choose one of student"):
        personas.find("x")


def test_the_commands_list_and_validate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "chat"]) == 0
    out = capsys.readouterr().out
    assert "parameters" in out and "template" in out
    assert main(["validate", "chat", "limit=30"]) == 0
    assert "30 tasks: 30 fair" in capsys.readouterr().out
