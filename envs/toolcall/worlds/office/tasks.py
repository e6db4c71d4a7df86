# ruff: noqa: E501  (tables of sentences)
"""The office's tasks: what its owner wants, and how an assistant does it."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envs.toolcall.action import Action, call
from envs.toolcall.bank.slots import VOCABULARY, is_held
from envs.toolcall.grading import REFUSALS
from envs.toolcall.users import Fact, UserPlan
from envs.toolcall.world import ToolError
from envs.toolcall.worlds.office.records import DAYS, OWNER, Event, Mail, Office, draw_office
from envs.toolcall.worlds.office.world import OfficeWorld, clock
from envs.types import Split, Task, TaskLimits

SEED = 52000
NUM_TRAIN, NUM_PARAMETERS, NUM_TEMPLATE = 8, 2, 8
SPARE_STEPS = 5


@dataclass(frozen=True)
class Errand:
    """What is wanted, the right way, what to say, what the owner tells when asked."""

    wish: str
    deeds: tuple[Action, ...]
    close: str = "Done."
    told: tuple[tuple[str, ...], ...] = ()
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class Scene:
    """An office and chance."""

    office: Office
    held: bool
    rng: random.Random

    def event(self, mine: bool) -> Event | None:
        """Draw an event the owner organises, or another's."""
        events = [e for e in self.office.events.values() if (e.organiser == OWNER) == mine]
        return self.rng.choice(events) if events else None

    def mail(self, fits: Callable[[Mail], bool] = lambda mail: True) -> Mail | None:
        """Draw a mail whose sender and subject tell it from all others."""
        mails = list(self.office.mails.values())
        told_apart = [
            m for m in mails
            if fits(m) and sum((o.sender, o.subject) == (m.sender, m.subject) for o in mails) == 1
        ]  # fmt: skip
        return self.rng.choice(told_apart) if told_apart else None

    def name(self, address: str) -> str:
        """Return whose address it is."""
        return next(name for name, known in self.office.people.items() if known == address)

    def topic(self) -> str:
        """Draw a topic of this side."""
        return self.rng.choice([t for t in VOCABULARY["topic"] if is_held("topic", t) == self.held])

    def says(self, *wordings: str, **values: object) -> str:
        """Draw a wording and fill it."""
        return self.rng.choice(wordings).format(**values)


def agenda(scene: Scene) -> Errand | None:
    event = scene.rng.choice(list(scene.office.events.values()))
    return Errand(
        scene.says(
            "What is on at {t} on {d}?",
            "Which event do I have on {d} at {t}?",
            t=clock(event.start),
            d=event.date,
        ),
        (call("list_events", date=event.date),),
        f"It is the {event.title}.",
        ((event.title,),),
    )


def create(scene: Scene) -> Errand | None:
    name, address = scene.rng.choice(list(scene.office.people.items()))
    title, date = scene.topic(), scene.rng.choice(DAYS)
    start, minutes = (
        scene.rng.choice(("08:00", "10:05", "12:15", "17:00")),
        scene.rng.choice((20, 30, 45)),
    )
    asked = scene.rng.random() < 0.4
    words = scene.says(
        'Set up "{x}" with {n} on {d}, {m} minutes',
        'I need {m} minutes with {n} on {d}, title "{x}"',
        x=title,
        n=name,
        d=date,
        m=minutes,
    )
    deeds = (
        call("find_person", name=name),
        call(
            "create_event",
            title=title,
            date=date,
            start=start,
            minutes=minutes,
            attendees=[address],
        ),
    )
    if asked:
        fact = Fact(("time", "when", "start", "hour"), f"At {start}.")
        return Errand(f"{words}.", (Action("At what time should it start?"), *deeds), facts=(fact,))
    return Errand(f"{words}, at {start}.", deeds)


