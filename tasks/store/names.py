"""The names in the store, made of common pieces, and the same for every seed of the database.

Because the pieces are common, a small byte-pair vocabulary writes any name in a few tokens, and a name that a policy
has never seen still consists of pieces that it has seen.
"""

# ruff: noqa: SIM905 - a list of words is easier to read as one string that is split

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

from agentgym import seed_of

FIRST = (
    "Ada Alan Amir Anna Bela Boris Carla Chen Clara Dana David Dora Elena Emil Eric Eva Felix Fiona Gina Hana Hugo "
    "Ida Ines Ivan Jack Jana Jonas Julia Karl Lara Leo Lina Luca Maria Mark Mira Nadia Nina Nora Omar Otto Paul Petra "
    "Rosa Sam Sara Simon Tara Tom Vera"
).split()
LAST = (
    "Adler Baker Barnes Becker Berg Bond Brook Carter Clark Cole Cook Dean Fisher Ford Fox Frost Gray Green Hall Hart "
    "Hill Holt Hunt King Lake Lane Long Marsh Mason Miller Moss Noble Page Park Price Reed Rose Shaw Stone Swan Vance "
    "Wade Walker Ward Wells West White Winter Wood Young"
).split()
STYLE = (
    "Amber Blue Bright Classic Copper Coral Cotton Folding Glass Grand Green Ivory Large Light Linen Metal Mini Modern "
    "Oak Pine Plain Red Rustic Silver Slim Small Smart Soft Steel Stone Strong Travel Velvet Walnut White"
).split()
THING = (
    "Bag Basket Bench Blanket Board Bottle Bowl Box Cabinet Candle Chair Clock Cup Desk Frame Jar Kettle Knife Lamp "
    "Mat Mirror Mug Pan Pillow Plate Rug Shelf Sofa Stool Table Tray Vase"
).split()
HOUSE = (
    "Alder Atlas Baltic Beacon Bright Cedar Central Coast Crown Delta Eagle East Elm Falcon Garden Harbor Iron Lake "
    "Maple Metro North Ocean Pearl Pine Prime River Royal Silver South Star Summit Union Valley West"
).split()
TRADE = "Brothers Company Export Goods Group House Imports Supply Trading Works".split()

COUNTS = {"customer": 1200, "product": 700, "supplier": 300, "employee": 400, "order": 1300}


@dataclass(frozen=True, slots=True)
class Cast:
    """Names by kind, in the order of the database's rows. The name of an order is its code."""

    customer: tuple[str, ...]
    product: tuple[str, ...]
    supplier: tuple[str, ...]
    employee: tuple[str, ...]
    order: tuple[str, ...]


def cast() -> Cast:
    """Return the store's people, goods, firms and orders, the same for every seed of the database."""
    rng = random.Random(seed_of("sql/store", "names"))
    people = rng.sample(_pairs(FIRST, LAST), COUNTS["customer"] + COUNTS["employee"])
    return Cast(
        customer=tuple(people[: COUNTS["customer"]]),
        product=tuple(rng.sample(_pairs(STYLE, THING), COUNTS["product"])),
        supplier=tuple(rng.sample(_pairs(HOUSE, TRADE), COUNTS["supplier"])),
        employee=tuple(people[COUNTS["customer"] :]),
        order=tuple(f"SO-{number}" for number in rng.sample(range(10_000, 100_000), COUNTS["order"])),
    )


def _pairs(heads: list[str], tails: list[str]) -> list[str]:
    return [f"{head} {tail}" for head, tail in itertools.product(heads, tails)]
