"""Customers' requests: each function chooses what a request is about, fulfils it with the real tools, and describes it
in words.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from .records import NOW

MORE = "Is there anything else?"
CONFIRM = "Shall I do that? Please confirm."
Move = list[Any]


@dataclass(slots=True)
class Desk:
    """A conversation under construction: the customer, the agent's moves for it, and the current records.

    Attributes:
        environment: an opened environment of the domain.
        customer: the row of the calling customer.
        moves: the agent's moves: `["say", text]` or `["call", tool, arguments]`.
        facts: the customer's answers to questions about the current request, by a key word of the question.
        must_tell: values that the agent must have said.
        used: rows that already have a request, so that no two requests share one.
    """

    rng: random.Random
    environment: Any
    app: str
    customer: Any
    moves: list[Move] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    must_tell: list[str] = field(default_factory=list)
    used: set[Any] = field(default_factory=set)

    def call(self, api: str, **arguments: Any) -> Any:
        """Call a tool as the agent does."""
        self.moves.append(["call", api, arguments])
        return self.environment.call_api(self.app, api, arguments)

    def say(self, text: str) -> None:
        """Say something to the customer."""
        self.moves.append(["say", text])

    def tell(self, value: object) -> str:
        """Record that the agent must say a value. Returns: the value as text."""
        self.must_tell.append(str(value))
        return str(value)

    def choose(self, rows: list[Any]) -> Any:
        """Return a random row that has no request yet. Raises: IndexError if there is none."""
        row = self.rng.choice([row for row in rows if row["id"] not in self.used])
        self.used.add(row["id"])
        return row

    def orders(self, *, status: str, old: bool = False) -> list[Any]:
        """Return the customer's orders with this status.

        Of delivered orders, only those that can still be returned, or, if `old`, only those that cannot.
        """
        since = (date.fromisoformat(NOW[:10]) - timedelta(days=30)).isoformat()
        rows = self.environment.store.rows("orders", customer_id=self.customer["id"], status=status)
        return [row for row in rows if status == "pending" or (row["delivered_on"] < since) == old]


# ---- retail


def _cancel_order(desk: Desk) -> str:
    order, reason = (
        desk.choose(desk.orders(status="pending")),
        desk.rng.choice(("no longer needed", "ordered by mistake")),
    )
    desk.facts |= {
        "order": f"It is the order of {order['date']}.",
        "reason": f"It is {reason}.",
        "why": f"It is {reason}.",
    }
    desk.say(f"I will cancel order {order['id']}. {CONFIRM}")
    desk.call("cancel_order", order_id=order["id"], reason=reason)
    desk.say(f"Order {order['id']} is cancelled. {MORE}")
    return f"I want to cancel my order that has not arrived yet, it is {reason}."


def _change_address(desk: Desk) -> str:
    order, address = desk.choose(desk.orders(status="pending")), f"Hill Road {desk.rng.randrange(100, 999)}"
    desk.facts |= {"order": f"It is the order of {order['date']}.", "address": f"The new address is {address}."}
    desk.say(f"I will send order {order['id']} to {address}. {CONFIRM}")
    desk.call("change_address", order_id=order["id"], address=address)
    desk.say(f"That is changed. {MORE}")
    return f"I have moved. Please send my order that has not arrived yet to {address}."


def _article(desk: Desk, *, old: bool) -> tuple[Any, Any, str]:
    """Pick an article of a delivered order. Returns: the article, its order, and its description."""
    order = desk.rng.choice(desk.orders(status="delivered", old=old))
    article = desk.choose(list(desk.environment.store.rows("articles", order_id=order["id"], status="sold")))
    desk.call("articles_of", order_id=order["id"])
    product = desk.environment.store.get("variants", article["variant_id"])["product"]
    desk.facts |= {"product": f"It is the {product}.", "article": f"It is the {product}."}
    return article, order, product


def _return(desk: Desk) -> str:
    article, _, product = _article(desk, old=False)
    desk.say(f"I will register the return of the {product}. {CONFIRM}")
    desk.call("return_article", article_id=article["id"])
    desk.say(f"The return is registered. {MORE}")
    return f"I do not like the {product}, I want to return it."


def _return_too_late(desk: Desk) -> str:
    _, order, product = _article(desk, old=True)
    delivered = desk.tell(order["delivered_on"])
    desk.say(f"I am sorry, the {product} was delivered on {delivered}, more than 30 days ago. {MORE}")
    return f"I want to return the {product}."


def _exchange(desk: Desk) -> str:
    article, _, product = _article(desk, old=False)
    rows = [row for row in desk.environment.store.rows("variants", product=product) if row["stock"]]
    variant = desk.rng.choice([row for row in rows if row["id"] != article["variant_id"]])
    desk.facts["colour"] = f"In {variant['colour']}, please."
    desk.call("variants_of", product=product)
    desk.say(f"In {variant['colour']} it costs {desk.tell(variant['price'])}. I will exchange it. {CONFIRM}")
    desk.call("exchange_article", article_id=article["id"], variant_id=variant["id"])
    desk.say(f"The exchange is registered. {MORE}")
    return f"I would rather have the {product} in {variant['colour']}."


def _price_paid(desk: Desk) -> str:
    article, _, product = _article(desk, old=desk.rng.random() < 0.5)
    desk.say(f"You paid {desk.tell(article['price'])} for the {product}. {MORE}")
    return f"How much did I pay for the {product}?"


# ---- travel


def _booking(desk: Desk, fare: str) -> tuple[Any, Any]:
    """Pick a booking of this fare. Returns: the booking and its flight."""
    store = desk.environment.store
    booking = desk.choose(list(store.rows("bookings", customer_id=desk.customer["id"], fare=fare, status="active")))
    flight = store.get("flights", booking["flight_id"])
    desk.facts |= {"booking": f"It is the flight to {flight['target']}.", "flight": f"The one to {flight['target']}."}
    return booking, flight


def _change_flight(desk: Desk) -> str:
    booking, flight = _booking(desk, "flex")
    store = desk.environment.store
    day = desk.rng.choice(sorted({row["date"] for row in store.rows("flights") if row["date"] != flight["date"]}))
    results = desk.call("search_flights", origin=flight["origin"], target=flight["target"], date=day)["results"]
    cheapest = min((row for row in results if row["seats"]), key=lambda row: row["price"])
    desk.facts["date"] = desk.facts["day"] = f"On {day}."
    desk.say(f"The cheapest flight is at {cheapest['time']} and costs {desk.tell(cheapest['price'])}. {CONFIRM}")
    desk.call("change_flight", booking_id=booking["id"], flight_id=cheapest["id"])
    desk.say(f"Your booking is changed. {MORE}")
    return f"I want to fly to {flight['target']} on {day} instead, whatever is cheapest."


def _cancel_booking(desk: Desk) -> str:
    booking, flight = _booking(desk, "flex")
    desk.say(f"I will cancel booking {booking['id']} to {flight['target']}. {CONFIRM}")
    desk.call("cancel_booking", booking_id=booking["id"])
    desk.say(f"It is cancelled. {MORE}")
    return f"I want to cancel my flight to {flight['target']}."


def _cancel_basic(desk: Desk) -> str:
    booking, flight = _booking(desk, "basic")
    desk.say(f"I am sorry, you paid {desk.tell(booking['paid'])} for a basic fare, which cannot be cancelled. {MORE}")
    return f"I want to cancel my flight to {flight['target']}."


def _add_bags(desk: Desk) -> str:
    booking, flight = _booking(desk, "flex")
    count = desk.rng.randrange(1, 4)
    desk.facts["bags"] = f"{count} more, please."
    desk.say(f"That costs {desk.tell(30 * count)} together. I will add them. {CONFIRM}")
    desk.call("add_bags", booking_id=booking["id"], count=count)
    desk.say(f"The bags are added. {MORE}")
    return f"I want to take {count} more bags on my flight to {flight['target']}."


def _departure(desk: Desk) -> str:
    _, flight = _booking(desk, desk.rng.choice(("flex", "basic")))
    desk.say(f"It leaves on {desk.tell(flight['date'])} at {desk.tell(flight['time'])}. {MORE}")
    return f"When does my flight to {flight['target']} leave, on which day and at what time?"


# ---- telecom


def _no_data(desk: Desk) -> str:
    store, customer_id = desk.environment.store, desk.customer["id"]
    abroad, gigabytes = desk.rng.random() < 0.5, desk.rng.randrange(1, 6)
    line = desk.call("line_of", customer_id=customer_id)["results"][0]
    phone = store.get("phones", customer_id)
    desk.facts |= {
        "gigabytes": f"{gigabytes} gigabytes, please.",
        "abroad": "Yes, I am." if abroad else "No, I am not.",
    }
    if line["status"] == "suspended":
        bills = desk.call("bills_of", customer_id=customer_id)["results"]
        bill = next(bill for bill in bills if not bill["paid"])
        desk.say(
            f"Your line is suspended. I will charge the bill of {desk.tell(bill['amount'])} and resume it. {CONFIRM}"
        )
        desk.call("charge_bill", bill_id=bill["id"])
        desk.call("resume_line", line_id=line["id"])
    if not line["data_left"]:
        desk.say("No data is left. How many gigabytes may I add?")
        desk.say(f"{gigabytes} cost {desk.tell(4 * gigabytes)}. I will add them. {CONFIRM}")
        desk.call("add_data", line_id=line["id"], gigabytes=gigabytes)
    if abroad and not line["roaming"]:
        desk.say(f"I will allow the use of your line in other countries. {CONFIRM}")
        desk.call("set_line_roaming", line_id=line["id"], on=True)
    desk.say("Please look at the settings of your telephone. What do they say?")
    wrong = {"airplane_mode": phone["airplane_mode"], "mobile_data": not phone["mobile_data"]}
    wrong["roaming"] = abroad and not phone["roaming"]
    for switch, is_wrong in wrong.items():
        if is_wrong:
            on = switch != "airplane_mode"
            desk.say(f"Please turn {switch.replace('_', ' ')} {'on' if on else 'off'}.")
            store.update("phones", customer_id, **{switch: on})
    desk.say(f"It should work now. {MORE}")
    return "My mobile data does not work." + (" I am abroad." if abroad else " I am at home.")


def _bill(desk: Desk) -> str:
    month, name = desk.rng.choice((("2025-11", "November"), ("2025-12", "December")))
    bills = desk.call("bills_of", customer_id=desk.customer["id"])["results"]
    amount = next(bill["amount"] for bill in bills if bill["month"] == month)
    desk.say(f"It was {desk.tell(amount)}. {MORE}")
    return f"How much was my bill of {name}?"


def _buy_data(desk: Desk) -> str:
    gigabytes = desk.rng.randrange(1, 6)
    line = desk.call("line_of", customer_id=desk.customer["id"])["results"][0]
    desk.facts["gigabytes"] = f"{gigabytes} gigabytes, please."
    desk.say(f"{gigabytes} gigabytes cost {desk.tell(4 * gigabytes)}. I will add them. {CONFIRM}")
    desk.call("add_data", line_id=line["id"], gigabytes=gigabytes)
    desk.say(f"They are added. {MORE}")
    return f"Please add {gigabytes} gigabytes to my line."


REQUESTS: Mapping[str, Mapping[str, Callable[[Desk], str]]] = {
    "retail": {
        "cancel": _cancel_order,
        "address": _change_address,
        "return": _return,
        "too_late": _return_too_late,
        "exchange": _exchange,
        "price": _price_paid,
    },
    "travel": {
        "change": _change_flight,
        "cancel": _cancel_booking,
        "basic": _cancel_basic,
        "bags": _add_bags,
        "departure": _departure,
    },
    "telecom": {"no_data": _no_data, "bill": _bill, "buy_data": _buy_data},
}
HELD_OUT = frozenset({("retail", "exchange"), ("travel", "bags"), ("telecom", "buy_data")})
"""Requests that no training task has."""
