"""Parameters that are objects and lists of objects, said in one breath."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from envs.toolcall.bank.slots import VOCABULARY, Slot


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


STRING, WHOLE, TRUTH = {"type": "string"}, {"type": "integer", "minimum": 1}, {"type": "boolean"}


def address(name: str) -> Slot:
    """``{street, city}``."""

    def draw(rng: random.Random) -> dict[str, str]:
        return {
            "street": rng.choice(VOCABULARY["street"]),
            "city": rng.choice(VOCABULARY["city"]),
        }

    schema = _object({"street": STRING, "city": STRING})
    return Slot(name, schema, draw, (name,), lambda value: f"{value['street']} in {value['city']}")


def basket(name: str) -> Slot:
    """``[{item, quantity}]``, two or three."""

    def draw(rng: random.Random) -> list[dict[str, Any]]:
        items = rng.sample(VOCABULARY["thing"], rng.randint(2, 3))
        return [{"item": item, "quantity": rng.randint(1, 9)} for item in items]

    def say(lines: Sequence[Mapping[str, Any]]) -> str:
        return _listed([f"{line['quantity']} x {line['item']}" for line in lines])

    line = _object({"item": STRING, "quantity": WHOLE})
    return Slot(name, {"type": "array", "items": line, "minItems": 1}, draw, (name,), say)


def attendees(name: str) -> Slot:
    """``[{name, required}]``, two or three."""

    def draw(rng: random.Random) -> list[dict[str, Any]]:
        people = rng.sample(VOCABULARY["person"], rng.randint(2, 3))
        return [{"name": person, "required": rng.random() < 0.5} for person in people]

    def say(people: Sequence[Mapping[str, Any]]) -> str:
        return _listed([f"{p['name']} ({'must' if p['required'] else 'may'} come)" for p in people])

    person = _object({"name": STRING, "required": TRUTH})
    return Slot(name, {"type": "array", "items": person, "minItems": 1}, draw, (name,), say)


def filters(name: str) -> Slot:
    """``{rooms, rent: {max}, pets}``."""

    def draw(rng: random.Random) -> dict[str, Any]:
        return {
            "rooms": rng.randint(1, 6),
            "rent": {"max": rng.randrange(400, 2400, 50)},
            "pets": rng.random() < 0.5,
        }

    def say(value: Mapping[str, Any]) -> str:
        pets = "pets allowed" if value["pets"] else "no pets"
        return f"{value['rooms']} rooms, rent at most {value['rent']['max']}, {pets}"

    schema = _object({"rooms": WHOLE, "rent": _object({"max": WHOLE}), "pets": TRUTH})
    return Slot(name, schema, draw, (name,), say)


def party(name: str) -> Slot:
    """``{guests: {adults, children}, music: [..]}``."""

    def draw(rng: random.Random) -> dict[str, Any]:
        return {
            "guests": {"adults": rng.randint(2, 60), "children": rng.randint(1, 20)},
            "music": rng.sample(("jazz", "folk", "disco", "waltz"), 2),
        }

    def say(value: Mapping[str, Any]) -> str:
        guests = value["guests"]
        music = _listed(value["music"])
        return f"{guests['adults']} adults, {guests['children']} children, music {music}"

    guests = _object({"adults": WHOLE, "children": WHOLE})
    music = {"type": "array", "items": {"enum": ["jazz", "folk", "disco", "waltz"]}}
    return Slot(name, _object({"guests": guests, "music": music}), draw, (name,), say)


def _listed(parts: Sequence[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
