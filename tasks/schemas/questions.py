"""The kinds of question that tasks ask in every domain, each with the query that answers it."""

from __future__ import annotations

import random

from .database import CITIES
from .domains import Domain
from .template import SchemaTemplate, some_bound, some_child, some_choice, some_parent

TRAIN = (
    SchemaTemplate(
        "count_choice",
        "How many {bs} have the {b_choice} '{v}'?",
        ("SELECT COUNT(*) FROM {bs} WHERE {b_choice} = '{v}'",),
        lambda d, r: {"v": some_choice(d, r)[0]},
    ),
    SchemaTemplate(
        "list_above",
        "List the {b_name} of every {b} whose {b_number} is above {n}.",
        ("SELECT {b_name} FROM {bs} WHERE {b_number} > {n}",),
        lambda d, r: {"n": some_bound(d, r)},
    ),
    SchemaTemplate(
        "count_below_in_choice",
        "How many {bs} of the {b_choice} '{v}' have a {b_number} below {n}?",
        ("SELECT COUNT(*) FROM {bs} WHERE {b_choice} = '{v}' AND {b_number} < {n}",),
        lambda d, r: {"v": some_choice(d, r)[0], "n": some_bound(d, r)},
    ),
    SchemaTemplate(
        "value_of_one",
        "What is the {b_money} of the {b} '{x}'?",
        ("SELECT {b_money} FROM {bs} WHERE {b_name} = '{x}'",),
        lambda d, r: {"x": some_child(d, r)[0]},
    ),
    SchemaTemplate(
        "parent_of_one",
        "What is the {a_name} of the {a} of the {b} '{x}'?",
        ("SELECT p.{a_name} FROM {bs} k JOIN {as} p ON p.id = k.{b_id} WHERE k.{b_name} = '{x}'",),
        lambda d, r: {"x": some_child(d, r)[0]},
        2.0,
    ),
    SchemaTemplate(
        "children_of_parent",
        "List the {b_name} of all {bs} of the {a} '{x}'.",
        ("SELECT k.{b_name} FROM {bs} k JOIN {as} p ON p.id = k.{b_id} WHERE p.{a_name} = '{x}'",),
        lambda d, r: {"x": some_parent(d, r)[0]},
        2.0,
    ),
    SchemaTemplate(
        "children_in_city",
        "How many {bs} belong to a {a} whose {a_city} is '{v}'?",
        ("SELECT COUNT(*) FROM {bs} k JOIN {as} p ON p.id = k.{b_id} WHERE p.{a_city} = '{v}'",),
        lambda d, r: {"v": r.choice(CITIES)},
        2.0,
    ),
    SchemaTemplate(
        "average_by_choice",
        "For each {b_choice} that has {bs} with a {b_number} above {n}, give it and their average {b_money}.",
        ("SELECT {b_choice}, AVG({b_money}) FROM {bs} WHERE {b_number} > {n} GROUP BY {b_choice}",),
        lambda d, r: {"n": some_bound(d, r)},
        2.0,
    ),
    SchemaTemplate(
        "sorted_choice",
        "List the {b_name} and {b_number} of the {bs} of the {b_choice} '{v}' with a {b_number} above "
        "{n}, highest {b_number} first.",
        (
            "SELECT {b_name}, {b_number} FROM {bs} WHERE {b_choice} = '{v}' AND {b_number} > {n} "
            "ORDER BY {b_number} DESC",
        ),
        lambda d, r: {"v": some_choice(d, r)[0], "n": some_bound(d, r)},
        2.0,
    ),
    SchemaTemplate(
        "above_average",
        "Which {bs} of the {b_choice} '{v}' have a {b_money} above the average {b_money} of all {bs}? "
        "Give their {b_name}.",
        ("SELECT {b_name} FROM {bs} WHERE {b_choice} = '{v}' AND {b_money} > (SELECT AVG({b_money}) FROM {bs})",),
        lambda d, r: {"v": some_choice(d, r)[0]},
        2.0,
    ),
    SchemaTemplate(
        "events_of_one",
        "How many {cs} does the {b} '{x}' have?",
        ("SELECT COUNT(*) FROM {cs} e JOIN {bs} k ON k.id = e.{c_id} WHERE k.{b_name} = '{x}'",),
        lambda d, r: {"x": some_child(d, r)[0]},
        2.0,
    ),
    SchemaTemplate(
        "busy_children",
        "Give the {b_name} of every {b} of the {b_choice} '{v}' that has at least {k} {cs}.",
        (
            "SELECT k.{b_name} FROM {bs} k JOIN {cs} e ON e.{c_id} = k.id WHERE k.{b_choice} = '{v}' "
            "GROUP BY k.id, k.{b_name} HAVING COUNT(*) >= {k}",
        ),
        lambda d, r: {"v": some_choice(d, r)[0], "k": r.randrange(2, 5)},
        3.0,
    ),
    SchemaTemplate(
        "total_of_parent",
        "What is the total {c_number} of all {cs} of {bs} of the {a} '{x}'?",
        (
            "SELECT SUM(e.{c_number}) FROM {cs} e JOIN {bs} k ON k.id = e.{c_id} JOIN {as} p ON p.id = k.{b_id} "
            "WHERE p.{a_name} = '{x}'",
        ),
        lambda d, r: {"x": some_parent(d, r)[0]},
        3.0,
    ),
)

