"""The shop's database: records, and a shop drawn from a seed.

Money is in cents. Names, streets and order numbers of held-out shops are in no training shop.
"""

import datetime
import random
from dataclasses import dataclass, field
from typing import Literal

from envs.toolcall.bank.slots import VOCABULARY, is_held

TODAY = datetime.date(2026, 3, 16)
Status = Literal["placed", "packed", "shipped", "delivered", "cancelled"]
STATUSES: tuple[Status, ...] = ("placed", "packed", "shipped", "shipped", "delivered", "delivered")
CATALOGUE = (  # name, category, price in cents, may be returned
    ("desk lamp", "lighting", 3490, True),
    ("floor lamp", "lighting", 7950, True),
    ("string lights", "lighting", 1580, True),
    ("wool blanket", "textiles", 5925, True),
    ("bath towel", "textiles", 1845, True),
    ("cushion", "textiles", 2260, True),
    ("teapot", "kitchen", 2715, True),
    ("cast iron pan", "kitchen", 4380, True),
    ("cutting board", "kitchen", 1990, True),
    ("herb seeds", "garden", 465, False),
    ("plant pot", "garden", 1235, True),
    ("scented candle", "gifts", 1375, False),
)
COLOURS = ("blue", "green", "white", "black", "yellow")
NUM_CUSTOMERS, ORDERS_EACH = 6, 4


@dataclass
class Customer:
    """Someone who buys. ``tier`` is ``standard`` or ``plus``."""

    id: str
    name: str
    email: str
    postcode: str
    tier: str
    credit_cents: int = 0
    newsletter: bool = False


@dataclass
class Product:
    """Something to buy, in one colour."""

    sku: str
    name: str
    colour: str
    category: str
    price_cents: int
    stock: int
    returnable: bool


@dataclass
class Line:
    """Part of an order."""

    sku: str
    quantity: int
    price_cents: int
    returned: int = 0


@dataclass
class Order:
    """An order; ``delivered_on`` is "" until it is delivered."""

    id: str
    customer_id: str
    status: Status
    placed_on: str
    due_on: str
    delivered_on: str
    street: str
    city: str
    postcode: str
    payment: str
    parcel_at: str
    lines: list[Line]
    refunds: list[tuple[str, int]] = field(default_factory=list)
    credited_cents: int = 0

    @property
    def total_cents(self) -> int:
        """Price of all that was ordered."""
        return sum(line.quantity * line.price_cents for line in self.lines)


@dataclass
class Shop:
    """Everything; tables by id."""

    customers: dict[str, Customer]
    products: dict[str, Product]
    orders: dict[str, Order]
    handed_over: list[str] = field(default_factory=list)


def draw_shop(seed: int, held: bool) -> Shop:
    """Return the shop of a seed; equal seeds, equal shops."""
    rng = random.Random(f"shop/{seed}/{held}")
    words = {
        kind: [word for word in VOCABULARY[kind] if is_held(kind, word) == held]
        for kind in ("person", "street", "city")
    }
    shop = Shop({}, _products(rng), {})
    for number, name in enumerate(rng.sample(words["person"], NUM_CUSTOMERS)):
        given, _, family = name.lower().partition(" ")
        email = f"{_ascii(given)}.{_ascii(family)}{rng.randint(10, 99)}@example.com"
        customer = Customer(
            id=f"C-{number + 1}",
            name=name,
            email=email,
            postcode=f"{rng.randint(10000, 99999)}",
            tier=rng.choice(("standard", "standard", "plus")),
            credit_cents=rng.choice((0, 0, 500, 1250)),
            newsletter=rng.random() < 0.5,
        )
        shop.customers[customer.id] = customer
        for status in rng.sample(STATUSES, ORDERS_EACH):
            order = _order(customer, status, shop, words, held, rng)
            shop.orders[order.id] = order
    return shop


def _products(rng: random.Random) -> dict[str, Product]:
    products = {}
    for number, (name, category, cents, returnable) in enumerate(CATALOGUE):
        for colour in rng.sample(COLOURS, 2):
            sku = f"P-{number + 1:02}{colour[0].upper()}"
            price = cents + rng.choice((0, 100, 250, 375))
            product = Product(sku, name, colour, category, price, rng.randint(3, 40), returnable)
            products[sku] = product
    return products


def _order(
    customer: Customer,
    status: Status,
    shop: Shop,
    words: dict[str, list[str]],
    held: bool,
    rng: random.Random,
) -> Order:
    number = rng.randrange(10000, 99999, 2) + (0 if held else 1)
    age = {"placed": (0, 1), "packed": (1, 3), "shipped": (4, 18)}.get(status, (12, 120))
    placed = TODAY - datetime.timedelta(rng.randint(*age))
    due = placed + datetime.timedelta(rng.randint(4, 8))
    arrived = str(min(due, TODAY - datetime.timedelta(1))) if status == "delivered" else ""
    lines = [
        Line(sku, rng.randint(1, 3), shop.products[sku].price_cents)
        for sku in sorted(rng.sample(sorted(shop.products), rng.randint(1, 3)))
    ]
    return Order(
        id=f"O-{number}",
        customer_id=customer.id,
        status=status,
        placed_on=str(placed),
        due_on=str(due),
        delivered_on=arrived,
        street=rng.choice(words["street"]),
        city=rng.choice(words["city"]),
        postcode=customer.postcode,
        payment=rng.choice(("card", "invoice")),
        parcel_at=rng.choice(words["city"]) if status == "shipped" else "",
        lines=lines,
    )


def _ascii(text: str) -> str:
    plain = text.translate(str.maketrans("íüöéøå", "iuoeoa")).replace(" ", "")
    return "".join(char for char in plain if char.isascii())
