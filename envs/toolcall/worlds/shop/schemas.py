"""What the shop's tools are called and take."""

from collections.abc import Mapping
from typing import Any

from envs.toolcall.tools import Tool, offered

ORDER_ID = {"type": "string", "pattern": "^[ON]-[0-9]{1,6}$", "description": "Such as O-12345."}
CUSTOMER_ID = {"type": "string", "pattern": "^C-[0-9]{1,6}$", "description": "Such as C-1."}
SKU = {"type": "string", "pattern": "^P-[0-9]{2}[A-Z]$", "description": "Such as P-01B."}
QUANTITY = {"type": "integer", "minimum": 1, "maximum": 999}
TEXT = {"type": "string", "minLength": 1, "maxLength": 200}
LINES = {
    "type": "array",
    "minItems": 1,
    "maxItems": 20,
    "items": {
        "type": "object",
        "properties": {"sku": SKU, "quantity": QUANTITY},
        "required": ["sku", "quantity"],
        "additionalProperties": False,
    },
}
TOPICS = ("damaged_item", "large_order", "legal_question")


def _tool(
    name: str, about: str, optional: Mapping[str, Any] | None = None, /, **fields: Any
) -> Tool:
    return Tool(
        name,
        about,
        {
            "type": "object",
            "properties": {**fields, **(optional or {})},
            "required": list(fields),
            "additionalProperties": False,
        },
    )


TOOLS = offered(
    (
        _tool("find_customer_by_email", "Find a customer.", email=TEXT),
        _tool("find_customer_by_name", "Find a customer.", name=TEXT, postcode=TEXT),
        _tool("list_orders", "Orders of a customer.", customer_id=CUSTOMER_ID),
        _tool("get_order", "All about an order.", order_id=ORDER_ID),
        _tool("track_order", "Where a parcel is and when it is due.", order_id=ORDER_ID),
        _tool("get_credit", "A customer's credit.", customer_id=CUSTOMER_ID),
        _tool("list_categories", "Categories of products."),
        _tool(
            "search_products",
            "Products whose name, colour or category holds every word.",
            {"max_price": {"type": "number", "minimum": 0}},
            query=TEXT,
        ),
        _tool("get_product", "All about a product.", sku=SKU),
        _tool("cancel_order", "Cancel an order and refund it.", order_id=ORDER_ID),
        _tool(
            "change_address",
            "Change where an order goes.",
            order_id=ORDER_ID,
            street=TEXT,
            city=TEXT,
            postcode=TEXT,
        ),
        _tool(
            "change_quantity",
            "Change how many of a product an order holds.",
            order_id=ORDER_ID,
            sku=SKU,
            quantity=QUANTITY,
        ),
        _tool(
            "start_return",
            "Take things back and refund them.",
            order_id=ORDER_ID,
            lines=LINES,
            refund_to={"enum": ["payment", "credit"], "type": "string"},
        ),
        _tool(
            "exchange_item",
            "Exchange a delivered product for another.",
            order_id=ORDER_ID,
            sku=SKU,
            new_sku=SKU,
        ),
        _tool(
            "place_order",
            "Order something for a customer, to the address of the latest order.",
            customer_id=CUSTOMER_ID,
            lines=LINES,
            payment={"enum": ["card", "invoice"], "type": "string"},
        ),
        _tool(
            "grant_credit",
            "Give a customer credit for an order.",
            order_id=ORDER_ID,
            amount={"type": "number", "exclusiveMinimum": 0, "maximum": 500},
        ),
        _tool("change_email", "Change the e-mail.", customer_id=CUSTOMER_ID, email=TEXT),
        _tool(
            "set_newsletter",
            "Subscribe or unsubscribe.",
            customer_id=CUSTOMER_ID,
            subscribed={"type": "boolean"},
        ),
        _tool(
            "hand_over",
            "Hand the customer over to a colleague.",
            customer_id=CUSTOMER_ID,
            topic={"enum": list(TOPICS), "type": "string"},
        ),
    )
)
