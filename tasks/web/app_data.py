"""The initial data of the web applications as JSON, the same bytes for the same seed."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

from agentgym import seed_of

from .words import CODES, address_of, words_of

PRODUCTS, MESSAGES, THREADS, EVENTS = 40, 24, 14, 12


def shop(seed: int = 0) -> bytes:
    """Products, addresses, orders and coupons of `Shop`."""
    return _json(shop_data(seed))


def mail(seed: int = 0) -> bytes:
    """Messages of `Mail`."""
    return _json(mail_data(seed))


def forum(seed: int = 0) -> bytes:
    """Topics and threads of `Forum`."""
    return _json(forum_data(seed))


def calendar(seed: int = 0) -> bytes:
    """Events of `Calendar`."""
    return _json(calendar_data(seed))


@cache
def shop_data(seed: int) -> dict[str, Any]:
    """Return a shop's data. No two products of a category share a name, a price or a rating."""
    rng, words = random.Random(seed_of("web/shop", seed)), words_of(seed)
    kinds = [(category, noun) for category, nouns in words.goods.items() for noun in nouns]
    names = [(category, f"{quality} {noun}") for category, noun in kinds for quality in words.qualities]
    chosen = rng.sample(names, PRODUCTS)
    prices = rng.sample(range(399, 19_999, 7), PRODUCTS)
    ratings = {category: rng.sample(range(10, 50), PRODUCTS) for category in words.goods}
    products = [
        {
            "id": f"P{number + 101}",
            "name": name,
            "category": category,
            "colour": rng.choice(words.colours),
            "price": prices[number],
            "rating": ratings[category][number] / 10,
            "stock": rng.randint(3, 15),
        }
        for number, (category, name) in enumerate(chosen)
    ]
    orders = [
        {
            "id": f"A{1001 + number}",
            "items": {product["id"]: rng.randint(1, 2)},
            "address": "Home",
            "status": "placed" if number else "delivered",
            "shipping": "standard",
            "coupon": "",
            "total": product["price"],
        }
        for number, product in enumerate(rng.sample(products, 4))
    ]
    return {
        "products": products,
        "addresses": ["Home", "Office", *rng.sample(words.people, 2)],
        "orders": orders,
        "coupons": dict(zip(CODES, (10, 15, 20), strict=True)),
    }


@cache
def mail_data(seed: int) -> dict[str, Any]:
    """Return a mailbox's data. No two messages share a subject, and each contains a unique number."""
    rng, words = random.Random(seed_of("web/mail", seed)), words_of(seed)
    openings = ("About", "News on", "A question on", "Reminder:")
    subjects = rng.sample([f"{opening} {matter}" for opening in openings for matter in words.matters], MESSAGES)
    numbers = rng.sample(range(1_000, 10_000), MESSAGES)
    messages = []
    for number, subject in enumerate(subjects):
        person = rng.choice(words.people)
        body = f"Hello, the reference is {numbers[number]}. We meet at {rng.choice(words.places)}. Regards, {person}"
        messages.append(
            {
                "id": str(number + 1),
                "from": f"{person} <{address_of(person, words)}>",
                "subject": subject,
                "body": body,
                "date": f"2026-03-{number + 1:02d}",
                "folder": "Inbox",
                "unread": rng.random() < 0.5,
                "starred": False,
            }
        )
    return {"messages": messages}


@cache
def forum_data(seed: int) -> dict[str, Any]:
    """Return a forum's data. No two threads share a title or a number of votes."""
    rng, words = random.Random(seed_of("web/forum", seed)), words_of(seed)
    votes = rng.sample(range(3, 90), THREADS)
    nouns = [noun.lower() for goods in words.goods.values() for noun in goods]
    titles = rng.sample([f"{form} {noun}" for form in ("Which", "Repairing a", "My first") for noun in nouns], THREADS)
    threads = [
        {
            "id": str(number + 1),
            "topic": rng.choice(words.topics),
            "title": title,
            "author": rng.choice(words.people),
            "text": f"I would like to hear about {rng.choice(words.matters)}.",
            "votes": votes[number],
            "posts": [
                {"author": rng.choice(words.people), "text": f"Try {rng.choice(words.places)}."}
                for _ in range(rng.randint(0, 3))
            ],
        }
        for number, title in enumerate(titles)
    ]
    return {"topics": list(words.topics), "threads": threads, "voted": []}


@cache
def calendar_data(seed: int) -> dict[str, Any]:
    """Return a calendar's data. No two events share a title."""
    rng, words = random.Random(seed_of("web/calendar", seed)), words_of(seed)
    pairs = [f"{occasion} with {person}" for occasion in words.occasions for person in words.people]
    events = [
        {
            "id": str(number + 1),
            "title": title,
            "date": f"2026-05-{rng.randint(1, 31):02d}",
            "time": f"{rng.randint(7, 20):02d}:{rng.choice(('00', '15', '30', '45'))}",
            "place": rng.choice(words.places),
        }
        for number, title in enumerate(rng.sample(pairs, EVENTS))
    ]
    return {"events": events}


def _json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
