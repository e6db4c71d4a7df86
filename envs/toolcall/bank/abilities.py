# ruff: noqa: E501  (tables of sentences)
"""What tools can do, and how people ask for it; ``held`` abilities are never trained on.

An ability is a tool, its parameters with values to draw, requests in several wordings, and one
request that leaves a parameter out. Wordings hold every value as it is to be given, so that there
is one right call.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envs.toolcall.bank import slots
from envs.toolcall.bank.nested import address, attendees, basket, filters, party
from envs.toolcall.bank.slots import Slot, choice, clock, date, decimal, huge, text, whole
from envs.toolcall.tools import Tool


@dataclass(frozen=True, eq=False)
class Ability:
    """See the module.

    Attributes:
        name, about: of the tool.
        slots: its required parameters.
        requests: wordings, separated by ``|``.
        vague: a parameter and wordings without it; ("", "") where none may be missing.
        topic: abilities of one topic might stand in for each other, and are not offered when the
            right one is missing.
        kind: ``plain``, ``nested``, ``values`` or ``find``: looks an id up.
        optional: parameters that a request does not speak of, and their default.
        held: for held-out tasks only.
    """

    name: str
    about: str
    slots: tuple[Slot, ...]
    requests: str
    vague: tuple[str, str] = ("", "")
    topic: str = ""
    kind: str = "plain"
    optional: Mapping[str, tuple[Mapping[str, Any], Any]] = field(default_factory=dict)
    held: bool = False

    @property
    def tool(self) -> Tool:
        """The tool."""
        properties = {slot.name: dict(slot.schema) for slot in self.slots}
        properties.update({name: dict(schema) for name, (schema, _) in self.optional.items()})
        parameters = {
            "type": "object",
            "properties": properties,
            "required": [slot.name for slot in self.slots],
            "additionalProperties": False,
        }
        return Tool(self.name, self.about, parameters)

    @property
    def defaults(self) -> dict[str, Any]:
        """Values of parameters that may be left out."""
        return {name: default for name, (_, default) in self.optional.items()}

    def draw(self, held: bool, rng: random.Random) -> dict[str, Any]:
        """Draw arguments."""
        return {slot.name: slots.draw(slot, held, rng) for slot in self.slots}

    def ask(self, arguments: Mapping[str, Any], rng: random.Random) -> str:
        """Return a request for these arguments."""
        return self._fill(rng.choice(self.requests.split("|")), arguments)

    def ask_vaguely(self, arguments: Mapping[str, Any], rng: random.Random) -> str:
        """Return a request that leaves a parameter out."""
        return self._fill(rng.choice(self.vague[1].split("|")), arguments)

    def slot(self, name: str) -> Slot:
        """Return a parameter by name."""
        return next(slot for slot in self.slots if slot.name == name)

    def _fill(self, wording: str, arguments: Mapping[str, Any]) -> str:
        words = {slot.name: slot.say(arguments[slot.name]) for slot in self.slots}
        return wording.format(**words)


UNITS = {"units": ({"type": "string", "enum": ["metric", "imperial"]}, "metric")}
NOTIFY = {"notify": ({"type": "boolean", "description": "Send a notice."}, False)}
ROOMS = ("kitchen", "bedroom", "office", "hall")

ABILITIES: tuple[Ability, ...] = (
    Ability("set_timer", "Start a kitchen timer.", (whole("minutes", 1, 90, "Until it rings.", "long"),),
        "Set a timer for {minutes} minutes.|I need a timer that rings in {minutes} minutes.|"
        "Start a {minutes} minute timer.",
        ("minutes", "Set a timer for me.|Could you start a timer?"), "clock"),
    Ability("get_weather", "Weather forecast of a city for a day.",
        (text("city", "city", "Name of the city.", "where", "place"), date("date", "The day.")),
        "What will the weather be in {city} on {date}?|I need the forecast for {city}, {date}.|"
        "Will it rain in {city} on {date}?",
        ("city", "What will the weather be on {date}?|I need the forecast for {date}."),
        "weather", optional=UNITS),
    Ability("send_text", "Send a text message to a contact.",
        (text("to", "person", "Full name of the contact.", "who", "whom", "contact", "name"),
         text("message", "message", "What to say.", "say", "text", "content")),
        "Text {to}: {message}|Send a text message to {to} that says: {message}|"
        "Write {to} a text with these words: {message}",
        ("to", "Send a text that says: {message}|Text someone for me: {message}"), "messages"),
    Ability("add_to_list", "Put an item on the shopping list.",
        (text("item", "thing", "What to buy.", "what", "buy"),
         whole("quantity", 1, 20, "How many.", "many", "much")),
        "Put {quantity} {item} on the shopping list.|We need {item}, {quantity} of them. Note it on "
        "the shopping list.|Add {item} to my shopping list, quantity {quantity}.",
        ("quantity", "Put {item} on the shopping list. I'll tell you how many if you ask."),
        "shopping"),
    Ability("play_album", "Play a music album.",
        (text("album", "title", "Title of the album.", "title", "music", "which"),
         choice("room", ROOMS, "Where to play it.", "where", "speaker")),
        "Play the album {album} in the {room}.|I want to hear {album} in the {room}.|"
        "Put on {album}, {room} speaker.",
        ("room", "Play the album {album}.|I want to hear {album}."), "music"),
    Ability("set_heating", "Set the temperature of a room, in degrees Celsius.",
        (choice("room", ROOMS, "Which room.", "where"),
         decimal("degrees", 14, 25, "Temperature wanted.", "temperature", "warm")),
        "Heat the {room} to {degrees} degrees.|Set the {room} to {degrees} °C.|"
        "I want {degrees} degrees in the {room}.",
        ("degrees", "Change the heating in the {room}.|Set the heating of the {room}."), "home"),
    Ability("convert_money", "Convert an amount between currencies.",
        (decimal("amount", 5, 900, "How much.", "much"),
         choice("from_currency", ("EUR", "USD", "GBP"), "ISO code.", "currency"),
         choice("to_currency", ("JPY", "SEK", "CHF", "INR"), "ISO code.", "currency")),
        "How much is {amount} {from_currency} in {to_currency}?|Convert {amount} {from_currency} to "
        "{to_currency}.|What do I get in {to_currency} for {amount} {from_currency}?",
        ("to_currency", "Convert {amount} {from_currency} for me.|Exchange {amount} "
         "{from_currency}, please."), "money"),
    Ability("create_reminder", "Remind the user of something.",
        (text("topic", "topic", "Of what.", "what", "about"), date("date", "The day."),
         clock("time", "Time of day.")),
        "Remind me of the {topic} on {date} at {time}.|On {date} at {time} I want to be reminded of "
        "the {topic}.|Set a reminder for {date}, {time}: {topic}.",
        ("time", "Remind me of the {topic} on {date}.|Set a reminder for {date}: {topic}."),
        "calendar", optional=NOTIFY),
    Ability("translate_word", "Translate a word or phrase.",
        (text("phrase", "thing", "What to translate.", "word", "what"),
         choice("language", ("French", "Polish", "Korean", "Swahili"), "Into which language.")),
        "What is \"{phrase}\" in {language}?|Translate \"{phrase}\" into {language}.|"
        "How does one say \"{phrase}\" in {language}?",
        ("language", "Translate \"{phrase}\" for me.|I need a translation of \"{phrase}\"."),
        "language"),
    Ability("order_taxi", "Order a taxi.",
        (text("street", "street", "Where to be picked up.", "where", "address", "pick"),
         clock("time", "When."), whole("passengers", 1, 6, "How many people.", "many", "people")),
        "Order a taxi to {street} at {time} for {passengers} people.|I need a taxi at {time}, "
        "{street}, {passengers} passengers.|Taxi for {passengers} from {street} at {time}, please.",
        ("street", "Order a taxi at {time} for {passengers} people."), "travel"),
    Ability("log_run", "Record a run in the training log.",
        (decimal("kilometres", 2, 42, "Length.", "far", "km", "distance", "long"),
         date("date", "The day.")),
        "I ran {kilometres} km on {date}, write it down.|Log a run of {kilometres} km on {date}.|"
        "Training log, {date}: {kilometres} km of running.",
        ("kilometres", "I went running on {date}, write it down."), "sport"),
    Ability("find_recipe", "Find recipes with an ingredient.",
        (text("ingredient", "thing", "Main ingredient.", "what"),
         whole("max_minutes", 10, 90, "Longest time to cook.", "time", "long")),
        "What can I cook with {ingredient} in at most {max_minutes} minutes?|Find a recipe with "
        "{ingredient} that takes {max_minutes} minutes at most.|I have {ingredient} and "
        "{max_minutes} minutes. What can I make?",
        ("max_minutes", "What can I cook with {ingredient}? I do not have all day, ask me how long."),
        "cooking"),
    Ability("water_plants", "Switch the garden irrigation on.",
        (choice("zone", ("roses", "lawn", "herbs", "greenhouse"), "Which part.", "where", "part"),
         whole("litres", 5, 60, "How much water.", "much", "water")),
        "Give the {zone} {litres} litres of water.|Water the {zone} with {litres} litres.|"
        "Irrigation: {litres} litres for the {zone}.",
        ("litres", "Water the {zone}.|Switch the irrigation of the {zone} on."), "garden"),
    Ability("lock_door", "Lock or unlock a door.",
        (choice("door", ("front", "back", "garage", "cellar"), "Which door.", "which"),
         choice("state", ("locked", "unlocked"), "What it should be.")),
        "The {door} door should be {state}.|Make sure that the {door} door is {state}.|"
        "I want the {door} door {state}.", topic="doors"),
    Ability("get_time_in", "Local time in a city.", (text("city", "city", "Name.", "where", "place"),),
        "What time is it in {city}?|Tell me the local time in {city}.|How late is it in {city} now?",
        ("city", "What time is it over there, where my sister lives?"), "clock"),
    Ability("book_table", "Reserve a table in a restaurant.",
        (text("restaurant", "title", "Its name.", "where", "place"), date("date", "The day."),
         clock("time", "When."), whole("guests", 2, 12, "How many.", "many", "people")),
        "Book a table for {guests} at {restaurant} on {date} at {time}.|We are {guests} and want to "
        "eat at {restaurant}, {date}, {time}.|Reserve at {restaurant}: {date}, {time}, {guests} "
        "guests.",
        ("guests", "Book a table at {restaurant} on {date} at {time}."), "restaurants"),
    Ability("create_invoice", "Write an invoice.",
        (text("customer", "person", "Full name.", "who"), address("address"), basket("lines")),
        "Invoice for {customer}, {address}: {lines}.|Please bill {customer} at {address} for {lines}.",
        kind="nested", topic="invoices"),
    Ability("schedule_meeting", "Put a meeting into the calendar.",
        (text("title", "topic", "Title."), attendees("attendees"), clock("start", "Start.")),
        "Meeting called \"{title}\" at {start} with {attendees}.|At {start} I want to meet "
        "{attendees}; call it \"{title}\".",
        kind="nested", topic="meetings"),
    Ability("search_flats", "Search flats for rent.",
        (text("city", "city", "Where."), filters("filters")),
        "I am looking for a flat in {city}: {filters}.|Flats in {city}, please: {filters}.",
        kind="nested", topic="flats"),
    Ability("save_note", "Save a note word by word.",
        (text("text", "unicode", "The note, exactly."),),
        "Save this note exactly: {text}|Note, letter by letter: {text}",
        kind="values", topic="notes"),
    Ability("factor_number", "Factor a whole number into primes.",
        (huge("number", "The number, all digits."),),
        "What are the prime factors of {number}?|Factor {number}, please.",
        kind="values", topic="maths"),
    Ability("register_serial", "Register the serial number of a device.",
        (huge("serial", "All digits."), text("owner", "unicode", "Name tag, exactly.")),
        "Register serial number {serial} with this name tag: {owner}|Name tag {owner} belongs to "
        "serial number {serial}; register it.",
        kind="values", topic="devices"),
    # ------------------------------------------------------------- held out
    Ability("start_wash", "Start the washing machine.",
        (choice("programme", ("cotton", "wool", "quick", "eco"), "Which one.", "program"),
         whole("temperature", 20, 90, "Degrees Celsius.", "degrees", "hot", "warm")),
        "Wash with the {programme} programme at {temperature} degrees.|Start the machine: "
        "{programme}, {temperature} degrees.|I need a {programme} wash at {temperature} °C.",
        ("temperature", "Wash with the {programme} programme.|Start a {programme} wash."), "laundry", held=True),
    Ability("get_tide", "Times of high and low tide at a port.",
        (text("port", "city", "Name.", "where", "place"), date("date", "The day.")),
        "When is high tide in {port} on {date}?|Tides for {port}, {date}, please.|"
        "I go sailing from {port} on {date}; when is low tide?",
        ("port", "When is high tide on {date}?|Tides for {date}, please."), "sea", held=True),
    Ability("renew_loan", "Renew the loan of a library book.",
        (text("book", "title", "Its title.", "title", "which"),
         whole("weeks", 1, 6, "For how long.", "long")),
        "Renew {book} for {weeks} weeks.|I want to keep the library book {book} {weeks} more weeks.|"
        "Please extend the loan of {book} by {weeks} weeks.",
        ("weeks", "Renew {book}, please.|Extend the loan of {book}."), "library", held=True),
    Ability("charge_car", "Charge the electric car up to a level.",
        (whole("percent", 30, 100, "Level wanted.", "level", "full", "much"),
         clock("ready_by", "When it must be ready.")),
        "Charge the car to {percent} percent by {ready_by}.|The car must be at {percent} % at "
        "{ready_by}.|I leave at {ready_by} and need {percent} percent in the car.",
        ("percent", "Charge the car, I leave at {ready_by}."), "car", held=True),
    Ability("feed_pet", "Let the feeder give a portion to a pet.",
        (choice("pet", ("cat", "dog", "rabbit"), "Which one."),
         whole("grams", 10, 200, "Size of the portion.", "much", "gram")),
        "Give the {pet} {grams} grams of food.|Feed the {pet}, {grams} g.|"
        "The {pet} gets {grams} grams now.",
        ("grams", "Feed the {pet}.|The {pet} is hungry, feed it."), "pets", held=True),
    Ability("report_hours", "Report working hours on a project.",
        (text("project", "topic", "Its name.", "which", "what"),
         decimal("hours", 1, 10, "How many.", "many", "long"), date("date", "The day.")),
        "I worked {hours} hours on the {project} on {date}.|Report {hours} hours for {project}, "
        "{date}.|Time sheet {date}: {project}, {hours} hours.",
        ("hours", "I worked on the {project} on {date}, report my hours."), "work", held=True),
    Ability("plan_party", "Reserve a hall for a party.",
        (date("date", "The day."), party("party")),
        "Reserve the hall on {date}: {party}.|We celebrate on {date}: {party}.",
        kind="nested", topic="halls", held=True),
    Ability("ship_parcel", "Order the pick-up of a parcel.",
        (text("recipient", "person", "Full name."), address("destination"),
         whole("grams", 100, 9000, "Weight.")),
        "Send a parcel of {grams} grams to {recipient}, {destination}.|Parcel for {recipient} at "
        "{destination}, it weighs {grams} grams.",
        kind="nested", topic="parcels", held=True),
    Ability("print_label", "Print a label word by word.",
        (text("label", "unicode", "The text, exactly."), whole("copies", 1, 30, "How many.")),
        "Print {copies} labels with exactly this text: {label}|{copies} copies of this label: {label}",
        kind="values", topic="labels", held=True),
    Ability("transfer_points", "Transfer loyalty points to an account.",
        (huge("account", "All digits."), whole("points", 10, 5000, "How many.")),
        "Transfer {points} points to account {account}.|Account {account} gets {points} points.",
        kind="values", topic="points", held=True),
)  # fmt: skip


def of(*kinds: str, held: bool) -> list[Ability]:
    """Return abilities of some kinds and one side."""
    return [each for each in ABILITIES if each.kind in kinds and each.held == held]


def distractors(
    taken: Sequence[Ability], count: int, held: bool, rng: random.Random
) -> list[Ability]:
    """Draw abilities of other topics than those taken, from the same side."""
    topics = {each.topic for each in taken}
    others = [each for each in ABILITIES if each.held == held and each.topic not in topics]
    return rng.sample(others, min(count, len(others)))
