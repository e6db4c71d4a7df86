"""Tasks in one window of buttons and fields, from one click to a filled form."""

from typing import Any

from envs.gui.tasks.drafts import Draft, Group, Row, goal, ids
from envs.terminal.draw import Draw

GROUP = Group()


def _buttons(draw: Draw, low: int = 3, high: int = 5) -> list[Row]:
    return [{"kind": "button", "name": word.title()} for word in draw.words(low, high)]


def _window(draw: Draw, rows: list[Row]) -> dict[str, Any]:
    return {"title": draw.noun().title(), "rows": rows}


@GROUP.template("trivial")
def press_button(draw: Draw) -> Draft:
    """Press one of several buttons."""
    rows = _buttons(draw)
    name = draw.rng.choice(rows)["name"]
    say = draw.say("Click {name}.", "Press the button {name}.", "Push {name}.", name=name)
    return Draft(say, (f"click {ids(rows)[name]}",), [goal(rows, (name,))], _window(draw, rows))


@GROUP.template("trivial")
def tick_box(draw: Draw) -> Draft:
    """Tick one of several boxes."""
    rows: list[Row] = [{"kind": "check", "name": word.title()} for word in draw.words(3, 5)]
    name = draw.rng.choice(rows)["name"]
    say = draw.say("Tick {name}.", "Check the box {name}.", "Turn on {name}.", name=name)
    check = goal(rows, changed={name: True})
    return Draft(say, (f"click {ids(rows)[name]}",), [check], _window(draw, rows))


@GROUP.template("trivial")
def fill_field(draw: Draw) -> Draft:
    """Type a word into one of several fields."""
    rows: list[Row] = [{"kind": "entry", "name": word.title()} for word in draw.words(2, 3)]
    name, word = draw.rng.choice(rows)["name"], draw.word()
    say = draw.say("Type {word} into {name}.", "Write {word} in the field {name}.",
                   "Enter {word} in {name}.", word=word, name=name)  # fmt: skip
    check = goal(rows, changed={name: word})
    return Draft(say, (f"fill {ids(rows)[name]} {word}",), [check], _window(draw, rows))


@GROUP.template("trivial")
def choose_option(draw: Draw) -> Draft:
    """Choose one of the options of a row of radio buttons, not the first."""
    options = [word.title() for word in draw.words(3, 5)]
    rows: list[Row] = [{"kind": "radio", "name": "choice", "options": options}]
    option = draw.rng.choice(options[1:])
    say = draw.say("Choose {name}.", "Select the option {name}.", "Pick {name}.", name=option)
    check = goal(rows, changed={"choice": option})
    return Draft(say, (f"click {ids(rows)[option]}",), [check], _window(draw, rows))


@GROUP.template("easy")
def press_two(draw: Draw) -> Draft:
    """Press two buttons in order."""
    rows = _buttons(draw)
    first, second = draw.rng.sample([row["name"] for row in rows], 2)
    say = draw.say("Click {a}, then {b}.", "Press {a} and after it {b}.", a=first, b=second)
    number = ids(rows)
    oracle = (f"click {number[first]}", f"click {number[second]}")
    return Draft(say, oracle, [goal(rows, (first, second))], _window(draw, rows))


@GROUP.template("easy")
def fill_and_press(draw: Draw) -> Draft:
    """Fill a field and press a button."""
    fields: list[Row] = [{"kind": "entry", "name": word.title()} for word in draw.words(2)]
    taken = {row["name"] for row in fields}
    rows = fields + [row for row in _buttons(draw, 4, 5) if row["name"] not in taken][:2]
    field, button = draw.rng.choice(fields)["name"], rows[-1]["name"]
    word, number = draw.word(), ids(rows)
    say = draw.say("Type {word} into {field}, then click {button}.",
                   "Enter {word} in {field} and press {button}.", word=word, field=field,
                   button=button)  # fmt: skip
    oracle = (f"fill {number[field]} {word}", f"click {number[button]}")
    return Draft(say, oracle, [goal(rows, (button,), {field: word})], _window(draw, rows))


@GROUP.template("easy")
def replace_field(draw: Draw) -> Draft:
    """Replace what a field holds."""
    old, new, *names = draw.words(4)
    rows: list[Row] = [{"kind": "entry", "name": n.title(), "text": old} for n in names]
    name = rows[-1]["name"]
    say = draw.say("Change {name} to {new}.", "Replace {old} in {name} by {new}.", name=name,
                   new=new, old=old)  # fmt: skip
    check = goal(rows, changed={name: new})
    return Draft(say, (f"fill {ids(rows)[name]} {new}",), [check], _window(draw, rows))


@GROUP.template("easy", heldout=True)
def untick_box(draw: Draw) -> Draft:
    """Untick one of several ticked boxes."""
    rows: list[Row] = [
        {"kind": "check", "name": word.title(), "on": True} for word in draw.words(3, 5)
    ]
    name = draw.rng.choice(rows)["name"]
    say = draw.say("Untick {name}.", "Clear the box {name}.", "Turn off {name}.", name=name)
    check = goal(rows, changed={name: False})
    return Draft(say, (f"click {ids(rows)[name]}",), [check], _window(draw, rows))


@GROUP.template("medium")
def fill_form(draw: Draw) -> Draft:
    """Fill two fields, tick a box, send."""
    rows: list[Row] = [{"kind": "entry", "name": "Name"}, {"kind": "entry", "name": "City"},
                       {"kind": "check", "name": "News"}, {"kind": "button", "name": "Send"},
                       {"kind": "button", "name": "Cancel"}]  # fmt: skip
    person, city = draw.people(1)[0].title(), draw.word()
    say = f"Fill in Name {person} and City {city}, tick News, and click Send."
    oracle = (f"fill 1 {person}", f"fill 2 {city}", "click 3", "click 4")
    check = goal(rows, ("Send",), {"Name": person, "City": city, "News": True})
    return Draft(say, oracle, [check], _window(draw, rows))


@GROUP.template("medium", heldout=True)
def order_form(draw: Draw) -> Draft:
    """Name a thing, choose a size, order."""
    sizes = [word.title() for word in draw.words(3)]
    rows: list[Row] = [{"kind": "entry", "name": "Item"},
                       {"kind": "radio", "name": "size", "options": sizes},
                       {"kind": "button", "name": "Order"}]  # fmt: skip
    item, size, number = draw.noun(), draw.rng.choice(sizes[1:]), ids(rows)
    say = f"Enter {item} as Item, choose {size} and click Order."
    oracle = (f"fill 1 {item}", f"click {number[size]}", f"click {number['Order']}")
    check = goal(rows, ("Order",), {"Item": item, "size": size})
    return Draft(say, oracle, [check], _window(draw, rows))
