"""The shop in a conversation: each tool a method, each broken rule noted."""

import datetime
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from envs.toolcall.tools import Tool
from envs.toolcall.values import plain
from envs.toolcall.world import ToolError
from envs.toolcall.worlds.methods import MethodWorld, found
from envs.toolcall.worlds.shop.policy import POLICY
from envs.toolcall.worlds.shop.records import (
    TODAY,
    Customer,
    Line,
    Order,
    Product,
    Shop,
    draw_shop,
)
from envs.toolcall.worlds.shop.schemas import TOOLS

MAX_RETURN_DAYS = {"standard": 30, "plus": 60}
LATE_DAYS, CREDIT_CENTS = 5, 1000


class ShopWorld(MethodWorld):
    """See the module and ``envs.toolcall.world.World``."""

    policy = POLICY
    tools: Mapping[str, Tool] = TOOLS

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        super().__init__()
        self._known: set[str] = set()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "ShopWorld":
        """Build it from a task's data. Raises ``KeyError``, ``ValueError``."""
        return cls(draw_shop(int(data["seed"]), bool(data["held"])))

    def state(self) -> Mapping[str, object]:
        """Return every record by table and id."""
        shop = self.shop
        return {
            **shop.customers,
            **shop.products,
            **shop.orders,
            "handed over": sorted(shop.handed_over),
        }

    # ------------------------------------------------------------- looking up

    def _find_customer_by_email(self, email: str) -> Any:
        return self._identified(lambda customer: plain(customer.email) == plain(email))

    def _find_customer_by_name(self, name: str, postcode: str) -> Any:
        return self._identified(
            lambda customer: (
                plain(customer.name) == plain(name) and customer.postcode == postcode.strip()
            )
        )

    def _identified(self, fits: Callable[[Customer], bool]) -> Any:
        for customer in self.shop.customers.values():
            if fits(customer):
                self._known.add(customer.id)
                row = asdict(customer)
                row["credit"] = _money(row.pop("credit_cents"))
                return row
        raise ToolError("no such customer")

    def _list_orders(self, customer_id: str) -> Any:
        self._customer(customer_id)
        return [
            {"order_id": order.id, "status": order.status, "placed_on": order.placed_on}
            for order in self.shop.orders.values()
            if order.customer_id == customer_id
        ]

    def _get_order(self, order_id: str) -> Any:
        order = self._order(order_id)
        row = asdict(order)
        for line in row["lines"]:
            product = self.shop.products[line["sku"]]
            line["product"] = f"{product.colour} {product.name}"
            line["price"] = _money(line.pop("price_cents"))
        row["refunds"] = [[to, _money(cents)] for to, cents in order.refunds]
        row["credited"] = _money(row.pop("credited_cents"))
        return {**row, "total": _money(order.total_cents)}

    def _track_order(self, order_id: str) -> Any:
        order = self._order(order_id)
        where = {"parcel_at": order.parcel_at} if order.parcel_at else {}
        return {"status": order.status, "due_on": order.due_on, **where}

    def _get_credit(self, customer_id: str) -> Any:
        return {"credit": _money(self._customer(customer_id).credit_cents)}

    def _list_categories(self) -> Any:
        return sorted({product.category for product in self.shop.products.values()})

    def _search_products(self, query: str, max_price: float | None = None) -> Any:
        wanted = plain(query).split()
        found = [
            _shown(product)
            for product in self.shop.products.values()
            if all(word in f"{product.colour} {product.name} {product.category}" for word in wanted)
            and (max_price is None or product.price_cents <= max_price * 100)
        ]
        return found or {"note": "nothing found"}

    def _get_product(self, sku: str) -> Any:
        return _shown(self._product(sku))

    # ------------------------------------------------------------- changing

    def _cancel_order(self, order_id: str) -> Any:
        order = self._own(order_id)
        if order.status not in ("placed", "packed"):
            raise ToolError(f"an order that is {order.status} cannot be cancelled")
        self._rule(order.status == "placed", "cancel_only_placed")
        order.status = "cancelled"
        order.refunds.append(("payment", order.total_cents))
        for line in order.lines:
            self.shop.products[line.sku].stock += line.quantity
        return {"status": "cancelled", "refunded": _money(order.total_cents)}

    def _change_address(self, order_id: str, street: str, city: str, postcode: str) -> Any:
        order = self._open(order_id)
        order.street, order.city, order.postcode = plain(street), plain(city), plain(postcode)
        return {"status": "changed"}

    def _change_quantity(self, order_id: str, sku: str, quantity: int) -> Any:
        order = self._open(order_id)
        line, product = _line(order, sku), self._product(sku)
        if quantity - line.quantity > product.stock:
            raise ToolError(f"only {product.stock} more in stock")
        product.stock -= quantity - line.quantity
        line.quantity = quantity
        return {"status": "changed", "total": _money(order.total_cents)}

    def _start_return(self, order_id: str, lines: list[dict[str, Any]], refund_to: str) -> Any:
        order = self._delivered(order_id)
        asked = _together(lines)
        for sku, quantity in asked.items():
            line = _line(order, sku)
            if quantity > line.quantity - line.returned:
                raise ToolError(f"{sku}: only {line.quantity - line.returned} can be returned")
        refund = 0
        tier = self._customer(order.customer_id).tier
        self._rule(days_since(order.delivered_on) <= MAX_RETURN_DAYS[tier], "return_in_time")
        for sku, quantity in asked.items():
            self._rule(self._product(sku).returnable, "return_only_returnable")
            line = _line(order, sku)
            line.returned += quantity
            refund += quantity * line.price_cents
        order.refunds.append((refund_to, refund))
        if refund_to == "credit":
            self._customer(order.customer_id).credit_cents += refund
        return {"status": "return started", "refunded": _money(refund)}

    def _exchange_item(self, order_id: str, sku: str, new_sku: str) -> Any:
        order = self._delivered(order_id)
        line, old, new = _line(order, sku), self._product(sku), self._product(new_sku)
        if new.stock < line.quantity:
            raise ToolError(f"only {new.stock} of {new_sku} in stock")
        self._rule(new.category == old.category, "exchange_same_category")
        self._rule(new.price_cents <= line.price_cents, "exchange_not_dearer")
        new.stock -= line.quantity
        old.stock += line.quantity
        difference = (line.price_cents - new.price_cents) * line.quantity
        line.sku, line.price_cents = new_sku, new.price_cents
        if difference:
            order.refunds.append(("payment", difference))
        return {"status": "exchanged", "refunded": _money(difference)}

    def _place_order(self, customer_id: str, lines: list[dict[str, Any]], payment: str) -> Any:
        customer, wanted = self._customer(customer_id), _together(lines)
        self._rule(customer_id in self._known, "identify_first")
        self._rule(sum(wanted.values()) <= 20, "large_orders_to_colleague")
        for sku, quantity in wanted.items():
            if quantity > (stock := self._product(sku).stock):
                raise ToolError(f"{sku}: only {stock} in stock")
        latest = max(
            (order for order in self.shop.orders.values() if order.customer_id == customer.id),
            key=lambda order: (order.placed_on, order.id),
        )
        bought = []
        for sku, quantity in sorted(wanted.items()):
            product = self._product(sku)
            product.stock -= quantity
            bought.append(Line(sku, quantity, product.price_cents))
        number = sum(order_id.startswith("N-") for order_id in self.shop.orders) + 1
        due = str(TODAY + datetime.timedelta(6))
        order = Order(f"N-{number}", customer.id, "placed", str(TODAY), due, "", latest.street,
                      latest.city, latest.postcode, payment, "", bought)  # fmt: skip
        self.shop.orders[order.id] = order
        return {"order_id": order.id, "total": _money(order.total_cents), "due_on": due}

    def _grant_credit(self, order_id: str, amount: float) -> Any:
        order = self._own(order_id)
        cents = round(amount * 100)
        late = order.status == "shipped" and days_since(order.due_on) > LATE_DAYS
        self._rule(late and cents == CREDIT_CENTS and not order.credited_cents, "credit_as_allowed")
        order.credited_cents += cents
        customer = self._customer(order.customer_id)
        customer.credit_cents += cents
        return {"credit": _money(customer.credit_cents)}

    def _change_email(self, customer_id: str, email: str) -> Any:
        customer = self._customer(customer_id)
        self._rule(customer_id in self._known, "identify_first")
        if "@" not in email:
            raise ToolError("that is no e-mail address")
        customer.email = plain(email)
        return {"status": "changed"}

    def _set_newsletter(self, customer_id: str, subscribed: bool) -> Any:
        customer = self._customer(customer_id)
        self._rule(customer_id in self._known, "identify_first")
        customer.newsletter = subscribed
        return {"status": "changed"}

    def _hand_over(self, customer_id: str, topic: str) -> Any:
        self._customer(customer_id)
        self.shop.handed_over.append(f"{customer_id}: {topic}")
        return {"status": "a colleague will call the customer"}

    # ------------------------------------------------------------- inside

    def _customer(self, customer_id: str) -> Customer:
        return found(self.shop.customers, customer_id, "customer")

    def _product(self, sku: str) -> Product:
        return found(self.shop.products, sku, "product")

    def _order(self, order_id: str) -> Order:
        return found(self.shop.orders, order_id, "order")

    def _own(self, order_id: str) -> Order:
        """Return an order about to be changed: it must be of a customer who is known."""
        order = self._order(order_id)
        self._rule(order.customer_id in self._known, "identify_first")
        return order

    def _open(self, order_id: str) -> Order:
        if (status := self._order(order_id).status) not in ("placed", "packed"):
            raise ToolError(f"an order that is {status} cannot be changed")
        return self._own(order_id)

    def _delivered(self, order_id: str) -> Order:
        if (status := self._order(order_id).status) != "delivered":
            raise ToolError(f"the order is {status}, not delivered")
        return self._own(order_id)


def _line(order: Order, sku: str) -> Line:
    for line in order.lines:
        if line.sku == sku:
            return line
    raise ToolError(f"{order.id} holds no {sku}")


def _together(lines: list[dict[str, Any]]) -> dict[str, int]:
    """Return how many of each product: one may be named twice."""
    counts: dict[str, int] = {}
    for each in lines:
        counts[each["sku"]] = counts.get(each["sku"], 0) + each["quantity"]
    return counts


def _shown(product: Product) -> dict[str, Any]:
    row = asdict(product)
    row["price"] = _money(row.pop("price_cents"))
    return row


def _money(cents: int) -> float:
    return round(cents / 100, 2)


def days_since(day: str) -> int:
    return (TODAY - datetime.date.fromisoformat(day)).days
