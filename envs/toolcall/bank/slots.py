"""Parameters of the tools: their schema, values to draw, and how a user says them.

Each value belongs to one side for good: one in four is for held-out tasks only. Choices among a few
(a unit, a room) are on both sides.
"""

import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

VOCABULARY: dict[str, tuple[str, ...]] = {
    "city": (
        "Lisbon", "Oslo", "Nairobi", "Quito", "Hanoi", "Leeds", "Bergen", "Tampere", "Porto",
        "Ghent", "Graz", "Turin", "Lyon", "Cork", "Malmö", "Brno", "Split", "Tartu", "Cusco",
        "Dakar", "Perth", "Busan", "Kyoto", "Davao",
    ),
    "person": (
        "Amira Haddad", "Tom Brandt", "Lucía Ortega", "Ben Okafor", "Ingrid Dahl", "Yuki Tanaka",
        "Paula Reis", "Omar Saleh", "Nina Petrova", "Felix Weber", "Chloe Martin", "Ravi Menon",
        "Sofia Lindqvist", "Jonas Keller", "Mei Chen", "Hugo Silva", "Elif Kaya", "Marek Nowak",
        "Aoife Byrne", "Samir Aziz", "Greta Vogel", "Pedro Lima", "Hana Novak", "Leo Moreau",
    ),
    "thing": (
        "oat milk", "light bulbs", "printer paper", "dish soap", "green tea", "coffee filters",
        "olive oil", "sunflower seeds", "candles", "batteries", "notebooks", "sponges", "rice",
        "lentils", "envelopes", "pencils", "honey", "toothpaste", "apples", "flour",
    ),
    "title": (
        "Blue Harbour", "The Ninth Lamp", "Salt and Cedar", "Quiet Engines", "Paper Rivers",
        "A Coat for Winter", "Nine Small Doors", "The Glass Orchard", "Northbound", "Low Tide",
        "Echo Park", "Second Meridian", "The Cartographer", "Amber Field", "Slow Lightning",
        "Iron Lullaby", "The Far Kitchen", "Tin Soldiers", "Undertow", "Half a Compass",
    ),
    "topic": (
        "quarterly budget", "garden plan", "ski trip", "kitchen repair", "book club", "tax papers",
        "new hires", "team lunch", "roof insulation", "piano lessons", "data migration",
        "wedding list", "bike service", "school play", "website texts", "fire drill", "rent",
        "holiday photos", "code review", "summer party",
    ),
    "message": (
        "the train is late", "the keys are under the mat", "dinner is at eight",
        "the meeting moved to noon", "the parcel has arrived", "I will call tonight",
        "the door code has changed", "lunch is on me", "the tickets are booked",
        "practice is cancelled", "the car is ready", "we need more chairs",
        "the report is finished", "the plumber comes at ten", "grandma says hello",
        "the garden gate is open",
    ),
    "unicode": (
        "Žluťoučký kůň 🐎", "naïve café — «déjà vu»", "東京タワー", "Привет, мир", "שלום עולם",
        "emoji 👩‍🚀🚀 test", "½ × ¾ ≈ 0,375", "Ærøskøbing ↔ Łódź", "नमस्ते दुनिया", "Ελλάδα 🏛️",
        "\"quoted\" \\ backslash", "tab\tseparated", "zażółć gęślą jaźń", "مرحبا بالعالم",
        "1️⃣ one, 2️⃣ two", "Straße & Größe", "한국어 문장", "ﬁne “quotes”",
    ),
    "street": (
        "12 Mill Lane", "7 Station Road", "45 Harbour Street", "3 Elm Court", "90 Kings Avenue",
        "28 Rose Hill", "61 Bridge Street", "14 Orchard Way", "5 Abbey Close", "33 Park Row",
        "18 Canal Side", "77 West Gate", "2 Linden Square", "50 Foundry Lane", "9 Old Market",
        "24 Tower Road",
    ),
}  # fmt: skip
_PLACES = {word: place for words in VOCABULARY.values() for place, word in enumerate(words)}


@dataclass(frozen=True)
class Slot:
    """One parameter.

    Attributes:
        name: of the parameter.
        schema: of its values.
        draw: a value.
        asked_by: words in a question that ask for it.
        say: a value in words that hold it as it is to be given.
    """

    name: str
    schema: Mapping[str, Any]
    draw: Callable[[random.Random], Any]
    asked_by: tuple[str, ...]
    say: Callable[[Any], str] = str
    sided: bool = True


def is_held(name: str, value: Any) -> bool:
    """True when a value is for held-out tasks only: of words every fourth, whatever the slot."""
    if isinstance(value, str) and value in _PLACES:
        return _PLACES[value] % 4 == 3
    return zlib.crc32(f"{name}={value!r}".encode()) % 4 == 0


def draw(slot: Slot, held: bool, rng: random.Random) -> Any:
    """Draw a value of one side."""
    for _ in range(500):
        value = slot.draw(rng)
        if not slot.sided or is_held(slot.name, value) == held:
            return value
    raise AssertionError(f"{slot.name} has no value with held={held}")


def text(name: str, kind: str, about: str, *asked_by: str) -> Slot:
    """A parameter whose values are words of the vocabulary."""
    words = VOCABULARY[kind]
    return Slot(
        name, _schema("string", about), lambda rng: rng.choice(words), _asked(name, asked_by)
    )


def whole(name: str, low: int, high: int, about: str, *asked_by: str) -> Slot:
    """A whole number in a range."""
    schema = {**_schema("integer", about), "minimum": low, "maximum": high}
    return Slot(name, schema, lambda rng: rng.randint(low, high), _asked(name, asked_by))


def decimal(name: str, low: int, high: int, about: str, *asked_by: str) -> Slot:
    """A number with one decimal."""
    return Slot(
        name,
        {**_schema("number", about), "minimum": low, "maximum": high},
        lambda rng: rng.randint(low * 10, high * 10 - 1) / 10,
        _asked(name, asked_by),
    )


def huge(name: str, about: str, *asked_by: str) -> Slot:
    """A whole number of 18 to 40 digits: past what a float keeps."""

    def digits(rng: random.Random) -> int:
        return rng.randint(10**17, 10 ** rng.randint(18, 40))

    return Slot(name, _schema("integer", about), digits, _asked(name, asked_by))


def choice(name: str, options: Sequence[str], about: str, *asked_by: str) -> Slot:
    """One of a few words; on both sides."""
    schema = {**_schema("string", about), "enum": list(options)}
    return Slot(name, schema, lambda rng: rng.choice(options), _asked(name, asked_by), sided=False)


def date(name: str, about: str, *asked_by: str) -> Slot:
    """A day as YYYY-MM-DD."""
    schema = {**_schema("string", f"{about} YYYY-MM-DD."), "pattern": r"^\d{4}-\d{2}-\d{2}$"}

    def day(rng: random.Random) -> str:
        return f"2026-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"

    return Slot(name, schema, day, _asked(name, ("date", "day", "when", *asked_by)))


def clock(name: str, about: str, *asked_by: str) -> Slot:
    """A time of day as HH:MM."""
    schema = {**_schema("string", f"{about} HH:MM."), "pattern": r"^\d{2}:\d{2}$"}

    def time(rng: random.Random) -> str:
        return f"{rng.randint(6, 22):02}:{rng.randrange(0, 60, 5):02}"

    return Slot(name, schema, time, _asked(name, ("time", "when", *asked_by)))


def _asked(name: str, more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*name.split("_"), *more)))


def _schema(kind: str, about: str) -> dict[str, Any]:
    return {"type": kind, "description": about}
