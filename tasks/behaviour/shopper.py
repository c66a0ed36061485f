"""The shopper: habits that depend on a page's contents, the resulting session, and whether a log reveals them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations, product

from .shop import (
    BUY,
    CLICK,
    FILTERS,
    LEAVE,
    NEXT_PAGE,
    PRICES,
    SORTS,
    TO_BASKET,
    TYPE,
    Product,
    ShopPage,
    ShopperAction,
)

MANY = 7
"""Some shoppers filter or sort only if there are more results than this."""
MAX_PAGES = 3
"""The most pages of results that a shopper looks at."""

WORDINGS = ("{kind}", "{colour} {kind}", "{brand} {kind}", "cheap {kind}")
NEW_WORDINGS = ("{brand} {colour} {kind}", "{kind} {colour}")

Fit = Callable[[Product, ShopPage, str], bool]
ANYTHING, COLOUR, BRAND = "anything", "of the colour that is needed", "of the brand"


def _below(limit: int) -> Fit:
    return lambda p, page, brand: p.price < limit


FITS: dict[str, Fit] = {
    ANYTHING: lambda p, page, brand: True,
    COLOUR: lambda p, page, brand: p.colour == page.colour,
    BRAND: lambda p, page, brand: p.brand == brand,
    **{f"below {price} EUR": _below(price) for price in PRICES},
}
Order = Callable[[Product], float]
CHOICES: dict[str, Order] = {
    "first": lambda p: 0.0,
    "cheapest": lambda p: p.price,
    "best rated": lambda p: -p.stars,
}
NEW_CHOICES: dict[str, Order] = {"most reviewed": lambda p: -p.reviews}
Condition = Callable[[Product], bool]
CONDITIONS: dict[str, Condition] = {
    "whatever the page says": lambda p: True,
    "if delivery takes at most 3 days": lambda p: p.delivery <= 3,
    "if returns are free": lambda p: p.free_returns,
}
NEW_CONDITIONS: dict[str, Condition] = {"if there are at least 150 reviews": lambda p: p.reviews >= 150}
_WORDINGS = (*WORDINGS, *NEW_WORDINGS)
_CHOICES, _CONDITIONS = CHOICES | NEW_CHOICES, CONDITIONS | NEW_CONDITIONS


@dataclass(frozen=True, slots=True)
class Refinement:
    """A filter or sort order that is always chosen or, if `many`, only if there are more than MANY results."""

    action: ShopperAction
    many: bool


@dataclass(frozen=True, slots=True)
class Habits:
    """A shopper's habits on each page.

    Attributes:
        brand: the brand that `wording` and `fit` may use.
        wording: the form of the search text.
        refinements: the filters and sort orders to choose, in sequence.
        fit: the rule by which products are considered.
        choice: the rule by which one of these is opened.
        pages: the number of pages of results looked at before leaving.
        condition: when the opened product is bought.
        purchase: the action that buys it.
    """

    brand: str
    wording: str
    refinements: tuple[Refinement, ...]
    fit: str
    choice: str
    pages: int
    condition: str
    purchase: ShopperAction

    def search(self, page: ShopPage) -> ShopperAction:
        """Return the action that types the search text on the first page."""
        text = self.wording.format(brand=self.brand, colour=page.colour, kind=page.kind)
        return ShopperAction(TYPE, "search box", text)

    def refine(self, page: ShopPage) -> ShopperAction | None:
        """Return the next filter or sort order to choose on the first page of results; None if there is none."""
        if page.number > 1:
            return None
        refinements = self.refinements
        while any(own.action in page.refined for own in refinements):
            refinements = refinements[1:]
        for own in refinements:
            if not own.many or len(page.results) > MANY:
                return own.action
        return None

    def pick(self, page: ShopPage) -> ShopperAction:
        """Return the action that opens the chosen product; if none on the page fits, the one that goes on or leaves."""
        fits = FITS[self.fit]
        if fitting := [each for each in page.visible if fits(each, page, self.brand)]:
            return ShopperAction(CLICK, "product", min(fitting, key=_CHOICES[self.choice]).name)
        return NEXT_PAGE if page.number < min(self.pages, page.pages) else LEAVE

    def decide(self, page: ShopPage) -> ShopperAction:
        """Return the action on the page of the opened product."""
        if page.opened is None:
            raise ValueError("No product is open.")
        return self.purchase if _CONDITIONS[self.condition](page.opened) else LEAVE

    def act(self, page: ShopPage) -> ShopperAction:
        """Return the shopper's action on a page."""
        if not page.query:
            return self.search(page)
        if page.in_basket:
            return LEAVE
        if page.opened is not None:
            return self.decide(page)
        return self.refine(page) or self.pick(page)

    def reason(self, page: ShopPage) -> str:
        """Return the reason for the shopper's action on a page, in a sentence."""
        if not page.query:
            return f"Searches for {self.wording.format(brand=self.brand, colour='colour', kind='kind')}."
        if page.in_basket:
            return "Leaves with the product in the basket."
        if page.opened is not None:
            return f"Takes it {self.condition}."
        if (refinement := self.refine(page)) is not None:
            many = any(own.action == refinement and own.many for own in self.refinements)
            return f"Refines {f'more than {MANY} results' if many else 'all results'} by {refinement.value}."
        fit = f"{BRAND} {self.brand}" if self.fit == BRAND else self.fit
        return f"Opens the {self.choice} product, {fit}; looks at {self.pages} pages at most."


