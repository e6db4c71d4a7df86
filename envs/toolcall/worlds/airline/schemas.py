# ruff: noqa: E501  (a policy in prose)
"""The airline's rules in prose, and its tools."""

from typing import Any

from envs.toolcall.tools import Tool, offered

POLICY = """You are a clerk of an airline. Today is 2026-05-04.
1. Find out who the user is by e-mail address first. Change only bookings of that traveller.
2. Cancel a booking only if it was made today or yesterday, is insured, is in business class, or if the airline cancelled its flight. Refuse others.
3. Move a booking only to a flight of the same route that is not cancelled, has a seat for everyone and leaves after today. Travellers of the basic tier cannot move economy bookings.
4. Free bags for each passenger: basic 1, silver 2, gold 3, and one more in business class. A bag beyond costs 30.00; say the sum before you add it. At most 5 bags for each passenger.
5. A passenger's name may be corrected, never the number of passengers.
6. A voucher is given only when asked for, once a booking: 50.00 for each passenger of a cancelled flight, 25.00 of a delayed one; not to the basic tier without insurance.
7. Upgrade economy to business if there are seats for everyone; say what it costs.
8. Ask for what you need to know. What you cannot do, say so."""
TEXT = {"type": "string", "minLength": 1, "maxLength": 100}
DATE = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$", "description": "YYYY-MM-DD."}
TRAVELLER = {"type": "string", "pattern": "^U-[0-9]{1,4}$", "description": "Such as U-1."}
FLIGHT = {"type": "string", "pattern": "^F-[0-9]{1,4}$", "description": "Such as F-101."}
BOOKING = {"type": "string", "pattern": "^B-[0-9]{1,5}$", "description": "Such as B-4001."}
CABIN = {"type": "string", "enum": ["economy", "business"]}
BAGS = {"type": "integer", "minimum": 0, "maximum": 60}
NAMES = {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 9}
CENTS = {"type": "integer", "minimum": 1, "maximum": 1000000}


def _tool(name: str, about: str, /, **fields: Any) -> Tool:
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return Tool(name, about, {**schema, "additionalProperties": False})


TOOLS = offered(
    (
        _tool("find_traveller", "A traveller by e-mail address.", email=TEXT),
        _tool("get_traveller", "A traveller.", traveller_id=TRAVELLER),
        _tool("list_bookings", "Bookings of a traveller.", traveller_id=TRAVELLER),
        _tool("get_booking", "A booking.", booking_id=BOOKING),
        _tool("list_cities", "Cities the airline flies to."),
        _tool("search_flights", "Flights of a route on all days.", origin=TEXT, destination=TEXT),
        _tool("get_flight", "A flight: time, status, seats, prices.", flight_id=FLIGHT),
        _tool("flights_on", "All flights of a day.", date=DATE),
        _tool("bag_price", "What bags of a booking cost, in cents.", booking_id=BOOKING, bags=BAGS),
        _tool("upgrade_price", "What an upgrade costs, in cents.", booking_id=BOOKING),
        _tool(
            "book_flight", "Book a flight.", traveller_id=TRAVELLER, flight_id=FLIGHT, cabin=CABIN,
            passengers=NAMES, bags=BAGS, insured={"type": "boolean"},
        ),
        _tool("cancel_booking", "Cancel a booking and pay it back.", booking_id=BOOKING),
        _tool("move_booking", "Move a booking to another flight.", booking_id=BOOKING, flight_id=FLIGHT),
        _tool("set_bags", "Set the number of bags of a booking.", booking_id=BOOKING, bags=BAGS),
        _tool("rename_passenger", "Correct a passenger's name.", booking_id=BOOKING, old=TEXT, new=TEXT),
        _tool("drop_passenger", "Take a passenger off a booking.", booking_id=BOOKING, name=TEXT),
        _tool("upgrade_booking", "Upgrade a booking to business.", booking_id=BOOKING),
        _tool("insure_booking", "Insure a booking.", booking_id=BOOKING),
        _tool("give_voucher", "Give a voucher for a booking.", booking_id=BOOKING, cents=CENTS),
        _tool("send_itinerary", "Mail the itinerary of a booking.", booking_id=BOOKING),
    )
)  # fmt: skip
