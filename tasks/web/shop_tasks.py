"""Tasks in the shop."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from .plan import Step, TaskPlan, WebTemplate, button, chosen, done, link, typed

SHIPPING = {"standard": "Standard", "express": "Express", "pickup": "Pick up at the store"}
Data = Mapping[str, Any]


def _find(name: str) -> tuple[Step, ...]:
    return (typed("Search", name), button("Show"), link(name))


def _put(name: str, number: int) -> tuple[Step, ...]:
    quantity = (typed("Quantity", str(number)),) if number != 1 else ()
    return (*_find(name), *quantity, button("Add to cart"))


def _order(data: Data, items: Mapping[str, int], address: str, shipping: str, code: str = "") -> dict[str, Any]:
    prices = {product["id"]: product["price"] for product in data["products"]}
    total = sum(number * prices[key] for key, number in items.items())
    total -= total * data["coupons"].get(code, 0) // 100
    return {
        "items": dict(items),
        "status": "placed",
        "address": address,
        "shipping": shipping,
        "coupon": code,
        "total": total,
    }


def _checkout(address: str, shipping: str) -> tuple[Step, ...]:
    return (
        link("Go to checkout"),
        chosen("Deliver to", address),
        chosen("Shipping", SHIPPING[shipping]),
        button("Place order"),
        done(),
    )


def _other(rng: random.Random, options: Any, but: Any) -> Any:
    return rng.choice([option for option in options if option != but])


def _buy(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    product, number = rng.choice(data["products"]), rng.randint(1, 3)
    address, shipping = rng.choice(data["addresses"]), rng.choice(list(SHIPPING))
    effects = {"ordered": [_order(data, {product["id"]: number}, address, shipping)]}
    start = _put(product["name"], number)
    return TaskPlan(
        f"Buy {number} x {product['name']}, delivered to {address}, shipping: {SHIPPING[shipping]}.",
        (*start, *_checkout(address, shipping)),
        effects,
        wrong=(*start, *_checkout(_other(rng, data["addresses"], address), shipping)),
    )


def _buy_two(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    first, second = rng.sample(data["products"], 2)
    address, shipping = rng.choice(data["addresses"]), rng.choice(list(SHIPPING))
    items = dict.fromkeys(sorted((first["id"], second["id"])), 1)
    return TaskPlan(
        f"Order the {first['name']} and the {second['name']} together, to {address}, shipping: {SHIPPING[shipping]}.",
        (*_put(first["name"], 1), link("Products"), *_put(second["name"], 1), *_checkout(address, shipping)),
        {"ordered": [_order(data, items, address, shipping)]},
        wrong=(*_put(first["name"], 1), *_checkout(address, shipping)),
    )


def _cheapest(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    category = rng.choice(sorted({product["category"] for product in data["products"]}))
    by_price = sorted((p for p in data["products"] if p["category"] == category), key=lambda product: product["price"])
    address, shipping = rng.choice(data["addresses"]), rng.choice(list(SHIPPING))
    sorted_by_price = (chosen("Category", category), chosen("Sort by", "Price, low to high"), button("Show"))
    return TaskPlan(
        f"Buy the cheapest product of the category {category}, to {address}, shipping: {SHIPPING[shipping]}.",
        (*sorted_by_price, link(by_price[0]["name"]), button("Add to cart"), *_checkout(address, shipping)),
        {"ordered": [_order(data, {by_price[0]["id"]: 1}, address, shipping)]},
        wrong=(*sorted_by_price, link(by_price[1]["name"]), button("Add to cart"), *_checkout(address, shipping)),
    )


def _price(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    product = rng.choice(data["products"])
    price = f"{product['price'] // 100}.{product['price'] % 100:02d}"
    start = (typed("Search", product["name"]), button("Show"))
    return TaskPlan(
        f"What does the {product['name']} cost?",
        (*start, done(price)),
        {},
        price,
        (*start, done(str(product["rating"]))),
    )


def _best(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    category = rng.choice(sorted({product["category"] for product in data["products"]}))
    by_rating = sorted(
        (p for p in data["products"] if p["category"] == category), key=lambda product: -product["rating"]
    )
    start = (chosen("Category", category), chosen("Sort by", "Rating"), button("Show"))
    best, second = by_rating[0]["name"], by_rating[1]["name"]
    return TaskPlan(
        f"Which product of the category {category} has the highest rating?",
        (*start, done(best)),
        {},
        best,
        (*start, done(second)),
    )


def _wish(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    product, wrong_product = rng.sample(data["products"], 2)
    return TaskPlan(
        f"Put the {product['name']} on the wish list.",
        (*_find(product["name"]), button("Add to wish list"), done()),
        {"wishes": [product["id"]]},
        wrong=(*_find(wrong_product["name"]), button("Add to wish list"), done()),
    )


def _cancel(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    order = rng.choice([order for order in data["orders"] if order["status"] == "placed"])
    wrong_order = _other(rng, [o for o in data["orders"] if o["status"] == "placed"], order)
    return TaskPlan(
        f"Cancel the order {order['id']}.",
        (link("Orders"), link(f"Order {order['id']}"), button("Cancel order"), done()),
        {"cancelled": [order["id"]]},
        wrong=(link("Orders"), link(f"Order {wrong_order['id']}"), button("Cancel order"), done()),
    )


def _coupon(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    product, address, code = (
        rng.choice(data["products"]),
        rng.choice(data["addresses"]),
        rng.choice(list(data["coupons"])),
    )
    shipping = rng.choice(list(SHIPPING))
    start = _put(product["name"], 1)
    return TaskPlan(
        f"Buy the {product['name']} with the coupon {code}, to {address}, shipping: {SHIPPING[shipping]}.",
        (*start, typed("Coupon", code), button("Apply coupon"), *_checkout(address, shipping)),
        {"ordered": [_order(data, {product["id"]: 1}, address, shipping, code)]},
        wrong=(*start, *_checkout(address, shipping)),
    )


def _stock(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    product = rng.choice(data["products"])
    return TaskPlan(
        f"What is the article number of the {product['name']}?",
        (*_find(product["name"]), done(product["id"])),
        {},
        product["id"],
        (*_find(product["name"]), done(product["colour"])),
    )


SHOP = (
    WebTemplate("buy", "shop", _buy, difficulty=3),
    WebTemplate("buy_two", "shop", _buy_two, difficulty=4),
    WebTemplate("buy_cheapest", "shop", _cheapest, difficulty=3),
    WebTemplate("price", "shop", _price, difficulty=1),
    WebTemplate("best_rated", "shop", _best, difficulty=2),
    WebTemplate("wish", "shop", _wish, difficulty=1),
    WebTemplate("cancel", "shop", _cancel, difficulty=1),
    WebTemplate("coupon", "shop", _coupon, held_out=True, difficulty=4),
    WebTemplate("article_number", "shop", _stock, held_out=True, difficulty=2),
)