Session = list[tuple[ShopPage, ShopperAction]]
"""Each page of a session, and the action taken there."""


def session(habits: Habits, page: ShopPage | None) -> Session:
    """Return the pages from this one to the end of the session, each with the shopper's action."""
    steps: Session = []
    while page is not None:
        steps.append((page, action := habits.act(page)))
        page = page.after(action)
    return steps


def draw_habits(
    rng: random.Random,
    brands: Sequence[str],
    wordings: Sequence[str] = WORDINGS,
    choices: Sequence[str] = tuple(CHOICES),
    conditions: Sequence[str] = tuple(CONDITIONS),
) -> Habits:
    """Draw habits at random."""
    refining = [rng.choice(FILTERS), rng.choice(SORTS)]
    rng.shuffle(refining)
    return Habits(
        brand=rng.choice(brands),
        wording=rng.choice(wordings),
        refinements=tuple(Refinement(action, rng.random() < 0.5) for action in refining[: rng.randrange(3)]),
        fit=rng.choice(tuple(FITS)),
        choice=rng.choice(choices),
        pages=rng.randrange(1, MAX_PAGES + 1),
        condition=rng.choice(conditions),
        purchase=rng.choice((BUY, TO_BASKET)),
    )


HabitsByKind = Mapping[str, Sequence[Habits]]
"""Possible habits by the decision that they determine: search, refine, pick or decide."""
Decisions = Sequence[tuple[ShopPage, ShopperAction | None]]
"""Pages with the action taken on each; in decisions to refine, None if the shopper did not refine."""
_ACT: Mapping[str, Callable[[Habits, ShopPage], ShopperAction | None]] = {
    "search": Habits.search,
    "refine": Habits.refine,
    "pick": Habits.pick,
    "decide": Habits.decide,
}


def consistent(habits: HabitsByKind, past: Session) -> HabitsByKind:
    """Return those of the habits that agree with all decisions of a past session.

    A decision depends on habits of one kind only, so the kinds are tested separately.
    """
    decisions = _decisions(past)
    return {kind: _agreeing(kind, habits[kind], decisions[kind]) for kind in _ACT}


def all_foretell(habits: HabitsByKind, present: Session) -> bool:
    """Return whether each of these habits leads to the session's decisions: then a log that is consistent with these
    habits only predicts the session.
    """
    decisions = _decisions(present)
    return all(len(_agreeing(kind, habits[kind], decisions[kind])) == len(habits[kind]) for kind in _ACT)


def _agreeing(kind: str, habits: Sequence[Habits], decisions: Decisions) -> Sequence[Habits]:
    act = _ACT[kind]
    for page, action in decisions:
        habits = [own for own in habits if act(own, page) == action]
    return habits


def _decisions(steps: Session) -> Mapping[str, Decisions]:
    """Return the decisions of each kind in a session."""
    decisions: dict[str, list[tuple[ShopPage, ShopperAction | None]]] = {kind: [] for kind in _ACT}
    for page, action in steps:
        if not page.query:
            decisions["search"].append((page, action))
        elif page.opened is None:
            decisions["refine"].append((page, action if action.refines else None))
            if not action.refines:
                decisions["pick"].append((page, action))
        elif not page.in_basket:
            decisions["decide"].append((page, action))
    return decisions


@cache
def all_habits(brands: tuple[str, ...]) -> HabitsByKind:
    """Return all possible habits."""
    plain = Habits(brands[0], WORDINGS[0], (), ANYTHING, "first", 1, next(iter(CONDITIONS)), BUY)
    wordings = [(text, brand) for text in _WORDINGS for brand in (brands if "{brand}" in text else brands[:1])]
    refining = [Refinement(action, many) for action in (*FILTERS, *SORTS) for many in (False, True)]
    fits = [(fit, brand) for fit in FITS for brand in (brands if fit == BRAND else brands[:1])]
    picking = product(fits, _CHOICES, range(1, MAX_PAGES + 1))
    return {
        "search": [replace(plain, wording=text, brand=brand) for text, brand in wordings],
        "refine": [replace(plain, refinements=own) for length in range(3) for own in permutations(refining, length)],
        "pick": [replace(plain, fit=fit, brand=brand, choice=choice, pages=n) for (fit, brand), choice, n in picking],
        "decide": [replace(plain, condition=text, purchase=own) for text in _CONDITIONS for own in (BUY, TO_BASKET)],
    }
