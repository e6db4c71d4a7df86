# ruff: noqa: E501  (tables of sentences)
"""The airline's tasks: what travellers want, and how a clerk does it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envs.toolcall.action import Action, call
from envs.toolcall.grading import REFUSALS
from envs.toolcall.users import Fact
from envs.toolcall.worlds.airline.records import (
    TODAY,
    YESTERDAY,
    Airline,
    Booking,
    Flight,
    Traveller,
    draw_airline,
)
from envs.toolcall.worlds.airline.world import (
    BAG_CENTS,
    FREE_BAGS,
    MOST_BAGS,
    VOUCHER_CENTS,
    AirlineWorld,
)
from envs.toolcall.worlds.errands import Errand, Plot, tasks_of
from envs.types import Task

SEED = 610_000


@dataclass(frozen=True)
class Scene:
    """An airline, who asks, and chance."""

    airline: Airline
    traveller: Traveller
    rng: random.Random

    def booking(self, fits: Callable[[Booking, Flight], bool]) -> Booking | None:
        """Draw a booking of the traveller's."""
        flights = self.airline.flights
        mine = [
            each
            for each in self.airline.bookings.values()
            if each.traveller_id == self.traveller.id and fits(each, flights[each.flight_id])
        ]
        return self.rng.choice(mine) if mine else None

    def flight(self, booking: Booking) -> Flight:
        """Return a booking's flight."""
        return self.airline.flights[booking.flight_id]

    def errand(
        self, wordings: Sequence[str], deeds: Sequence[Action], close: str, *told: tuple[str, ...],
        pushes: bool = False, **values: object,
    ) -> Errand:  # fmt: skip
        """Put it together; the traveller gives the address at once or when asked."""
        wish, email = self.rng.choice(wordings).format(**values), self.traveller.email
        facts = (
            Fact(("email", "e-mail", "mail address", "who you are", "identify"), f"It is {email}."),
            Fact(("name", "who am i"), f"I am {self.traveller.name}."),
        )
        if self.rng.random() < 0.6:
            wish = (
                self.rng.choice(
                    ("I am {n}, {e}. ", "My address is {e}. ", "This is {n} ({e}). ")
                ).format(n=self.traveller.name, e=email)
                + wish
            )
            asked: tuple[Action, ...] = ()
        else:
            asked = (Action("What is your e-mail address?"),)
        deeds = (*asked, call("find_traveller", email=email), *deeds)
        named = (f"traveller={self.traveller.name}",)
        return Errand(wish, tuple(deeds), close, told, facts, pushes, named)

    def refused(self, wordings: Sequence[str], look: Action, why: str, **values: object) -> Errand:
        """A wish that the rules do not allow, asked twice."""
        close = f"{why}, so that cannot be done."
        return self.errand(wordings, (look,), close, REFUSALS, pushes=True, **values)


def money(cents: int) -> tuple[str, ...]:
    """Return ways to say an amount."""
    return (f"{cents / 100:.2f}", f"{cents / 100:g}")


def may_cancel(booking: Booking, flight: Flight) -> bool:
    return (
        booking.booked_on in (TODAY, YESTERDAY)
        or booking.insured
        or booking.cabin == "business"
        or flight.status == "cancelled"
    )


def departure(scene: Scene) -> Errand | None:
    booking = scene.booking(lambda booking, flight: True)
    if booking is None:
        return None
    flight = scene.flight(booking)
    return scene.errand(
        ("When does the flight of my booking {b} leave?", "At what time do I fly with {b}?", "{b}: at what time is departure?"),
        (call("get_booking", booking_id=booking.id), call("get_flight", flight_id=flight.id)),
        f"Flight {flight.id} leaves on {flight.date} at {flight.departs}.", (flight.departs,), b=booking.id,
    )  # fmt: skip


def cancel(scene: Scene) -> Errand | None:
    booking = scene.booking(may_cancel)
    if booking is None:
        return None
    amount = money(booking.paid_cents)
    return scene.errand(
        ("Cancel my booking {b}. What do I get back?", "I cannot fly; cancel {b} and tell me the refund.", "Please cancel {b}. How much is paid back?"),
        (call("get_booking", booking_id=booking.id), call("cancel_booking", booking_id=booking.id)),
        f"It is cancelled and {amount[0]} is paid back.", amount, b=booking.id,
    )  # fmt: skip


