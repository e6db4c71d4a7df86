"""The airline's database: travellers, flights, bookings; drawn from a seed."""

import random
from dataclasses import dataclass, field

from envs.toolcall.bank.slots import VOCABULARY, is_held

TODAY, YESTERDAY = "2026-05-04", "2026-05-03"
DAYS = ("2026-05-04", "2026-05-06", "2026-05-07", "2026-05-09", "2026-05-12")
CABINS = ("economy", "business")
TIERS = ("basic", "silver", "gold")
NUM_TRAVELLERS, NUM_ROUTES = 6, 5


@dataclass
class Traveller:
    """Who flies; ``credit_cents`` are vouchers."""

    id: str
    name: str
    email: str
    tier: str
    credit_cents: int = 0


@dataclass
class Flight:
    """A flight; ``seats`` are those left by cabin."""

    id: str
    origin: str
    destination: str
    date: str
    departs: str
    status: str
    seats: dict[str, int]
    price_cents: dict[str, int]


@dataclass
class Booking:
    """Passengers on a flight."""

    id: str
    traveller_id: str
    flight_id: str
    cabin: str
    passengers: list[str]
    bags: int
    insured: bool
    booked_on: str
    paid_cents: int
    status: str = "booked"
    compensated: bool = False


@dataclass
class Airline:
    """Everything; ``sent`` are ids of bookings whose itinerary was mailed."""

    travellers: dict[str, Traveller]
    flights: dict[str, Flight]
    bookings: dict[str, Booking]
    sent: list[str] = field(default_factory=list)


def draw_airline(seed: int, held: bool) -> Airline:
    """Return the airline of a seed; equal seeds, equal airlines."""
    rng = random.Random(f"airline/{seed}/{held}")
    names = [name for name in VOCABULARY["person"] if is_held("person", name) == held]
    cities = [city for city in VOCABULARY["city"] if is_held("city", city) == held]
    airline = Airline({}, {}, {})
    for number, name in enumerate(rng.sample(names, NUM_TRAVELLERS), 1):
        email = f"{name.split()[0].lower()}{rng.randint(10, 99)}@mail.example"
        key = f"U-{number}"
        airline.travellers[key] = Traveller(key, name, email, rng.choice(TIERS))
    for _ in range(NUM_ROUTES):
        origin, destination = rng.sample(cities, 2)
        for day in rng.sample(DAYS, 4):
            key = f"F-{101 + len(airline.flights)}"
            base = rng.randrange(6000, 30000, 500)
            departs = f"{rng.randint(6, 21):02}:{rng.choice((5, 20, 45)):02}"
            airline.flights[key] = Flight(
                key, origin, destination, day, departs,
                rng.choice(("on time", "on time", "on time", "delayed", "cancelled")),
                {"economy": rng.randint(0, 9), "business": rng.randint(0, 4)},
                {"economy": base, "business": base * 3},
            )  # fmt: skip
    for traveller in airline.travellers.values():
        for _ in range(rng.randint(2, 3)):
            flight = rng.choice(list(airline.flights.values()))
            cabin = rng.choice(("economy", "economy", "business"))
            others = rng.sample(names, rng.randint(0, 2))
            passengers = list(dict.fromkeys([traveller.name, *others]))
            key = f"B-{4001 + len(airline.bookings)}"
            airline.bookings[key] = Booking(
                key, traveller.id, flight.id, cabin, passengers, rng.randint(0, 2),
                rng.random() < 0.4, rng.choice((TODAY, YESTERDAY, "2026-04-12", "2026-04-20")),
                flight.price_cents[cabin] * len(passengers),
            )  # fmt: skip
    return airline