HELD_OUT = (
    SchemaTemplate(
        "without_events",
        "Which {bs} of the {b_choice} '{v}' have no {c}? Give their {b_name}.",
        ("SELECT {b_name} FROM {bs} WHERE {b_choice} = '{v}' AND id NOT IN (SELECT {c_id} FROM {cs})",),
        lambda d, r: {"v": some_choice(d, r)[0]},
        2.0,
    ),
    SchemaTemplate(
        "both_choices",
        "Which {as} have both {bs} of the {b_choice} '{v}' and of the {b_choice} '{w}'? Give their {a_name}.",
        (
            "SELECT {a_name} FROM {as} WHERE id IN (SELECT {b_id} FROM {bs} WHERE {b_choice} = '{v}') "
            "AND id IN (SELECT {b_id} FROM {bs} WHERE {b_choice} = '{w}')",
        ),
        lambda d, r: dict(zip("vw", some_choice(d, r, 2), strict=True)),
        3.0,
    ),
    SchemaTemplate(
        "highest_of_parent",
        "Which {b} of the {a} '{x}' has the highest {b_money}? Give its {b_name}.",
        (
            "SELECT k.{b_name} FROM {bs} k JOIN {as} p ON p.id = k.{b_id} WHERE p.{a_name} = '{x}' "
            "AND k.{b_money} = (SELECT MAX(o.{b_money}) FROM {bs} o WHERE o.{b_id} = p.id)",
        ),
        lambda d, r: {"x": some_parent(d, r)[0]},
        3.0,
    ),
    SchemaTemplate(
        "events_by_parent",
        "For each {a} whose {a_number} is above {n}, give its {a_name} and the number of {cs} of its {bs}, 0 included.",
        (
            "SELECT p.{a_name}, COUNT(e.id) FROM {as} p LEFT JOIN {bs} k ON k.{b_id} = p.id "
            "LEFT JOIN {cs} e ON e.{c_id} = k.id WHERE p.{a_number} > {n} GROUP BY p.id, p.{a_name}",
        ),
        lambda d, r: {"n": _parent_bound(d, r)},
        3.0,
    ),
    SchemaTemplate(
        "events_between",
        "How many {cs} of {bs} of the {b_choice} '{v}' were from {f} to {t}, both included?",
        (
            "SELECT COUNT(*) FROM {cs} e JOIN {bs} k ON k.id = e.{c_id} WHERE k.{b_choice} = '{v}' "
            "AND e.{c_day} BETWEEN '{f}' AND '{t}'",
        ),
        lambda d, r: {
            "v": some_choice(d, r)[0],
            "f": f"2022-{r.randrange(1, 13):02d}-01",
            "t": f"2023-{r.randrange(1, 13):02d}-15",
        },
        3.0,
    ),
)


def _parent_bound(domain: Domain, rng: random.Random) -> int:
    column = domain.parent.of_kind("number", "year")[0]
    low, high = (1900, 2020) if column.kind == "year" else (column.low, column.high)
    return rng.randrange(low, low + (high - low) * 3 // 4)