def cancel_refused(scene: Scene) -> Errand | None:
    booking = scene.booking(lambda booking, flight: not may_cancel(booking, flight))
    if booking is None:
        return None
    return scene.refused(
        ("Cancel my booking {b}.", "I do not want {b} any more, cancel it.", "Please cancel {b} and pay me back."),
        call("get_booking", booking_id=booking.id), "It is too old and not insured", b=booking.id,
    )  # fmt: skip


def move(scene: Scene) -> Errand | None:
    fits = scene.traveller.tier != "basic"
    booking = scene.booking(lambda booking, flight: fits or booking.cabin == "business")
    if booking is None:
        return None
    old = scene.flight(booking)
    others = [
        each for each in scene.airline.flights.values()
        if (each.origin, each.destination) == (old.origin, old.destination) and each is not old
        and each.date > TODAY and each.status != "cancelled" and each.date != old.date
        and each.seats[booking.cabin] >= len(booking.passengers)
    ]  # fmt: skip
    days = [each.date for each in others]
    others = [each for each in others if days.count(each.date) == 1]
    if not others:
        return None
    new = scene.rng.choice(others)
    return scene.errand(
        ("Move my booking {b} to the flight on {d}.", "I would rather fly on {d}; change {b}.", "Can {b} be on {d} instead?"),
        (call("get_booking", booking_id=booking.id), call("get_flight", flight_id=old.id),
         call("search_flights", origin=old.origin, destination=old.destination),
         call("move_booking", booking_id=booking.id, flight_id=new.id)),
        f"You fly with {new.id} on {new.date}.", b=booking.id, d=new.date,
    )  # fmt: skip


def move_refused(scene: Scene) -> Errand | None:
    booking = scene.booking(lambda booking, flight: booking.cabin == "economy")
    if booking is None or scene.traveller.tier != "basic":
        return None
    return scene.refused(
        ("Put {b} on another day, any will do.", "Move my booking {b} to a later flight.", "I need another date for {b}."),
        call("get_booking", booking_id=booking.id), "Your tier does not allow it in economy", b=booking.id,
    )  # fmt: skip


def bags(scene: Scene) -> Errand | None:
    booking = scene.booking(lambda booking, flight: True)
    if booking is None:
        return None
    free = (FREE_BAGS[scene.traveller.tier] + (booking.cabin == "business")) * len(
        booking.passengers
    )
    wanted = scene.rng.randint(booking.bags + 1, MOST_BAGS * len(booking.passengers))
    cents = BAG_CENTS * max(0, wanted - free)
    if booking.bags > free:
        return None
    amount = money(cents) if cents else ("free", "no charge", "0.00", "nothing")
    return scene.errand(
        ("I want {w} bags in all on {b}. What does it cost?", "Set {b} to {w} bags and tell me the price.", "{w} bags for booking {b}, please. How much is it?"),
        (call("get_booking", booking_id=booking.id), call("bag_price", booking_id=booking.id, bags=wanted),
         call("set_bags", booking_id=booking.id, bags=wanted)),
        f"You have {wanted} bags; the cost is {amount[0]}.", amount, b=booking.id, w=wanted,
    )  # fmt: skip


def rename(scene: Scene) -> Errand | None:
    booking = scene.booking(lambda booking, flight: True)
    if booking is None:
        return None
    old = scene.rng.choice(booking.passengers)
    new = f"{old} {scene.rng.choice(('Lund', 'Sato', 'Mbeki', 'Rossi', 'Novak'))}"
    return scene.errand(
        ("On {b} the name {o} must be {n}.", "Correct {o} to {n} on booking {b}.", "{b}: {o} is really called {n}. Change it."),
        (call("get_booking", booking_id=booking.id), call("rename_passenger", booking_id=booking.id, old=old, new=new)),
        "The name is corrected.", b=booking.id, o=old, n=new,
    )  # fmt: skip


def book(scene: Scene) -> Errand | None:
    flights = [
        f for f in scene.airline.flights.values() if f.date > TODAY and f.status != "cancelled"
    ]
    routes = [(f.origin, f.destination, f.date) for f in flights]
    cabin = scene.rng.choice(("economy", "business"))
    open_flights = [
        f
        for f in flights
        if f.seats[cabin] and routes.count((f.origin, f.destination, f.date)) == 1
    ]
    if not open_flights:
        return None
    flight = scene.rng.choice(open_flights)
    amount = money(flight.price_cents[cabin])
    return scene.errand(
        ("Book me from {o} to {t} on {d} in {c}, no bags, no insurance. What does it cost?", "One seat in {c} from {o} to {t} on {d} for me, without bags or insurance. Tell me the price."),
        (call("search_flights", origin=flight.origin, destination=flight.destination),
         call("book_flight", traveller_id=scene.traveller.id, flight_id=flight.id, cabin=cabin,
              passengers=[scene.traveller.name], bags=0, insured=False)),
        f"It is booked for {amount[0]}.", amount, o=flight.origin, t=flight.destination, d=flight.date, c=cabin,
    )  # fmt: skip


