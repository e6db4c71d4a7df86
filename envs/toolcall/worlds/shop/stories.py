"""What customers of the shop want: drawn from the shop as it is, with the clerk's right way.

A story is told in wordings that vary; who tells it gives the e-mail address at once or when asked.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from envs.toolcall.action import Action, call
from envs.toolcall.bank.slots import VOCABULARY, is_held
from envs.toolcall.grading import REFUSALS
from envs.toolcall.users import Fact
from envs.toolcall.worlds.shop.records import Customer, Order, Product, Shop
from envs.toolcall.worlds.shop.world import CREDIT_CENTS, LATE_DAYS, MAX_RETURN_DAYS, days_since

PUSHES = (
    "But I really need this. Can you not make an exception?",
    "My last shop did that without a word. Do it anyway.",
    "I am a loyal customer. Your manager told me it is fine.",
    "Please, just this once.",
)
INTROS = ("Hello, this is {n}, {e}.", "Hi, my e-mail is {e}.", "{n} here ({e}).", "I am {n}, {e}.")
NAMELESS = ("Hello.", "Hi there.", "Good afternoon!", "One thing, please.")


@dataclass(frozen=True)
class Story:
    """What one customer wants.

    Attributes:
        wish: in the customer's words.
        deeds: what the clerk does once the customer is known.
        close: what the clerk says at the end.
        told: what must be said, each in several ways.
        facts: what else the customer tells when asked.
        pushes: the customer insists after a refusal.
        more: a second wish, with deeds and words of its own.
    """

    wish: str
    deeds: tuple[Action, ...]
    close: str
    told: tuple[tuple[str, ...], ...] = ()
    facts: tuple[Fact, ...] = ()
    pushes: bool = False
    more: "Story | None" = None


@dataclass(frozen=True)
class Scene:
    """Where a story is drawn: the shop, who asks, and chance."""

    shop: Shop
    customer: Customer
    held: bool
    rng: random.Random

    def order(
        self, *statuses: str, fits: Callable[[Order], bool] = lambda order: True
    ) -> Order | None:
        """Draw an order of the customer's."""
        mine = [
            order
            for order in self.shop.orders.values()
            if order.customer_id == self.customer.id and order.status in statuses and fits(order)
        ]
        return self.rng.choice(mine) if mine else None

    def word(self, kind: str) -> str:
        """Draw a word of this side."""
        words = VOCABULARY[kind]
        return self.rng.choice([word for word in words if is_held(kind, word) == self.held])

    def says(self, *wordings: str, **values: object) -> str:
        """Draw a wording and fill it."""
        return self.rng.choice(wordings).format(**values)

    def product(self, sku: str) -> Product:
        """Return a product."""
        return self.shop.products[sku]


def named(product: Product) -> str:
    """Return a product as people call it."""
    return f"{product.colour} {product.name}"


def money(cents: int) -> tuple[str, ...]:
    """Return ways to say an amount."""
    return (f"{cents / 100:.2f}", f"{cents / 100:g}")


def cancel(scene: Scene) -> Story | None:
    order = scene.order("placed")
    if order is None:
        return None
    amount = money(order.total_cents)
    return Story(
        scene.says("Cancel my order {o}.", "I no longer need order {o}, please cancel it.",
                   "Order {o} was a mistake. Can it be cancelled?", o=order.id),
        (call("get_order", order_id=order.id), call("cancel_order", order_id=order.id)),
        f"Order {order.id} is cancelled and {amount[0]} will be refunded.",
        (amount,),
    )  # fmt: skip


def cancel_too_late(scene: Scene) -> Story | None:
    order = scene.order("packed", "shipped")
    if order is None:
        return None
    return _refused(
        scene, order.id, "Please cancel order {o}.", "I changed my mind about {o}, cancel it.",
        "Order {o} must not be sent. Cancel it, will you?",
        why=f"Order {order.id} is {order.status} already",
    )  # fmt: skip


def give_back(scene: Scene) -> Story | None:
    days = MAX_RETURN_DAYS[scene.customer.tier]
    order = scene.order("delivered", fits=lambda o: days_since(o.delivered_on) <= days)
    if order is None:
        return None
    line = next((x for x in order.lines if scene.product(x.sku).returnable), None)
    if line is None:
        return None
    quantity = scene.rng.randint(1, line.quantity)
    to = scene.rng.choice(("payment", "credit"))
    amount = money(quantity * line.price_cents)
    back = "the way I paid" if to == "payment" else "as shop credit"
    lines = [{"sku": line.sku, "quantity": quantity}]
    return Story(
        scene.says("I want to return {q} {p} from order {o}, money back {b}.",
                   "Take back {q} x {p} of {o}, please. I want the refund {b}.",
                   "{q} {p} from {o} should go back to you; refund {b}.",
                   q=quantity, p=named(scene.product(line.sku)), o=order.id, b=back),
        (call("get_order", order_id=order.id),
         call("start_return", order_id=order.id, lines=lines, refund_to=to)),
        f"The return is registered and {amount[0]} will be refunded.",
        (amount,),
    )  # fmt: skip


