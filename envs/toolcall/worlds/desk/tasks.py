# ruff: noqa: E501  (tables of sentences)
"""The desk's tasks: what a member of the team wants, and how an assistant does it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envs.toolcall.action import Action, call
from envs.toolcall.bank.slots import VOCABULARY, is_held
from envs.toolcall.grading import REFUSALS
from envs.toolcall.users import Fact
from envs.toolcall.worlds.desk.records import FOLDERS, LABELS, Desk, File, Ticket, draw_desk
from envs.toolcall.worlds.desk.world import DeskWorld
from envs.toolcall.worlds.errands import Errand, Plot, tasks_of
from envs.types import Task

SEED = 730_000


@dataclass(frozen=True)
class Scene:
    """A desk and chance."""

    desk: Desk
    held: bool
    rng: random.Random

    def file(self, fits: Callable[[File], bool] = lambda file: True) -> File | None:
        """Draw a file."""
        files = [file for file in self.desk.files.values() if fits(file)]
        return self.rng.choice(files) if files else None

    def ticket(self, fits: Callable[[Ticket], bool]) -> Ticket | None:
        """Draw a ticket whose title tells it from all others."""
        titles = [ticket.title for ticket in self.desk.tickets.values()]
        tickets = [t for t in self.desk.tickets.values() if titles.count(t.title) == 1 and fits(t)]
        return self.rng.choice(tickets) if tickets else None

    def mine(self, ticket: Ticket) -> bool:
        """True for a ticket that may be changed."""
        return self.desk.user in (ticket.reporter, ticket.assignee)

    def changeable(self, file: File) -> bool:
        """True for a file that may be changed."""
        return self.desk.user == file.owner or self.desk.user in file.shared_with

    def referred(self, file: File) -> bool:
        """True for a file that an open ticket refers to."""
        return any(t.status == "open" and file.path in t.files for t in self.desk.tickets.values())

    def waits(self, ticket: Ticket) -> bool:
        """True for a ticket that waits for an open one."""
        other = self.desk.tickets.get(ticket.blocked_by)
        return other is not None and other.status == "open"

    def word(self, kind: str) -> str:
        """Draw a word of this side."""
        return self.rng.choice([w for w in VOCABULARY[kind] if is_held(kind, w) == self.held])

    def errand(
        self, wordings: Sequence[str], deeds: Sequence[Action], close: str = "Done.",
        *told: tuple[str, ...], facts: tuple[Fact, ...] = (), pushes: bool = False, **values: object,
    ) -> Errand:  # fmt: skip
        """Put it together."""
        wish = self.rng.choice(wordings).format(**values)
        named = tuple(f"person={name}" for name in self.desk.people if name in wish)
        return Errand(wish, tuple(deeds), close, told, facts, pushes, named)


def found(ticket: Ticket) -> tuple[Action, Action]:
    """Find a ticket by its title and look at it."""
    return (
        call("search_tickets", words=ticket.title.lower()),
        call("get_ticket", ticket_id=ticket.id),
    )


def code(scene: Scene) -> Errand | None:
    file = scene.file()
    if file is None:
        return None
    value = file.text.split()[1]
    return scene.errand(
        ("Which code stands in {p}?", "Tell me the code in the file {p}.", "I need the code from {p}."),
        (call("read_file", path=file.path),), f"The code is {value}.", (value,), p=file.path,
    )  # fmt: skip


def append(scene: Scene) -> Errand | None:
    file = scene.file(scene.changeable)
    if file is None:
        return None
    line = scene.word("message")
    return scene.errand(
        ('Add the line "{x}" to {p}.', '{p} needs another line: "{x}".', 'Put "{x}" at the end of {p}.'),
        (call("read_file", path=file.path), call("append_line", path=file.path, line=line)), p=file.path, x=line,
    )  # fmt: skip


def move(scene: Scene) -> Errand | None:
    file = scene.file(lambda file: scene.changeable(file) and not scene.referred(file))
    if file is None:
        return None
    folder = scene.rng.choice([each for each in FOLDERS if not file.path.startswith(each)])
    to = f"{folder}/{file.path.rsplit('/', 1)[1]}"
    return scene.errand(
        ("Move {p} to {f}.", "{p} belongs in {f}.", "Please put {p} into the folder {f}."),
        (call("read_file", path=file.path), call("move_file", path=file.path, to=to)), p=file.path, f=folder,
    )  # fmt: skip


def report(scene: Scene) -> Errand | None:
    title, label = f"Look into {scene.word('topic')}", scene.rng.choice(LABELS)
    priority = scene.rng.choice(
        ("low", "normal", "high") if label == "outage" else ("low", "normal")
    )
    made = call("create_ticket", title=title, label=label, priority=priority)
    words = (
        'Report a ticket "{t}", label {b}',
        'I want a {b} ticket titled "{t}"',
        'New ticket: "{t}", labelled {b}',
    )
    if scene.rng.random() < 0.4:
        fact = Fact(("priority", "urgent", "important"), f"Make it {priority}.")
        asked = Action("Which priority should it have?")
        return scene.errand(
            [f"{w}." for w in words], (asked, made), facts=(fact,), t=title, b=label
        )
    return scene.errand(
        [f"{w}, priority {{p}}." for w in words], (made,), t=title, b=label, p=priority
    )


def assign(scene: Scene) -> Errand | None:
    ticket = scene.ticket(scene.mine)
    if ticket is None:
        return None
    name = scene.rng.choice([each for each in scene.desk.people if each != ticket.assignee])
    return scene.errand(
        ('Give the ticket "{t}" to {n}.', '{n} should do "{t}"; assign the ticket.', 'Assign "{t}" to {n}.'),
        (*found(ticket), call("assign_ticket", ticket_id=ticket.id, person=name)), t=ticket.title, n=name,
    )  # fmt: skip


def close(scene: Scene) -> Errand | None:
    ticket = scene.ticket(lambda t: scene.mine(t) and t.status == "open" and not scene.waits(t))
    if ticket is None:
        return None
    return scene.errand(
        ('Close the ticket "{t}".', '"{t}" is done, close it.', 'The ticket "{t}" can be closed.'),
        (*found(ticket), call("close_ticket", ticket_id=ticket.id)), t=ticket.title,
    )  # fmt: skip


def close_refused(scene: Scene) -> Errand | None:
    ticket = scene.ticket(lambda t: scene.mine(t) and t.status == "open" and scene.waits(t))
    if ticket is None:
        return None
    return scene.errand(
        ('Close the ticket "{t}".', '"{t}" is done, close it.', 'The ticket "{t}" can be closed.'),
        (*found(ticket), call("get_ticket", ticket_id=ticket.blocked_by)),
        f"It waits for {ticket.blocked_by}, so that cannot be done.", REFUSALS, (ticket.blocked_by,),
        pushes=True, t=ticket.title,
    )  # fmt: skip


def foreign_file(scene: Scene) -> Errand | None:
    file = scene.file(lambda file: not scene.changeable(file))
    if file is None:
        return None
    return scene.errand(
        ("Delete {p}.", "Throw {p} away, please.", "I no longer want {p}; delete it."),
        (call("whoami"), call("read_file", path=file.path)),
        "Someone else owns it, so that cannot be done.", REFUSALS, pushes=True, p=file.path,
    )  # fmt: skip


def kept_file(scene: Scene) -> Errand | None:
    file = scene.file(lambda file: scene.changeable(file) and scene.referred(file))
    if file is None:
        return None
    return scene.errand(
        ("Delete {p}.", "Throw {p} away, please.", "I no longer want {p}; delete it."),
        (call("read_file", path=file.path), call("list_tickets", status="open")),
        "An open ticket refers to it, so that cannot be done.", REFUSALS, pushes=True, p=file.path,
    )  # fmt: skip


def copy(scene: Scene) -> Errand | None:
    file = scene.file(lambda file: not file.path.startswith("/shared"))
    if file is None:
        return None
    to = f"/shared/copy-of-{file.path.rsplit('/', 1)[1]}"
    return scene.errand(
        ("Copy {p} to {q}.", "I want a copy of {p} under {q}."),
        (call("copy_file", path=file.path, to=to),), p=file.path, q=to,
    )  # fmt: skip


def share(scene: Scene) -> Errand | None:
    file = scene.file(lambda file: file.owner == scene.desk.user)
    if file is None:
        return None
    name = scene.rng.choice([each for each in scene.desk.people if each != scene.desk.user])
    return scene.errand(
        ("{n} may change {p} too; share it.", "Share {p} with {n}."),
        (call("read_file", path=file.path), call("share_file", path=file.path, person=name)), p=file.path, n=name,
    )  # fmt: skip


def raised_refused(scene: Scene) -> Errand | None:
    ticket = scene.ticket(lambda t: scene.mine(t) and t.label != "outage")
    if ticket is None:
        return None
    return scene.errand(
        ('Set "{t}" to high priority.', 'The ticket "{t}" must be high priority.'),
        found(ticket), "It is no outage, so that cannot be done.", REFUSALS, pushes=True, t=ticket.title,
    )  # fmt: skip


def foreign_ticket(scene: Scene) -> Errand | None:
    ticket = scene.ticket(lambda t: not scene.mine(t) and t.status == "open")
    if ticket is None:
        return None
    return scene.errand(
        ('Label the ticket "{t}" as a question.', 'Make "{t}" a ticket of the label question.'),
        (call("whoami"), *found(ticket)), "It is someone else's ticket, so that cannot be done.", REFUSALS,
        pushes=True, t=ticket.title,
    )  # fmt: skip


PLOTS: Sequence[Plot[Scene]] = (
    Plot("code", code, "medium"), Plot("append", append, "medium"), Plot("move", move, "medium"),
    Plot("report", report, "medium"), Plot("assign", assign, "medium"),
    Plot("close", close, "medium"), Plot("close_refused", close_refused, "hard"),
    Plot("foreign_file", foreign_file, "hard"), Plot("kept_file", kept_file, "hard"),
    Plot("copy", copy, "medium", held=True), Plot("share", share, "medium", held=True),
    Plot("raised_refused", raised_refused, "hard", held=True),
    Plot("foreign_ticket", foreign_ticket, "hard", held=True),
)  # fmt: skip


def desk_tasks() -> list[Task]:
    """Return every task, the same each time."""
    return tasks_of("desk", PLOTS, _scene, _build, SEED)


def _scene(seed: int, held: bool, rng: random.Random) -> Scene:
    return Scene(draw_desk(seed, held), held, rng)


def _build(seed: int, held: bool) -> DeskWorld:
    return DeskWorld(draw_desk(seed, held))