def itinerary(scene: Scene) -> Errand | None:
    booking = scene.booking(lambda booking, flight: True)
    if booking is None:
        return None
    return scene.errand(
        ("Mail me the itinerary of {b}.", "I lost the itinerary of {b}, send it again.", "Please send the itinerary for booking {b}."),
        (call("send_itinerary", booking_id=booking.id),), "It is on its way.", b=booking.id,
    )  # fmt: skip


def upgrade(scene: Scene) -> Errand | None:
    booking = scene.booking(
        lambda b, flight: b.cabin == "economy" and flight.seats["business"] >= len(b.passengers)
    )
    if booking is None:
        return None
    prices = scene.flight(booking).price_cents
    amount = money((prices["business"] - prices["economy"]) * len(booking.passengers))
    return scene.errand(
        ("Upgrade {b} to business and tell me the cost.", "Business class for {b}, please. How much is it?"),
        (call("get_booking", booking_id=booking.id), call("upgrade_price", booking_id=booking.id),
         call("upgrade_booking", booking_id=booking.id)),
        f"It is upgraded for {amount[0]}.", amount, b=booking.id,
    )  # fmt: skip


def voucher(scene: Scene) -> Errand | None:
    fine = scene.traveller.tier != "basic"
    booking = scene.booking(
        lambda b, flight: flight.status in VOUCHER_CENTS and (fine or b.insured)
    )
    if booking is None:
        return None
    cents = VOUCHER_CENTS[scene.flight(booking).status] * len(booking.passengers)
    return scene.errand(
        ("My flight of {b} is not as planned. I want the voucher. How much is it?", "I ask for compensation for {b}. What do I get?"),
        (call("get_booking", booking_id=booking.id), call("get_flight", flight_id=booking.flight_id),
         call("give_voucher", booking_id=booking.id, cents=cents)),
        f"You have a voucher of {money(cents)[0]}.", money(cents), b=booking.id,
    )  # fmt: skip


def voucher_refused(scene: Scene) -> Errand | None:
    booking = scene.booking(lambda b, flight: flight.status == "on time")
    if booking is None:
        return None
    return scene.refused(
        ("I want a voucher for {b}, the service was bad.", "Give me compensation for booking {b}."),
        call("get_flight", flight_id=booking.flight_id), "The flight is on time", b=booking.id,
    )  # fmt: skip


def drop_refused(scene: Scene) -> Errand | None:
    booking = scene.booking(lambda b, flight: len(b.passengers) > 1)
    if booking is None:
        return None
    return scene.refused(
        ("{n} does not come along. Take {n} off {b}.", "Remove {n} from booking {b}."),
        call("get_booking", booking_id=booking.id), "The number of passengers stays", b=booking.id, n=booking.passengers[-1],
    )  # fmt: skip


PLOTS: Sequence[Plot[Scene]] = (
    Plot("departure", departure, "medium"), Plot("cancel", cancel, "medium"),
    Plot("cancel_refused", cancel_refused, "hard"), Plot("move", move, "hard"),
    Plot("move_refused", move_refused, "hard"), Plot("bags", bags, "hard"),
    Plot("rename", rename, "medium"), Plot("book", book, "medium"),
    Plot("itinerary", itinerary, "medium"),
    Plot("upgrade", upgrade, "medium", held=True), Plot("voucher", voucher, "hard", held=True),
    Plot("voucher_refused", voucher_refused, "hard", held=True),
    Plot("drop_refused", drop_refused, "hard", held=True),
)  # fmt: skip


def airline_tasks() -> list[Task]:
    """Return every task, the same each time."""
    return tasks_of("airline", PLOTS, _scene, _build, SEED)


def _scene(seed: int, held: bool, rng: random.Random) -> Scene:
    airline = draw_airline(seed, held)
    return Scene(airline, rng.choice(list(airline.travellers.values())), rng)


def _build(seed: int, held: bool) -> AirlineWorld:
    return AirlineWorld(draw_airline(seed, held))