def move(scene: Scene) -> Errand | None:
    event = scene.event(mine=True)
    if event is None:
        return None
    start = scene.rng.choice(("08:00", "10:00", "12:00", "16:30"))
    return Errand(
        scene.says(
            "Move my event of {d}, {t}, to {s} the same day.",
            "{d}: the event at {t} should start at {s}.",
            d=event.date,
            t=clock(event.start),
            s=start,
        ),
        (
            call("list_events", date=event.date),
            call("move_event", event_id=event.id, date=event.date, start=start),
        ),
    )


def cancel(scene: Scene) -> Errand | None:
    event = scene.event(mine=True)
    if event is None:
        return None
    return Errand(
        scene.says(
            "Cancel my event on {d} at {t}.",
            "The event of {d}, {t}, is off.",
            d=event.date,
            t=clock(event.start),
        ),
        (call("list_events", date=event.date), call("cancel_event", event_id=event.id)),
    )


def invite(scene: Scene) -> Errand | None:
    event = scene.event(mine=True)
    if event is None:
        return None
    others = [n for n, a in scene.office.people.items() if a not in event.attendees]
    name = scene.rng.choice(others)
    return Errand(
        scene.says("{n} should come to my event on {d} at {t}.", "Invite {n} to the event of {d}, {t}.", n=name, d=event.date, t=clock(event.start)),
        (call("list_events", date=event.date), call("find_person", name=name),
         call("invite", event_id=event.id, address=scene.office.people[name])),
    )  # fmt: skip


def write(scene: Scene) -> Errand | None:
    name = scene.rng.choice(list(scene.office.people))
    subject = scene.topic()
    body = scene.rng.choice(
        [m for m in VOCABULARY["message"] if is_held("message", m) == scene.held]
    )
    return Errand(
        scene.says(
            'Mail {n}, subject "{s}", text "{b}".',
            'Write to {n}: subject "{s}", body "{b}".',
            n=name,
            s=subject,
            b=body,
        ),
        (
            call("find_person", name=name),
            call("send_mail", to=scene.office.people[name], subject=subject, body=body),
        ),
    )


def read_code(scene: Scene) -> Errand | None:
    mail = scene.mail()
    if mail is None:
        return None
    code = mail.body.split("this is ")[1].split(".")[0]
    return Errand(
        scene.says(
            "Which code did {n} mail me about the {s}?",
            "{n} wrote about the {s}. What is the code in it?",
            n=scene.name(mail.sender),
            s=mail.subject,
        ),
        (
            call("search_mail", words=f"{scene.name(mail.sender)} {mail.subject}"),
            call("read_mail", mail_id=mail.id),
        ),
        f"The code is {code}.",
        ((code,),),
    )


def archive(scene: Scene) -> Errand | None:
    mail = scene.mail()
    if mail is None:
        return None
    return Errand(
        scene.says(
            "Archive the mail from {n} on the {s}.",
            "The mail about the {s} by {n} can go to the archive.",
            n=scene.name(mail.sender),
            s=mail.subject,
        ),
        (
            call("search_mail", words=f"{scene.name(mail.sender)} {mail.subject}"),
            call("archive_mail", mail_id=mail.id),
        ),
    )


def cancel_foreign(scene: Scene) -> Errand | None:
    event = scene.event(mine=False)
    if event is None:
        return None
    return Errand(
        scene.says(
            "Cancel the event on {d} at {t}.",
            "I do not want the event of {d}, {t}. Cancel it.",
            d=event.date,
            t=clock(event.start),
        ),
        (call("list_events", date=event.date),),
        "Someone else organises it, so that cannot be done.",
        (REFUSALS,),
    )


def delete_flagged(scene: Scene) -> Errand | None:
    mail = scene.mail(lambda mail: mail.flagged)
    if mail is None:
        return None
    return Errand(
        scene.says(
            "Delete the mail from {n} on the {s}.",
            "Throw the mail of {n} about the {s} away.",
            n=scene.name(mail.sender),
            s=mail.subject,
        ),
        (call("search_mail", words=f"{scene.name(mail.sender)} {mail.subject}"),),
        "That mail is flagged, so that cannot be done.",
        (REFUSALS,),
    )


