"""The assets `service/retail`, `service/travel` and `service/telecom`: customers with their orders, bookings or
telephone lines.
"""

from __future__ import annotations

import json
import random
from datetime import date, timedelta
from typing import Any

from agentgym import seed_of

NOW = "2026-01-05 09:00"
TODAY = date.fromisoformat(NOW[:10])
CUSTOMERS = 24
FIRST = (
    *("Alma", "Bruno", "Clara", "Dario", "Elin", "Felix", "Gerda", "Henrik", "Irma", "Jorgen", "Kaja", "Lasse", "Mina"),
    *("Niko", "Oda", "Pavel", "Rita", "Stefan", "Tea", "Ulf", "Viola", "Wim", "Yara", "Zeno"),
)
LAST = (
    "Adler",
    "Beck",
    "Claes",
    "Dorn",
    "Eriks",
    "Fisk",
    "Gold",
    "Horn",
    "Iver",
    "Juhl",
    "Kolb",
    "Lauritz",
    "Munk",
    "Noll",
)
PRODUCTS = (
    "jacket",
    "lamp",
    "backpack",
    "blanket",
    "kettle",
    "scarf",
    "suitcase",
    "mirror",
    "bicycle helmet",
    "hammock",
)
COLOURS = ("red", "blue", "green", "black", "white")
CITIES = ("Oslo", "Porto", "Riga", "Turin", "Vienna", "Zagreb")
PLANS = ("small", "medium", "large")


def retail(seed: int = 0) -> bytes:
    """Orders of two articles each, made in the last months: some delivered lately, some long ago, some pending."""
    rng = random.Random(seed_of("service/retail", seed))
    variants = [
        {
            "id": 5 * p + c + 1,
            "product": product,
            "colour": colour,
            "price": rng.randrange(15, 95),
            "stock": rng.choice((0, 3, 8)),
        }
        for p, product in enumerate(PRODUCTS)
        for c, colour in enumerate(COLOURS)
    ]
    customers = [{**person, "zip": str(rng.randrange(10_000, 99_999))} for person in _people(rng)]
    orders: list[dict[str, Any]] = []
    articles: list[dict[str, Any]] = []
    for customer in customers:
        products = rng.sample(range(len(PRODUCTS)), 6)
        for kind, position in zip(("pending", "recent", "old"), range(0, 6, 2), strict=True):
            days = {"pending": rng.randrange(1, 4), "recent": rng.randrange(8, 28), "old": rng.randrange(50, 200)}[kind]
            delivered = "" if kind == "pending" else (TODAY - timedelta(days=days - 5)).isoformat()
            status = "pending" if kind == "pending" else "delivered"
            day, address = (TODAY - timedelta(days=days)).isoformat(), f"Lane {rng.randrange(1, 99)}"
            order = {"customer_id": customer["id"], "date": day, "status": status, "delivered_on": delivered}
            orders.append({"id": len(orders) + 1001, **order, "address": address})
            for product in products[position : position + 2]:
                variant = variants[5 * product + rng.randrange(5)]
                article = {"order_id": orders[-1]["id"], "variant_id": variant["id"], "price": variant["price"]}
                articles.append({"id": len(articles) + 1, **article, "status": "sold"})
    return _json(customers=customers, variants=variants, orders=orders, articles=articles)


def travel(seed: int = 0) -> bytes:
    """Flights of the next weeks, three a day on each of 6 routes, and three bookings for each customer."""
    rng = random.Random(seed_of("service/travel", seed))
    routes = rng.sample([(a, b) for a in CITIES for b in CITIES if a != b], 6)
    flights: list[dict[str, Any]] = []
    for origin, target in routes:
        for day in range(10, 24):
            for hour, price in zip((7, 13, 19), rng.sample(range(60, 400), 3), strict=True):
                flight: dict[str, Any] = {
                    "origin": origin,
                    "target": target,
                    "date": (TODAY + timedelta(days=day)).isoformat(),
                }
                flight |= {"time": f"{hour:02d}:{rng.choice((5, 20, 40)):02d}", "price": price}
                flights.append({"id": len(flights) + 1, **flight, "seats": rng.choice((0, 2, 9, 30))})
    customers = _people(rng)
    bookings: list[dict[str, Any]] = []
    for customer in customers:
        for (origin, target), fare in zip(rng.sample(routes, 3), ("flex", "flex", "basic"), strict=True):
            flight = rng.choice(
                [flight for flight in flights if flight["origin"] == origin and flight["target"] == target]
            )
            booking = {"customer_id": customer["id"], "flight_id": flight["id"], "fare": fare, "paid": flight["price"]}
            bookings.append({"id": len(bookings) + 501, **booking, "bags": rng.randrange(2), "status": "active"})
    return _json(customers=customers, flights=flights, bookings=bookings)


def telecom(seed: int = 0) -> bytes:
    """A telephone line, bills and a telephone for each customer; a line has none, one or two faults."""
    rng = random.Random(seed_of("service/telecom", seed))
    numbers = rng.sample(range(5_000_000, 6_000_000), CUSTOMERS)
    people = [
        {"id": person["id"], "name": person["name"], "number": str(n)}
        for person, n in zip(_people(rng), numbers, strict=True)
    ]
    lines: list[dict[str, Any]] = []
    bills: list[dict[str, Any]] = []
    phones: list[dict[str, Any]] = []
    for customer in people:
        customer_id = {"customer_id": customer["id"]}
        suspended = rng.random() < 0.3
        state = {"plan": rng.choice(PLANS), "status": "suspended" if suspended else "active"}
        data_left = 0 if rng.random() < 0.3 else rng.randrange(3, 30)
        lines.append(
            {"id": customer["id"] + 100, **customer_id, **state, "roaming": rng.random() < 0.5, "data_left": data_left}
        )
        for month in ("2025-11", "2025-12"):
            paid = not (suspended and month == "2025-12")
            bills.append(
                {"id": len(bills) + 1, **customer_id, "month": month, "amount": rng.randrange(15, 80), "paid": paid}
            )
        wrong = rng.choice(("airplane_mode", "mobile_data", "roaming", ""))
        settings = {
            "airplane_mode": wrong == "airplane_mode",
            "mobile_data": wrong != "mobile_data",
            "roaming": wrong != "roaming",
        }
        phones.append({"id": customer["id"], **customer_id, **settings})
    return _json(customers=people, lines=lines, bills=bills, phones=phones)


def _people(rng: random.Random) -> list[dict[str, Any]]:
    first = rng.sample(FIRST, CUSTOMERS)
    names = [f"{name} {rng.choice(LAST)}" for name in first]
    return [
        {"id": number, "name": name, "email": f"{name.lower().replace(' ', '.')}@mail.example"}
        for number, name in enumerate(names, 1)
    ]


def _json(**tables: Any) -> bytes:
    return json.dumps({"now": NOW, "tables": tables}).encode()
