"""The texts of requests, and the statements that fulfil them."""

from __future__ import annotations

import random

from agentgym import Task

from ..request_forms import Parts, RequestForms

ITEMS = ("fig", "nut", "tea", "oil", "rye", "oat", "ham", "jam")
CITIES = ("bern", "bonn", "cork", "lima", "oslo", "pisa", "riga", "rome")
FORMS = {
    "count": ("Count {item} in {city}.", "select {item} from stock where city='{city}'"),
    "which": ("Which city has {number} {item}?", "select city from stock where {item}={number}"),
    "set": ("Set {item} in {city} to {number}.", "update stock set {item}={number} where city='{city}'"),
    "add": ("Add {number} {item} in {city}.", "update stock set {item}={item}+{number} where city='{city}'"),
}


def _mistaken(_task: Task, _kind: str, parts: Parts, rng: random.Random) -> Parts:
    """Return the parts with another item or, if there is a city, another city."""
    part, names = ("city", CITIES) if "city" in parts and rng.random() < 0.5 else ("item", ITEMS)
    return {**parts, part: rng.choice([name for name in names if name != parts[part]])}


REQUESTS = RequestForms(FORMS, tool="sql", argument="statement", mistaken=_mistaken)
