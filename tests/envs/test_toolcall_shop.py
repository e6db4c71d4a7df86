"""The shop: equal seeds, rules that are noted when broken, tools that refuse what cannot be."""

import copy
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from envs.toolcall.failures import Failure
from envs.toolcall.tools import check_value
from envs.toolcall.world import ToolError
from envs.toolcall.worlds.shop.policy import POLICY
from envs.toolcall.worlds.shop.records import Order, Shop, draw_shop
from envs.toolcall.worlds.shop.schemas import TOOLS
from envs.toolcall.worlds.shop.stories import PLOTS
from envs.toolcall.worlds.shop.world import ShopWorld, days_since


def world(seed: int = 1) -> ShopWorld:
    return ShopWorld(draw_shop(seed, held=False))


def order(shop: Shop, *statuses: str, fits: Callable[[Order], bool] = lambda order: True) -> Order:
    return next(o for o in shop.orders.values() if o.status in statuses and fits(o))


def identify(made: ShopWorld, customer_id: str) -> None:
    made.call("find_customer_by_email", {"email": made.shop.customers[customer_id].email})


def test_equal_seeds_draw_equal_shops_and_sides_share_no_one() -> None:
    assert draw_shop(3, False) == draw_shop(3, False) != draw_shop(4, False)
    train, held = draw_shop(3, False), draw_shop(3, True)
    assert not {c.name for c in train.customers.values()} & {
        c.name for c in held.customers.values()
    }
    assert not set(train.orders) & set(held.orders)


def test_every_tool_is_a_method_with_its_schemas_parameters() -> None:
    assert 15 <= len(TOOLS) <= 40
    for name, tool in TOOLS.items():
        parameters = inspect.signature(getattr(ShopWorld, f"_{name}")).parameters
        assert (
            list(parameters)[1:]
            and set(parameters) - {"self"} == set(tool.parameters["properties"])
        ) or not tool.parameters["properties"]


def test_looking_up_changes_nothing() -> None:
    made = world()
    before = copy.deepcopy(made.shop)
    some = next(iter(made.shop.orders.values()))
    identify(made, some.customer_id)
    looks: dict[str, dict[str, Any]] = {
        "list_orders": {"customer_id": some.customer_id},
        "get_order": {"order_id": some.id},
        "track_order": {"order_id": some.id},
        "get_credit": {"customer_id": some.customer_id},
        "list_categories": {},
        "search_products": {"query": "lamp", "max_price": 40},
        "get_product": {"sku": some.lines[0].sku},
    }
    for name, arguments in looks.items():
        assert not isinstance(check_value(TOOLS[name], arguments), Failure)
        made.call(name, arguments)
    assert made.shop == before and not made.violations


def broken(made: ShopWorld, name: str, **arguments: Any) -> list[str]:
    assert not isinstance(check_value(TOOLS[name], arguments), Failure)
    made.call(name, arguments)
    return made.violations


def test_changes_for_someone_unknown_are_noted() -> None:
    made = world()
    some = order(made.shop, "placed")
    assert broken(made, "cancel_order", order_id=some.id) == ["identify_first"]
    made = world()
    other = next(c for c in made.shop.customers if c != some.customer_id)
    identify(made, other)
    assert broken(made, "cancel_order", order_id=some.id) == ["identify_first"]
    assert broken(world(), "set_newsletter", customer_id="C-1", subscribed=True)
    assert broken(world(), "change_email", customer_id="C-1", email="a@b.c")


def test_rules_that_the_tools_let_pass_are_noted() -> None:
    made = world()
    packed = order(made.shop, "packed")
    identify(made, packed.customer_id)
    assert broken(made, "cancel_order", order_id=packed.id) == ["cancel_only_placed"]
    made = world()
    old = order(made.shop, "delivered", fits=lambda o: days_since(o.delivered_on) > 60)
    identify(made, old.customer_id)
    line = {"sku": old.lines[0].sku, "quantity": 1}
    notes = broken(made, "start_return", order_id=old.id, lines=[line], refund_to="credit")
    assert "return_in_time" in notes
    made = world()
    identify(made, packed.customer_id)
    assert broken(made, "grant_credit", order_id=packed.id, amount=10) == ["credit_as_allowed"]


def test_a_return_refunds_what_was_paid_once() -> None:
    made = world()
    got = order(made.shop, "delivered")
    identify(made, got.customer_id)
    line, customer = got.lines[0], made.shop.customers[got.customer_id]
    before = customer.credit_cents
    asked = {"order_id": got.id, "refund_to": "credit",
             "lines": [{"sku": line.sku, "quantity": line.quantity}]}  # fmt: skip
    told = made.call("start_return", asked)
    assert customer.credit_cents - before == line.quantity * line.price_cents
    assert told["refunded"] * 100 == pytest.approx(line.quantity * line.price_cents)
    with pytest.raises(ToolError, match="only 0 can be returned"):
        made.call("start_return", asked)


def test_the_same_product_named_twice_is_counted_together() -> None:
    """Bug prevented: one piece returned twice in one call."""
    made = world()
    got = order(made.shop, "delivered")
    identify(made, got.customer_id)
    line = {"sku": got.lines[0].sku, "quantity": got.lines[0].quantity}
    with pytest.raises(ToolError, match="can be returned"):
        made.call(
            "start_return", {"order_id": got.id, "refund_to": "credit", "lines": [line, line]}
        )


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("get_order", {"order_id": "O-1"}, "no order O-1"),
        ("find_customer_by_email", {"email": "x@y.z"}, "no such customer"),
        ("get_product", {"sku": "P-99X"}, "no product"),
        ("get_credit", {"customer_id": "C-99"}, "no customer"),
        ("change_email", {"customer_id": "C-1", "email": "x"}, "no e-mail"),
    ],
)
def test_what_is_not_there_is_said(name: str, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        world().call(name, arguments)


def test_what_is_gone_cannot_be_changed() -> None:
    made = world()
    sent = order(made.shop, "shipped")
    for name, more in {
        "cancel_order": {},
        "change_quantity": {"sku": "P-01B", "quantity": 1},
    }.items():
        with pytest.raises(ToolError, match="that is shipped cannot be"):
            made.call(name, {"order_id": sent.id, **more})
    assert not made.violations


def test_a_failed_change_leaves_no_trace() -> None:
    made = world()
    some = order(made.shop, "placed")
    identify(made, some.customer_id)
    before = copy.deepcopy(made.shop)
    tries: dict[str, dict[str, Any]] = {
        "change_quantity": {"order_id": some.id, "sku": some.lines[0].sku, "quantity": 900},
        "exchange_item": {"order_id": some.id, "sku": "P-01B", "new_sku": "P-01G"},
        "place_order": {
            "customer_id": some.customer_id,
            "payment": "card",
            "lines": [{"sku": some.lines[0].sku, "quantity": 11}] * 4,
        },
    }
    for name, arguments in tries.items():
        with pytest.raises(ToolError):
            made.call(name, arguments)
    assert made.shop == before and not made.violations


def test_new_orders_are_numbered_and_taken_from_stock() -> None:
    made = world()
    identify(made, "C-1")
    sku = next(p.sku for p in made.shop.products.values() if p.stock > 2)
    stock = made.shop.products[sku].stock
    lines = [{"sku": sku, "quantity": 2}]
    told = made.call("place_order", {"customer_id": "C-1", "payment": "card", "lines": lines})
    assert told["order_id"] == "N-1" and made.shop.products[sku].stock == stock - 2
    assert not made.violations


def test_the_policy_is_prose_and_the_plots_are_many() -> None:
    assert POLICY.count("\n") >= 8 and len(PLOTS) >= 14
