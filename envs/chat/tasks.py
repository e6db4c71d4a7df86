"""The task set of simulated users: sessions of every persona, split by template and parameters.

A family is a persona, so that ``families=student`` trains for one person. Sessions after a drift of
wishes are a family of their own, ``manager_drifted``: train on one, then on the other. Held-out
sessions ask questions of other templates, or of known templates with other parameters; the wishes
are the same, since to know them is what is learned.
"""

import random

from envs.chat.bank.templates import draw_request
from envs.chat.personas import PERSONAS, Persona
from envs.chat.phrasings import ASIDES
from envs.chat.request import Request
from envs.types import Split, Task, TaskLimits

SEED = 20260
COUNTS: dict[tuple[Split, str], int] = {
    ("train", ""): 64,
    ("heldout", "parameters"): 12,
    ("heldout", "template"): 12,
}
MAX_QUESTIONS = 3
MAX_STEPS = 10


def load_tasks() -> list[Task]:
    """Return every task, the same each time."""
    tasks: list[Task] = []
    for persona in PERSONAS:
        for drifted in (False, True) if persona.drift_after else (False,):
            rng = random.Random(f"{SEED}/{persona.name}/{drifted}")
            tasks += _family(persona, drifted, rng)
    return tasks


def _family(persona: Persona, drifted: bool, rng: random.Random) -> list[Task]:
    """Draw the sessions of a persona before or after its wishes drift, no opening twice."""
    family = f"{persona.name}_drifted" if drifted else persona.name
    tasks: list[Task] = []
    seen: set[str] = set()
    for (split, kind), count in COUNTS.items():
        for _ in range(count):
            session = _session_number(persona, drifted, rng)
            task = _draw(persona, f"chat/{family}/{len(tasks):04d}", family, split, kind, session,
                         rng, seen)  # fmt: skip
            tasks.append(task)
    return tasks


def _session_number(persona: Persona, drifted: bool, rng: random.Random) -> int:
    limit = persona.drift_after or 40
    return limit + rng.randrange(40) if drifted else rng.randrange(limit)


def _draw(
    persona: Persona,
    task_id: str,
    family: str,
    split: Split,
    kind: str,
    session: int,
    rng: random.Random,
    seen: set[str],
) -> Task:
    requests, templates, parameters = _requests(persona, split, kind, rng)
    while requests[0].text in seen:
        requests, templates, parameters = _requests(persona, split, kind, rng)
    seen.add(requests[0].text)
    wishes = persona.wishes(session)
    level = ("trivial", "easy", "medium")[min(len(wishes), 3) - 1]
    tags = [f"level:{level}", "source:generated", f"template:{templates[0]}"]
    return Task(
        id=task_id,
        env="chat",
        family=family,
        split=split,
        instruction=requests[0].text,
        image="",
        limits=TaskLimits(max_steps=MAX_STEPS),
        data={
            "persona": persona.name,
            "session": session,
            "requests": [request.to_json() for request in requests],
            "templates": templates,
            "parameters": parameters,
        },
        tags=(*tags, f"heldout:{kind}") if kind else tuple(tags),
    )


def _requests(
    persona: Persona, split: Split, kind: str, rng: random.Random
) -> tuple[list[Request], list[str], list[str]]:
    """Draw one to three questions, now and then with small talk between them."""
    requests: list[Request] = []
    templates: list[str] = []
    parameters: list[str] = []
    for place in range(rng.randint(1, MAX_QUESTIONS)):
        if place and rng.random() < persona.distractor_rate:
            requests.append(Request(rng.choice(ASIDES[persona.language]), aside=True))
        template, request, values = draw_request(
            rng.choice(persona.domains), split, kind == "template", rng
        )
        if place == 0:
            opener = rng.choice(persona.openers)
            request = Request(opener.format(q=request.text), request.answer, request.sentences)
        requests.append(request)
        templates.append(template.name)
        parameters += [f"{template.name}.{i}={value}" for i, value in enumerate(values)]
    return requests, templates, parameters