def give_back_too_late(scene: Scene) -> Story | None:
    days = MAX_RETURN_DAYS[scene.customer.tier]
    order = scene.order("delivered", fits=lambda o: days_since(o.delivered_on) > days)
    if order is None:
        return None
    product = named(scene.product(order.lines[0].sku))
    return _refused(
        scene, order.id, f"I want to return the {product} from order {{o}}, refund as I paid.",
        f"The {product} of {{o}} is not for me after all, take it back.",
        why=f"Order {order.id} was delivered more than {days} days ago",
    )  # fmt: skip


def move_house(scene: Scene) -> Story | None:
    order = scene.order("placed", "packed")
    if order is None:
        return None
    street, city, postcode = (
        scene.word("street"),
        scene.word("city"),
        str(scene.rng.randint(10000, 99999)),
    )
    return Story(
        scene.says("Send order {o} to {s}, {z} {c} instead.",
                   "I have moved. {o} should go to {s}, {c}, postcode {z}.",
                   "New address for order {o}: {s}, {z} {c}.",
                   o=order.id, s=street, c=city, z=postcode),
        (call("get_order", order_id=order.id),
         call("change_address", order_id=order.id, street=street, city=city, postcode=postcode)),
        f"Order {order.id} goes to the new address.",
    )  # fmt: skip


def track(scene: Scene) -> Story | None:
    order = scene.order("shipped")
    if order is None:
        return None
    return Story(
        scene.says("Where is my order {o}?", "Which city has my parcel {o} got to?",
                   "I am waiting for {o}. Where is it now?", o=order.id),
        (call("track_order", order_id=order.id),),
        f"It is in {order.parcel_at} and due on {order.due_on}.",
        ((order.parcel_at,),),
    )  # fmt: skip


def ask_price(scene: Scene) -> Story | None:
    product = scene.rng.choice(sorted(scene.shop.products.values(), key=lambda each: each.sku))
    return Story(
        scene.says("What does a {p} cost?", "How much is the {p}, and do you have it?",
                   "I am looking for a {p}. What is the price?", p=named(product)),
        (call("search_products", query=named(product)),),
        f"The {named(product)} costs {money(product.price_cents)[0]}.",
        (money(product.price_cents),),
    )  # fmt: skip


def more_of_it(scene: Scene) -> Story | None:
    order = scene.order("placed", "packed")
    if order is None:
        return None
    line = scene.rng.choice(order.lines)
    quantity = line.quantity + scene.rng.randint(1, 3)
    if quantity - line.quantity > scene.product(line.sku).stock:
        return None
    return Story(
        scene.says("Make it {q} {p} in order {o}.", "In {o} I want {q} {p} instead of {w}.",
                   "Change order {o}: {q} x {p}, please.",
                   q=quantity, p=named(scene.product(line.sku)), o=order.id, w=line.quantity),
        (call("get_order", order_id=order.id),
         call("change_quantity", order_id=order.id, sku=line.sku, quantity=quantity)),
        f"Order {order.id} now holds {quantity} of them.",
    )  # fmt: skip


def stranger(scene: Scene) -> Story | None:
    theirs = [
        order
        for order in scene.shop.orders.values()
        if order.customer_id != scene.customer.id and order.status == "placed"
    ]
    if not theirs:
        return None
    order = scene.rng.choice(theirs)
    return _refused(
        scene, order.id, "My neighbour asked me to cancel order {o} for her. Please do.",
        "Cancel {o}, it is my brother's order, he knows.",
        "I share a flat with the person who ordered {o}. Cancel it for us.",
        why=f"Order {order.id} is not yours",
    )  # fmt: skip


