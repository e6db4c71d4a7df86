# ruff: noqa: E501  (tables of sentences)
"""Two tools of which the second needs an id that only the first can tell."""

import random
from dataclasses import dataclass
from typing import Any

from envs.toolcall.bank.abilities import Ability
from envs.toolcall.bank.slots import Slot, choice, clock, date, text, whole


@dataclass(frozen=True)
class Chain:
    """See the module.

    Attributes:
        find: looks up; its answer holds the id.
        act: needs the id; its slots are those besides the id.
        id_name, prefix: name of the id, and how ids begin.
        requests: wordings, separated by ``|``.
    """

    find: Ability
    act: Ability
    id_name: str
    prefix: str
    requests: str

    @property
    def held(self) -> bool:
        """True for held-out tasks only."""
        return self.find.held

    def draw_id(self, rng: random.Random) -> str:
        """Return an id nobody can guess."""
        return f"{self.prefix}-{rng.randrange(10**5, 10**6)}"


def _chain(
    find: tuple[str, str, tuple[Slot, ...]],
    act: tuple[str, str, tuple[Slot, ...]],
    id_name: str,
    requests: str,
    held: bool = False,
) -> Chain:
    prefix = id_name[0].upper()
    pattern = {"type": "string", "pattern": f"^{prefix}-[0-9]{{6}}$"}

    def unknown(rng: random.Random) -> Any:
        raise AssertionError("ids are drawn by the chain")

    ident = Slot(
        id_name, {**pattern, "description": f"As {find[0]} tells."}, unknown, (), sided=False
    )
    topic = find[0]
    return Chain(
        Ability(find[0], find[1], find[2], "", topic=topic, kind="find", held=held),
        Ability(act[0], act[1], (ident, *act[2]), "", topic=topic, kind="act", held=held),
        id_name,
        prefix,
        requests,
    )


PERSON = text("name", "person", "Full name.")
CHAINS: tuple[Chain, ...] = (
    _chain(("find_contact", "Find a contact by name.", (PERSON,)),
        ("call_contact", "Ring a contact up at a time.", (clock("time", "When."),)), "contact_id",
        "Call {name} at {time}.|At {time} I want to speak to {name} on the phone."),
    _chain(("find_train", "Find the train to a city on a day.",
        (text("city", "city", "Where to."), date("date", "The day."))),
        ("book_seats", "Book seats on a train.", (whole("seats", 1, 8, "How many."),)), "train_id",
        "Book {seats} seats to {city} on {date}.|I go to {city} by train on {date}; {seats} seats."),
    _chain(("find_document", "Find a document by its topic.", (text("topic", "topic", "Topic."),)),
        ("share_document", "Share a document.", (text("with_person", "person", "Full name."),)),
        "document_id",
        "Share the document on the {topic} with {with_person}.|{with_person} needs the document on "
        "the {topic}; share it."),
    _chain(("find_song", "Find a song by its title.", (text("title", "title", "Title."),)),
        ("queue_song", "Put a song into the queue of a room.",
         (choice("room", ("kitchen", "bedroom", "office"), "Where."),)), "song_id",
        "Queue the song {title} in the {room}.|Next in the {room}: the song {title}."),
    _chain(("find_ticket", "Find a support ticket by its topic.", (text("topic", "topic", "Topic."),)),
        ("assign_ticket", "Assign a ticket.", (text("assignee", "person", "Full name."),)),
        "ticket_id",
        "Assign the ticket on the {topic} to {assignee}.|{assignee} takes the ticket on the {topic}."),
    _chain(("find_device", "Find a device by its place.", (text("place", "street", "Address."),)),
        ("restart_device", "Restart a device after some seconds.",
         (whole("delay_s", 5, 120, "Seconds."),)), "device_id",
        "Restart the device at {place} in {delay_s} seconds.|The device at {place} needs a restart, "
        "{delay_s} seconds from now."),
    _chain(("find_exhibit", "Find an exhibit of the museum.", (text("title", "title", "Title."),)),
        ("lend_exhibit", "Lend an exhibit to a museum elsewhere.",
         (text("to_city", "city", "Where to."), date("until", "Last day."))), "exhibit_id",
        "Lend {title} to the museum of {to_city} until {until}.|Until {until}, {to_city} gets our "
        "exhibit {title} on loan.", held=True),
    _chain(("find_patient", "Find a patient of the animal clinic by the owner.",
        (text("owner", "person", "Full name."),)),
        ("set_appointment", "Give a patient an appointment.",
         (date("date", "The day."), clock("time", "When."))), "patient_id",
        "The animal of {owner} should come on {date} at {time}.|Appointment on {date}, {time}, for "
        "the pet of {owner}.", held=True),
)  # fmt: skip
