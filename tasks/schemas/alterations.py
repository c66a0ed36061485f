"""The kinds of change that tasks ask for in every domain, each with its SQL statements."""

from __future__ import annotations

import random

from .template import SchemaTemplate, some_bound, some_child, some_choice, some_parent


def _money(rng: random.Random) -> str:
    return f"{rng.randrange(600, 900)}.5"


TRAIN = (
    SchemaTemplate(
        "set_money",
        "Set the {b_money} of the {b} '{x}' to {n}.",
        ("UPDATE {bs} SET {b_money} = {n} WHERE {b_name} = '{x}'",),
        lambda d, r: {"x": some_child(d, r)[0], "n": _money(r)},
    ),
    SchemaTemplate(
        "rename_parent",
        "Rename the {a} '{x}' to '{y} {k}'.",
        ("UPDATE {as} SET {a_name} = '{y} {k}' WHERE {a_name} = '{x}'",),
        lambda d, r: {**dict(zip("xy", some_parent(d, r, 2), strict=True)), "k": r.randrange(2, 90)},
    ),
    SchemaTemplate(
        "add_parent",
        "Add a {a} with the id {k}, the {a_name} '{y} {k}', the {a_city} 'Oslo' and the {a_number} {n}.",
        ("INSERT INTO {as} (id, {a_name}, {a_city}, {a_number}) VALUES ({k}, '{y} {k}', 'Oslo', {n})",),
        lambda d, r: {"k": r.randrange(100, 900), "y": some_parent(d, r)[0], "n": r.randrange(5, 500)},
    ),
    SchemaTemplate(
        "raise_choice",
        "Raise the {b_money} of every {b} of the {b_choice} '{v}' by {n}.",
        ("UPDATE {bs} SET {b_money} = {b_money} + {n} WHERE {b_choice} = '{v}'",),
        lambda d, r: {"v": some_choice(d, r)[0], "n": r.randrange(1, 200)},
    ),
    SchemaTemplate(
        "set_where_above",
        "Set the {b_choice} of every {b} whose {b_number} is above {n} to '{v}'.",
        ("UPDATE {bs} SET {b_choice} = '{v}' WHERE {b_number} > {n}",),
        lambda d, r: {"v": some_choice(d, r)[0], "n": some_bound(d, r)},
    ),
    SchemaTemplate(
        "delete_events",
        "Delete all {cs} of the {b} '{x}'.",
        ("DELETE FROM {cs} WHERE {c_id} = (SELECT id FROM {bs} WHERE {b_name} = '{x}')",),
        lambda d, r: {"x": some_child(d, r)[0]},
        2.0,
    ),
    SchemaTemplate(
        "move_children",
        "Move every {b} of the {b_choice} '{v}' from the {a} '{x}' to the {a} '{y}'.",
        (
            "UPDATE {bs} SET {b_id} = (SELECT id FROM {as} WHERE {a_name} = '{y}') WHERE {b_choice} = '{v}' "
            "AND {b_id} = (SELECT id FROM {as} WHERE {a_name} = '{x}')",
        ),
        lambda d, r: {"v": some_choice(d, r)[0], **dict(zip("xy", some_parent(d, r, 2), strict=True))},
        2.0,
    ),
    SchemaTemplate(
        "delete_child",
        "Delete the {b} '{x}' together with its {cs}.",
        (
            "DELETE FROM {cs} WHERE {c_id} = (SELECT id FROM {bs} WHERE {b_name} = '{x}')",
            "DELETE FROM {bs} WHERE {b_name} = '{x}'",
        ),
        lambda d, r: {"x": some_child(d, r)[0]},
        2.0,
    ),
)

HELD_OUT = (
    SchemaTemplate(
        "swap_money",
        "Swap the {b_money} of the {b} '{x}' and the {b} '{y}'.",
        (
            "UPDATE {bs} SET {b_money} = (SELECT SUM(o.{b_money}) FROM {bs} o WHERE o.{b_name} IN ('{x}', '{y}')) "
            "- {b_money} WHERE {b_name} IN ('{x}', '{y}')",
        ),
        lambda d, r: dict(zip("xy", some_child(d, r, 2), strict=True)),
        2.0,
    ),
    SchemaTemplate(
        "merge_parents",
        "Give every {b} of the {a} '{x}' to the {a} '{y}', then delete the {a} '{x}'.",
        (
            "UPDATE {bs} SET {b_id} = (SELECT id FROM {as} WHERE {a_name} = '{y}') "
            "WHERE {b_id} = (SELECT id FROM {as} WHERE {a_name} = '{x}')",
            "DELETE FROM {as} WHERE {a_name} = '{x}'",
        ),
        lambda d, r: dict(zip("xy", some_parent(d, r, 2), strict=True)),
        3.0,
    ),
    SchemaTemplate(
        "delete_below_average",
        "Delete every {c} of {bs} of the {b_choice} '{v}' whose {c_number} is below the "
        "average {c_number} of all {cs}.",
        (
            "DELETE FROM {cs} WHERE {c_number} < (SELECT AVG({c_number}) FROM {cs}) "
            "AND {c_id} IN (SELECT id FROM {bs} WHERE {b_choice} = '{v}')",
        ),
        lambda d, r: {"v": some_choice(d, r)[0]},
        3.0,
    ),
    SchemaTemplate(
        "new_table",
        "Make a table called {t} with the columns {b_choice} and total: one row for each {b_choice} of "
        "the {bs} whose {b_number} is above {n}, with how many there are.",
        (
            "CREATE TABLE {t} AS SELECT {b_choice}, COUNT(*) AS total FROM {bs} WHERE {b_number} > {n} "
            "GROUP BY {b_choice}",
        ),
        lambda d, r: {"t": f"totals_{r.randrange(10, 99)}", "n": some_bound(d, r)},
        2.0,
    ),
)
