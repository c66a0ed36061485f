"""The shop: products, pages, and the actions on each page.

A page shows everything on which a shopper's habits depend.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

PAGE_SIZE = 3
"""Number of products on one page of results."""
PRICES = (20, 40, 60)
"""The price limits, in euros, of the filters."""
GOOD_STARS = 4.0

TYPE, CLICK, TERMINATE = "type_and_submit", "click", "terminate"


class ShopperAction(NamedTuple):
    """A shopper's action: its type, its target's kind, and the target's name or the typed text."""

    type: str
    target: str = ""
    value: str = ""

    @property
    def refines(self) -> bool:
        """Return whether the action filters or sorts results."""
        return self.target in ("filter", "sort")

    def __str__(self) -> str:
        return f"{self.type} {self.target}: {self.value}" if self.target else self.type

    @classmethod
    def read(cls, text: str) -> ShopperAction:
        """Parse an action from its text."""
        kind, _, element = text.partition(" ")
        target, _, value = element.partition(": ")
        return cls(kind, target, value)


@dataclass(frozen=True, slots=True)
class Product:
    """A product. Price in euros, delivery in days."""

    brand: str
    colour: str
    kind: str
    price: int
    stars: float
    reviews: int
    delivery: int
    free_returns: bool

    @property
    def name(self) -> str:
        return f"{self.brand} {self.colour} {self.kind}"


NEXT_PAGE, LEAVE = ShopperAction(CLICK, "link", "next page"), ShopperAction(TERMINATE)
BUY, TO_BASKET = ShopperAction(CLICK, "button", "buy now"), ShopperAction(CLICK, "button", "add to basket")
FILTERS = tuple(ShopperAction(CLICK, "filter", text) for text in (*(f"under {price}" for price in PRICES), "4 stars"))
SORTS = tuple(ShopperAction(CLICK, "sort", text) for text in ("price", "rating", "reviews"))
ELEMENTS = "search box; filter: {}; sort: {}; product; link: next page; button: buy now, add to basket".format(
    *(", ".join(action.value for action in actions) for actions in (FILTERS, SORTS))
)
"""The elements that can be acted on, as a task's instruction lists them."""


@dataclass(frozen=True)
class ShopPage:
    """One page of a session, as the shopper sees it.

    Attributes:
        kind, colour: the needed product. stock: all products of this kind, in the shop's own order.
        query: the search text; empty on the first page.
        refined: the filters and sort orders chosen so far, in sequence. number: the number of this page of results,
            from 1.
        opened: the product whose page it is. in_basket: whether it was added to the basket.
    """

    kind: str
    colour: str
    stock: tuple[Product, ...]
    query: str = ""
    refined: tuple[ShopperAction, ...] = ()
    number: int = 1
    opened: Product | None = None
    in_basket: bool = False

    @cached_property
    def results(self) -> list[Product]:
        """Return the results of all pages, filtered and sorted as chosen; by default those that share most words with
        the query come first.
        """
        words = set(self.query.split())
        products = sorted(self.stock, key=lambda product: -len(words & set(product.name.split())))
        for action in self.refined:
            products = _refined(products, action)
        return products

    @cached_property
    def pages(self) -> int:
        """Return the number of pages of results; 1 if there is no result."""
        return max(1, -(-len(self.results) // PAGE_SIZE))

    @cached_property
    def visible(self) -> list[Product]:
        """Return the results on this page."""
        return self.results[(self.number - 1) * PAGE_SIZE : self.number * PAGE_SIZE]

    @property
    def heading(self) -> str:
        """Return the first line of a page of results."""
        return f"{len(self.results)} results, page {self.number} of {self.pages}"

    def after(self, action: ShopperAction) -> ShopPage | None:
        """Return the page that an action leads to; None if the session ends."""
        if action.type == TERMINATE or action == BUY:
            return None
        if action.type == TYPE:
            return replace(self, query=action.value)
        if action == TO_BASKET:
            return replace(self, in_basket=True)
        if action == NEXT_PAGE:
            return replace(self, number=self.number + 1)
        if action.target == "product":
            return replace(self, opened=next(product for product in self.stock if product.name == action.value))
        return replace(self, refined=(*self.refined, action))

    def __str__(self) -> str:
        if not self.query:
            return "Start page"
        if self.in_basket:
            return "Basket: 1 product"
        if (product := self.opened) is not None:
            returns = "free returns" if product.free_returns else "no returns"
            return (
                f"{product.name}, {product.price} EUR, {product.stars} stars, {product.reviews} reviews, "
                f"delivery in {product.delivery} days, {returns}"
            )
        lines = [f"{p.name}, {p.price} EUR, {p.stars} stars, {p.reviews} reviews" for p in self.visible]
        return "\n".join([self.heading, *lines])


def _refined(products: list[Product], action: ShopperAction) -> list[Product]:
    if action.target == "filter":
        limit = int(action.value.split()[1]) if action.value.startswith("under") else None
        return [p for p in products if (p.price < limit if limit is not None else p.stars >= GOOD_STARS)]
    keys = {"price": lambda p: p.price, "rating": lambda p: -p.stars, "reviews": lambda p: -p.reviews}
    return sorted(products, key=keys[action.value])


def stock_of(rng: random.Random, kind: str, brands: Sequence[str], colours: Sequence[str]) -> tuple[Product, ...]:
    """Return four to twelve products of a kind.

    No two have the same brand and colour, the same price, or the same number of reviews.
    """
    count = rng.randrange(4, 13)
    names = rng.sample([(brand, colour) for brand in brands for colour in colours], count)
    prices, reviews = rng.sample(range(8, 90), count), rng.sample(range(5, 400), count)
    stars = rng.sample(range(30, 50), count)
    return tuple(
        Product(brand, colour, kind, price, star / 10, review, rng.randrange(1, 7), rng.random() < 0.5)
        for (brand, colour), price, star, review in zip(names, prices, stars, reviews, strict=True)
    )