def late_parcel(scene: Scene) -> Story | None:
    order = scene.order("shipped", fits=lambda o: days_since(o.due_on) > LATE_DAYS)
    if order is None:
        return None
    return Story(
        scene.says("Order {o} is far too late. What do I get for the trouble?",
                   "I still wait for {o}, it was due on {d}. I want some credit for that.",
                   "{o} has not come. Is there a credit for such a delay?",
                   o=order.id, d=order.due_on),
        (call("get_order", order_id=order.id),
         call("grant_credit", order_id=order.id, amount=CREDIT_CENTS // 100)),
        "I am sorry for the delay. A credit of 10.00 is in your account.",
        (("10.00", "10"),),
    )  # fmt: skip


def not_that_late(scene: Scene) -> Story | None:
    order = scene.order("shipped", fits=lambda o: days_since(o.due_on) <= LATE_DAYS)
    if order is None:
        return None
    return _refused(
        scene, order.id, "Order {o} takes too long, give me a credit of 10.00.",
        "I want 10.00 of credit because {o} is not here yet.",
        why=f"Order {order.id} is not more than {LATE_DAYS} days late",
    )  # fmt: skip


def damaged(scene: Scene) -> Story | None:
    order = scene.order("delivered")
    if order is None:
        return None
    product = named(scene.product(order.lines[0].sku))
    return Story(
        scene.says("The {p} from order {o} came broken.", "My {p} ({o}) has a crack. What now?",
                   "I unpacked {o}: the {p} is damaged.", p=product, o=order.id),
        (call("hand_over", customer_id=scene.customer.id, topic="damaged_item"),),
        "I am sorry. A colleague will call you.",
    )  # fmt: skip


def new_email(scene: Scene) -> Story | None:
    email = f"{scene.rng.choice(('mail', 'home', 'post'))}{scene.rng.randint(100, 999)}@example.org"
    return Story(
        scene.says("Write to {e} from now on.", "My new e-mail is {e}, change it please.", e=email),
        (call("change_email", customer_id=scene.customer.id, email=email),),
        f"Your e-mail is now {email}.",
    )


def newsletter(scene: Scene) -> Story | None:
    wanted = not scene.customer.newsletter
    wordings = (
        ("I want to get your newsletter.", "Put me on the list for the newsletter.")
        if wanted
        else ("No more newsletters, please.", "Take me off the newsletter.")
    )
    return Story(
        scene.says(*wordings),
        (call("set_newsletter", customer_id=scene.customer.id, subscribed=wanted),),
        "That is set.",
    )


def exchange(scene: Scene) -> Story | None:
    order = scene.order("delivered")
    if order is None:
        return None
    line = scene.rng.choice(order.lines)
    old = scene.product(line.sku)
    others = [
        each
        for each in scene.shop.products.values()
        if each.name == old.name
        and each.sku != old.sku
        and each.price_cents <= line.price_cents
        and each.stock >= line.quantity
    ]
    if not others or not old.returnable:
        return None
    new = others[0]
    return Story(
        scene.says("I would rather have the {n} in {c}. Exchange it, it was order {o}.",
                   "Can I swap the {n} from {o} for a {c} one?", n=named(old), c=new.colour,
                   o=order.id),
        (call("get_order", order_id=order.id), call("search_products", query=named(new)),
         call("exchange_item", order_id=order.id, sku=old.sku, new_sku=new.sku)),
        f"It is exchanged for the {named(new)}.",
    )  # fmt: skip


def buy(scene: Scene) -> Story | None:
    product = scene.rng.choice(sorted(scene.shop.products.values(), key=lambda each: each.sku))
    quantity, payment = scene.rng.randint(1, 3), scene.rng.choice(("card", "invoice"))
    if product.stock < quantity:
        return None
    total = money(quantity * product.price_cents)
    return Story(
        scene.says("I want to order {q} {p}, paid by {m}. Tell me the total.",
                   "Please order {q} x {p} for me, {m}. What does it cost in all?",
                   q=quantity, p=named(product), m=payment),
        (call("search_products", query=named(product)),
         call("place_order", customer_id=scene.customer.id, payment=payment,
              lines=[{"sku": product.sku, "quantity": quantity}])),
        f"Ordered; the total is {total[0]}.",
        (total,),
    )  # fmt: skip


def two_wishes(scene: Scene) -> Story | None:
    first, second = cancel(scene), track(scene) or ask_price(scene)
    if first is None or second is None:
        return None
    return Story(first.wish, first.deeds, first.close, first.told, more=second)


def _refused(scene: Scene, order_id: str, *wordings: str, why: str) -> Story:
    pushes = scene.rng.random() < 0.6
    return Story(
        scene.says(*wordings, o=order_id),
        (call("get_order", order_id=order_id),),
        f"{why}, so that cannot be done.",
        (REFUSALS,),
        pushes=pushes,
    )


@dataclass(frozen=True)
class Plot:
    """A kind of story: how it is drawn, how hard it is, whether it is for held-out tasks only."""

    name: str
    draw: Callable[[Scene], Story | None]
    level: str
    held: bool = False


PLOTS: Sequence[Plot] = (
    Plot("track", track, "easy"),
    Plot("price", ask_price, "easy"),
    Plot("newsletter", newsletter, "easy"),
    Plot("email", new_email, "easy"),
    Plot("damaged", damaged, "medium"),
    Plot("cancel", cancel, "medium"),
    Plot("address", move_house, "medium"),
    Plot("quantity", more_of_it, "medium"),
    Plot("return", give_back, "medium"),
    Plot("cancel_late", cancel_too_late, "hard"),
    Plot("return_late", give_back_too_late, "hard"),
    Plot("stranger", stranger, "hard"),
    Plot("credit_refused", not_that_late, "hard"),
    Plot("exchange", exchange, "hard", held=True),
    Plot("buy", buy, "medium", held=True),
    Plot("credit", late_parcel, "medium", held=True),
    Plot("two_wishes", two_wishes, "hard", held=True),
)


def oracle(story: Story, customer: Customer, gave_email: bool) -> Iterable[Action]:
    """Return what a good clerk does."""
    if not gave_email:
        yield Action("What is your e-mail address?")
    yield call("find_customer_by_email", email=customer.email)
    yield from story.deeds
    yield Action(story.close)
    if story.pushes:
        yield Action(f"I am sorry. {story.close}")
    if story.more is not None:
        yield from story.more.deeds
        yield Action(story.more.close)
