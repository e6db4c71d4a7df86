"""The airline in a conversation: each tool a method, each broken rule noted."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from envs.toolcall.tools import Tool
from envs.toolcall.values import plain
from envs.toolcall.world import ToolError
from envs.toolcall.worlds.airline.records import (
    TODAY,
    YESTERDAY,
    Airline,
    Booking,
    Flight,
    Traveller,
    draw_airline,
)
from envs.toolcall.worlds.airline.schemas import POLICY, TOOLS
from envs.toolcall.worlds.methods import MethodWorld, found

FREE_BAGS = {"basic": 1, "silver": 2, "gold": 3}
BAG_CENTS, MOST_BAGS = 3000, 5
VOUCHER_CENTS = {"cancelled": 5000, "delayed": 2500}


class AirlineWorld(MethodWorld):
    """See the module and ``envs.toolcall.world.World``."""

    policy = POLICY
    tools: Mapping[str, Tool] = TOOLS

    def __init__(self, airline: Airline) -> None:
        self.airline = airline
        super().__init__()
        self._known: set[str] = set()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "AirlineWorld":
        """Build it from a task's data. Raises ``KeyError``, ``ValueError``."""
        return cls(draw_airline(int(data["seed"]), bool(data["held"])))

    def state(self) -> Mapping[str, object]:
        """Return every record by id."""
        airline = self.airline
        return {**airline.travellers, **airline.flights, **airline.bookings,
                "sent": sorted(airline.sent)}  # fmt: skip

    # ------------------------------------------------------------- looking up

    def _find_traveller(self, email: str) -> Any:
        for traveller in self.airline.travellers.values():
            if plain(traveller.email) == plain(email):
                self._known.add(traveller.id)
                return asdict(traveller)
        raise ToolError("nobody has that address")

    def _get_traveller(self, traveller_id: str) -> Any:
        return asdict(self._traveller(traveller_id))

    def _list_bookings(self, traveller_id: str) -> Any:
        self._traveller(traveller_id)
        rows = self.airline.bookings.values()
        return [asdict(booking) for booking in rows if booking.traveller_id == traveller_id]

    def _get_booking(self, booking_id: str) -> Any:
        return asdict(self._booking(booking_id))

    def _list_cities(self) -> Any:
        flights = self.airline.flights.values()
        return sorted({city for flight in flights for city in (flight.origin, flight.destination)})

    def _search_flights(self, origin: str, destination: str) -> Any:
        route = (plain(origin), plain(destination))
        return [
            asdict(flight)
            for flight in self.airline.flights.values()
            if (plain(flight.origin), plain(flight.destination)) == route
        ]

    def _get_flight(self, flight_id: str) -> Any:
        return asdict(self._flight(flight_id))

    def _flights_on(self, date: str) -> Any:
        return [asdict(flight) for flight in self.airline.flights.values() if flight.date == date]

    def _bag_price(self, booking_id: str, bags: int) -> Any:
        booking = self._booking(booking_id)
        return {"cents": BAG_CENTS * max(0, self._paid_bags(booking, bags))}

    def _upgrade_price(self, booking_id: str) -> Any:
        return {"cents": self._difference(self._booking(booking_id))}

    # ------------------------------------------------------------- changing

    def _book_flight(
        self, traveller_id: str, flight_id: str, cabin: str, passengers: list[str], bags: int,
        insured: bool,
    ) -> Any:  # fmt: skip
        traveller, flight = self._traveller(traveller_id), self._flight(flight_id)
        self._take_seats(flight, cabin, len(passengers))
        self._rule(traveller.id in self._known, "identify_first")
        self._rule(flight.status != "cancelled" and flight.date > TODAY, "bookable_flight")
        key = f"B-{1 + max(int(each[2:]) for each in self.airline.bookings)}"
        booking = Booking(
            key, traveller_id, flight_id, cabin, sorted(map(plain, passengers)), bags, insured,
            TODAY, flight.price_cents[cabin] * len(passengers),
        )  # fmt: skip
        self._rule(bags <= MOST_BAGS * len(passengers), "bag_limit")
        self.airline.bookings[key] = booking
        return {"booking_id": key, "paid_cents": booking.paid_cents}

    def _cancel_booking(self, booking_id: str) -> Any:
        booking = self._own(booking_id)
        flight = self._flight(booking.flight_id)
        allowed = (
            booking.booked_on in (TODAY, YESTERDAY)
            or booking.insured
            or booking.cabin == "business"
            or flight.status == "cancelled"
        )
        self._rule(allowed, "may_cancel")
        booking.status = "cancelled"
        flight.seats[booking.cabin] += len(booking.passengers)
        return {"refund_cents": booking.paid_cents}

    def _move_booking(self, booking_id: str, flight_id: str) -> Any:
        booking, flight = self._own(booking_id), self._flight(flight_id)
        old = self._flight(booking.flight_id)
        if flight is old:
            raise ToolError("it is on that flight already")
        self._take_seats(flight, booking.cabin, len(booking.passengers))
        same_route = (old.origin, old.destination) == (flight.origin, flight.destination)
        self._rule(same_route, "same_route")
        self._rule(flight.status != "cancelled" and flight.date > TODAY, "bookable_flight")
        tier = self._traveller(booking.traveller_id).tier
        self._rule(tier != "basic" or booking.cabin != "economy", "may_move")
        old.seats[booking.cabin] += len(booking.passengers)
        booking.flight_id = flight.id
        return {"status": "moved"}

    def _set_bags(self, booking_id: str, bags: int) -> Any:
        booking = self._own(booking_id)
        self._rule(bags <= MOST_BAGS * len(booking.passengers), "bag_limit")
        more = self._paid_bags(booking, bags) - max(0, self._paid_bags(booking, booking.bags))
        booking.paid_cents += BAG_CENTS * max(0, more)
        booking.bags = bags
        return {"bags": bags, "paid_cents": booking.paid_cents}

    def _rename_passenger(self, booking_id: str, old: str, new: str) -> Any:
        booking = self._own(booking_id)
        place = self._passenger(booking, old)
        booking.passengers[place] = plain(new)
        return {"passengers": booking.passengers}

    def _drop_passenger(self, booking_id: str, name: str) -> Any:
        booking = self._own(booking_id)
        place = self._passenger(booking, name)
        self._rule(False, "same_number_of_passengers")
        del booking.passengers[place]
        return {"passengers": booking.passengers}

    def _upgrade_booking(self, booking_id: str) -> Any:
        booking = self._own(booking_id)
        cents, flight = self._difference(booking), self._flight(booking.flight_id)
        self._take_seats(flight, "business", len(booking.passengers))
        flight.seats["economy"] += len(booking.passengers)
        booking.cabin = "business"
        booking.paid_cents += cents
        return {"paid_cents": booking.paid_cents}

    def _insure_booking(self, booking_id: str) -> Any:
        self._own(booking_id).insured = True
        return {"status": "insured"}

    def _give_voucher(self, booking_id: str, cents: int) -> Any:
        booking = self._own(booking_id)
        traveller = self._traveller(booking.traveller_id)
        status = self._flight(booking.flight_id).status
        due = VOUCHER_CENTS.get(status, 0) * len(booking.passengers)
        self._rule(cents == due and not booking.compensated, "voucher_amount")
        self._rule(traveller.tier != "basic" or booking.insured, "voucher_tier")
        booking.compensated = True
        traveller.credit_cents += cents
        return {"credit_cents": traveller.credit_cents}

    def _send_itinerary(self, booking_id: str) -> Any:
        self.airline.sent.append(self._own(booking_id).id)
        return {"status": "sent"}

    # ------------------------------------------------------------- inside

    def _traveller(self, key: str) -> Traveller:
        return found(self.airline.travellers, key, "traveller")

    def _flight(self, key: str) -> Flight:
        return found(self.airline.flights, key, "flight")

    def _booking(self, key: str) -> Booking:
        return found(self.airline.bookings, key, "booking")

    def _own(self, key: str) -> Booking:
        """Return a booking to be changed, of a traveller who was found by e-mail."""
        booking = self._booking(key)
        if booking.status == "cancelled":
            raise ToolError(f"{key} is cancelled")
        self._rule(booking.traveller_id in self._known, "identify_first")
        return booking

    def _passenger(self, booking: Booking, name: str) -> int:
        for place, known in enumerate(booking.passengers):
            if plain(known) == plain(name):
                return place
        raise ToolError(f"nobody of that name is on {booking.id}")

    def _paid_bags(self, booking: Booking, bags: int) -> int:
        tier = self._traveller(booking.traveller_id).tier
        free = FREE_BAGS[tier] + (booking.cabin == "business")
        return bags - free * len(booking.passengers)

    def _difference(self, booking: Booking) -> int:
        if booking.cabin == "business":
            raise ToolError(f"{booking.id} is in business class")
        prices = self._flight(booking.flight_id).price_cents
        return (prices["business"] - prices["economy"]) * len(booking.passengers)

    def _take_seats(self, flight: Flight, cabin: str, count: int) -> None:
        if flight.seats[cabin] < count:
            raise ToolError(f"{flight.id} has {flight.seats[cabin]} seats left in {cabin}")
        flight.seats[cabin] -= count
