"""Labelled talk with the simulated users of ``envs.chat``: ``benchmarks.judge data=simulated``.

Whole sessions are played with replies that fit or miss the user's wishes; what the user meant by
the next message is known from the move, so nobody labels it:

    correction, give_up            the reply was not what was wanted   −1
    thanks (next question, bye)    the reply met every wish            +1
    topic change without a word    dropped, not judged                  0
    small talk's answer            nothing was asked                    0

The default judge is never trained on these sentences; a test checks that its data has none.
"""

import random
from collections.abc import Iterator
from typing import Any

from envs.chat.compose import compose
from envs.chat.request import Request
from envs.chat.session import Move, Plan, Reaction, RulesUser, Session
from envs.chat.tasks import load_tasks
from envs.types import Task

EVERY = 3  # of the environment's sessions, so that a run takes a minute
MAX_TURNS = 10
BESIDE = (
    "I can help with many things. Tell me more about yourself.",
    "The weather is pleasant at this time of the year, and long walks are good for the health.",
)

Row = dict[str, Any]


def rows() -> list[Row]:
    """Return the exchanges, equal each time; no message of a persona comes twice."""
    found: list[Row] = []
    seen: set[tuple[str, str]] = set()
    for task in load_tasks()[::EVERY]:
        for row in _session(task):
            key = (row["style"], row["next_state"][0]["content"])
            if key not in seen:
                seen.add(key)
                found.append({"id": f"simulated-{len(found):04d}", **row})
    return found


def _session(task: Task) -> Iterator[Row]:
    draw = random.Random(f"simulated {task.id}")
    plan = Plan.of(task)
    session = Session(plan, RulesUser(), draw)
    request = plan.requests[0]
    history = [{"role": "user", "content": request.text}]
    for _ in range(MAX_TURNS):
        reply = _reply(request, plan, draw)
        reaction = session.reply(reply)
        kind, label = _meaning(reaction, aside=request.aside)
        said = {"role": "user", "content": reaction.message}
        answer = {"role": "assistant", "content": reply}
        yield {
            "kind": kind, "style": plan.persona.name, "label": label, "history": list(history),
            "reply": answer, "next_state": [said],
        }  # fmt: skip
        if reaction.move.ends:
            return
        history += [answer, said]
        request = next((r for r in plan.requests if reaction.message.endswith(r.text)), request)


def _meaning(reaction: Reaction, *, aside: bool) -> tuple[str, int]:
    """Return the kind and label of a user's message."""
    if reaction.move is Move.CORRECT:
        return "off_topic" if "on_topic" in reaction.violated else "correction", -1
    if reaction.move is Move.GIVE_UP:
        return "give_up", -1
    if reaction.move is Move.CHANGE_TOPIC:
        return "topic_change", 0
    return ("after_small_talk", 0) if aside else (f"thanks_{reaction.move}", 1)


def _reply(request: Request, plan: Plan, draw: random.Random) -> str:
    """Return a reply that fits, or one as assistants write when they do not know the user."""
    if request.aside or draw.random() < 0.4:
        return compose(request, plan.wishes)
    if draw.random() < 0.15:
        return draw.choice(BESIDE)
    first, *more = request.sentences
    plain = " ".join(request.sentences)
    steps = "\n".join(f"{n}. {sentence}" for n, sentence in enumerate(request.sentences, 1))
    return draw.choice(
        (
            plain,
            f"Great question! **{first}**\n\n{steps}\n\nHope this helps! 😊",
            f"Sure, here is what you need to know:\n- **{first}**\n"
            + "".join(f"- {sentence}\n" for sentence in more),
            f"{plain} \\boxed{{{request.answer or first}}}",
        )
    )