def too_late(scene: Scene) -> Errand | None:
    date, time = scene.rng.choice(DAYS), scene.rng.choice(("19:00", "21:30", "06:15"))
    return Errand(
        scene.says(
            'Put "{x}" on {d} at {t}, 45 minutes, just for me.',
            '45 minutes for "{x}" at {t} on {d}, nobody else.',
            x=scene.topic(),
            d=date,
            t=time,
        ),
        (),
        "That is outside of office hours, so it cannot be done.",
        (REFUSALS,),
    )


PLOTS: Sequence[tuple[str, Callable[[Scene], Errand | None], str, bool]] = (
    ("agenda", agenda, "easy", False),
    ("archive", archive, "easy", False),
    ("cancel", cancel, "medium", False),
    ("move", move, "medium", False),
    ("create", create, "medium", False),
    ("code", read_code, "hard", False),
    ("foreign", cancel_foreign, "hard", False),
    ("flagged", delete_flagged, "hard", False),
    ("invite", invite, "medium", True),
    ("write", write, "easy", True),
    ("late", too_late, "hard", True),
)


def office_tasks() -> list[Task]:
    """Return every task, the same each time."""
    tasks: list[Task] = []
    seen: set[str] = set()
    for number, (name, plot, level, held) in enumerate(PLOTS):
        kinds = ["template"] * NUM_TEMPLATE
        if not held:
            kinds = [""] * NUM_TRAIN + ["parameters"] * NUM_PARAMETERS
        seed = SEED + 1000 * number
        for place, kind in enumerate(kinds):
            task = None
            while task is None or task.instruction in seen:
                seed += 1
                task = _draw(name, plot, level, f"{place:04d}", kind, seed)
            seen.add(task.instruction)
            tasks.append(task)
    return tasks


def _works(errand: Errand, world: OfficeWorld) -> bool:
    """True when the right way meets no refusal, such as a time that is taken, and changes a thing."""
    before = _frozen(world)
    try:
        for each in [each for action in errand.deeds for each in action.calls]:
            world.call(each.name, dict(each.arguments))
    except ToolError:
        return False
    return bool(errand.told) or _frozen(world) != before


def _frozen(world: OfficeWorld) -> str:
    """Return the state as text that later changes leave alone."""
    return repr(world.state())


def _draw(
    name: str, plot: Callable[[Scene], Errand | None], level: str, place: str, kind: str, seed: int
) -> Task | None:
    rng, held = random.Random(f"errand/{seed}"), bool(kind)
    office = draw_office(seed, held)
    errand = plot(Scene(office, held, rng))
    if errand is None:
        return None
    user = UserPlan(
        rng.choice(("", "Hi! ", "Please: ", "Good morning. ")) + errand.wish, errand.facts
    )
    actions = [*errand.deeds, Action(errand.close)]
    rows = [{"content": a.content, "tool_calls": [c.to_json() for c in a.calls]} for a in actions]
    data = {
        "world": "office", "seed": seed, "held": held, "user": user.to_json(),
        "told": [list(ways) for ways in errand.told], "oracle": rows,
        "template": f"office_{name}", "parameters": [f"person={n}" for n in office.people if n in errand.wish],
    }  # fmt: skip
    split: Split = "heldout" if kind else "train"
    tags = (f"level:{level}", "source:generated", f"template:office_{name}")
    return Task(
        id=f"toolcall/office_{name}/{place}", env="toolcall", family=f"office_{name}", split=split,
        instruction=user.opening, image="",
        limits=TaskLimits(max_steps=len(actions) + SPARE_STEPS, output_bytes=3000),
        data=json.loads(json.dumps(data)), tags=(*tags, f"heldout:{kind}") if kind else tags,
    )  # fmt: skip
