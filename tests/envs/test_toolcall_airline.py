"""The airline: equal seeds, rules noted when broken, refusals that change nothing."""

import copy
import inspect
from typing import Any

import pytest

from envs.toolcall.world import ToolError
from envs.toolcall.worlds.airline.records import TODAY, draw_airline
from envs.toolcall.worlds.airline.schemas import TOOLS
from envs.toolcall.worlds.airline.tasks import airline_tasks, may_cancel
from envs.toolcall.worlds.airline.world import AirlineWorld


def world(known: bool = True) -> AirlineWorld:
    made = AirlineWorld(draw_airline(1, held=False))
    for traveller in made.airline.travellers.values() if known else ():
        made.call("find_traveller", {"email": traveller.email})
    return made


def test_equal_seeds_draw_equal_airlines_and_sides_share_no_one() -> None:
    assert draw_airline(3, False) == draw_airline(3, False) != draw_airline(4, False)
    people = [{t.name for t in draw_airline(3, held).travellers.values()} for held in (False, True)]
    assert not people[0] & people[1]


def test_every_tool_is_a_method_with_its_schemas_parameters() -> None:
    assert 15 <= len(TOOLS) <= 40
    for name, tool in TOOLS.items():
        parameters = set(inspect.signature(getattr(AirlineWorld, f"_{name}")).parameters)
        assert parameters - {"self"} == set(tool.parameters["properties"]), name


def test_nothing_is_changed_for_someone_unknown() -> None:
    made = world(known=False)
    made.call("insure_booking", {"booking_id": "B-4001"})
    assert made.violations == ["identify_first"]


def test_rules_are_noted_when_broken() -> None:
    made = world()
    airline = made.airline
    old = next(
        b for b in airline.bookings.values() if not may_cancel(b, airline.flights[b.flight_id])
    )
    made.call("cancel_booking", {"booking_id": old.id})
    rest = [booking for booking in airline.bookings.values() if booking.status == "booked"]
    elsewhere = next(
        flight for flight in airline.flights.values()
        if flight.origin != airline.flights[rest[0].flight_id].origin and flight.date > TODAY
        and flight.status != "cancelled" and flight.seats[rest[0].cabin] >= len(rest[0].passengers)
    )  # fmt: skip
    made.call("move_booking", {"booking_id": rest[0].id, "flight_id": elsewhere.id})
    made.call("set_bags", {"booking_id": rest[1].id, "bags": 60})
    made.call("drop_passenger", {"booking_id": rest[2].id, "name": rest[2].passengers[0]})
    made.call("give_voucher", {"booking_id": rest[3].id, "cents": 99999})
    assert {"may_cancel", "same_route", "bag_limit", "same_number_of_passengers",
            "voucher_amount"} <= set(made.violations)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("find_traveller", {"email": "nobody@mail.example"}, "nobody has"),
        ("get_booking", {"booking_id": "B-1"}, "no booking"),
        ("get_flight", {"flight_id": "F-1"}, "no flight"),
        ("rename_passenger", {"booking_id": "B-4001", "old": "X", "new": "Y"}, "nobody of that"),
        ("book_flight", {"traveller_id": "U-1", "flight_id": "F-101", "cabin": "business",
                         "passengers": ["a"] * 9, "bags": 0, "insured": False}, "seats left"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_changes_nothing(
    name: str, arguments: dict[str, Any], words: str
) -> None:
    made = world()
    before = copy.deepcopy(made.airline)
    with pytest.raises(ToolError, match=words):
        made.call(name, arguments)
    assert made.airline == before and not made.violations


def test_a_cancelled_booking_gives_its_seats_back_once() -> None:
    made = world()
    booking = next(iter(made.airline.bookings.values()))
    flight = made.airline.flights[booking.flight_id]
    seats = flight.seats[booking.cabin]
    made.call("cancel_booking", {"booking_id": booking.id})
    with pytest.raises(ToolError, match="is cancelled"):
        made.call("cancel_booking", {"booking_id": booking.id})
    assert flight.seats[booking.cabin] == seats + len(booking.passengers)


def test_there_are_tasks_enough_and_none_enters_the_easy_levels() -> None:
    """The recipe of tool calling plays trivial and easy tasks; new worlds leave it as it is."""
    tasks = airline_tasks()
    assert len(tasks) >= 60 and tasks == airline_tasks()
    assert not {"level:trivial", "level:easy"} & {tag for task in tasks for tag in task.tags}
