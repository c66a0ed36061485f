"""The asset `sql/schemas`: an SQLite database of one domain, the same bytes for the same seed."""

# ruff: noqa: SIM905 - `"a b c".split()` is easier to read than quoted words

from __future__ import annotations

import itertools
import random
import sqlite3
from contextlib import closing
from datetime import date, timedelta
from functools import lru_cache

from agentgym import TaskError, seed_of

from .domains import Column, Domain, Table, domains

VARIANTS = 10
"""The number of databases per domain. Seed `n` is variant `n % VARIANTS` of domain `n // VARIANTS`."""
ROWS = (18, 70, 160)

HEAD = "Amber Autumn Azure Broad Cedar Clear Copper Coral Crystal Early Falcon Golden Granite Hidden Ivory Jade".split()
TAIL = (
    "Arch Bay Bridge Cliff Crossing Field Forest Gate Grove Harbour Hill Island Lake Meadow Point Ridge River".split()
)
FIRST = (
    "Ada Ben Clara Dario Edda Felix Greta Hugo Ines Jonas Kira Leo Mara Nils Olga Pavel Rosa Sven Tilda Vera".split()
)
LAST = "Adler Blom Castro Dahl Egger Fontana Grau Holm Ivanov Jansen Keller Lund Moreau Nagy Olsen Petit Rossi".split()
CITIES = "Aston Bergen Calder Dover Elgin Fulda Genoa Hamar Izmir Kiel Lodz Malmo".split()
FIRST_DAY, DAYS = date(2022, 1, 3), 900


@lru_cache(maxsize=64)
def database(seed: int = 0) -> bytes:
    """Build a domain's database, about 30 KB.

    All variants of a domain have the same tables, names, codes and possible values of choice columns, but other
    numbers, dates and parents. So a query that is right by luck in one variant is wrong in another.

    Raises: TaskError if there is no such domain.
    """
    if not 0 <= seed // VARIANTS < len(domains()):
        raise TaskError(f"sql/schemas has no database {seed}: seeds are 0 to {len(domains()) * VARIANTS - 1}.")
    domain = domains()[seed // VARIANTS]
    rng = random.Random(seed_of("sql/schemas", domain.name, seed % VARIANTS))
    with closing(sqlite3.connect(":memory:")) as connection:
        parent_table: Table | None = None
        keys: list[int] = []
        for table, count in zip(domain.tables, ROWS, strict=True):
            parents = [rng.choice(keys) for _ in range(count)] if keys else []
            keys = list(range(1, count + 1))
            columns = [[key] for key in keys]
            if parent_table is not None:
                columns = [[*row, parent] for row, parent in zip(columns, parents, strict=True)]
            values = [_values(domain, column, count, rng) for column in table.columns]
            rows = [(*row, *facts) for row, facts in zip(columns, zip(*values, strict=True), strict=True)]
            connection.execute(_create(table, parent_table))
            connection.executemany(f"INSERT INTO {table.name} VALUES ({','.join('?' * len(rows[0]))})", rows)
            parent_table = table
        connection.commit()
        connection.execute("VACUUM")
        content: bytes = connection.serialize()
        return content


def names(domain: Domain, column: Column, count: int) -> list[str]:
    """Return the titles, people or codes of a column, the same in every variant."""
    rng = random.Random(seed_of("sql/schemas", "names", domain.name, column.name))
    if column.kind == "code":
        return [
            f"{letter}{number}"
            for letter, number in zip(
                rng.choices("BCDFGHKLMNPRST", k=count), rng.sample(range(100, 1000), count), strict=True
            )
        ]
    parts = (FIRST, LAST) if column.kind == "person" else (HEAD, TAIL)
    return [" ".join(pair) for pair in rng.sample(list(itertools.product(*parts)), count)]


def key_of(parent: Table) -> str:
    """Return the column that holds the parent's id in a child table."""
    return f"{parent.singular}_id"


def _create(table: Table, parent: Table | None) -> str:
    sql_types = {"number": "INTEGER", "year": "INTEGER", "money": "REAL"}
    columns = ["id INTEGER PRIMARY KEY"]
    if parent is not None:
        columns.append(f"{key_of(parent)} INTEGER REFERENCES {parent.name}(id)")
    columns += [f"{column.name} {sql_types.get(column.kind, 'TEXT')}" for column in table.columns]
    return f"CREATE TABLE {table.name} ({', '.join(columns)})"


def _values(domain: Domain, column: Column, count: int, rng: random.Random) -> list[object]:
    """Return a column's values.

    In the tables of parents and children they are unique if possible, so that there is only one highest.
    """
    if column.kind in ("title", "person", "code"):
        fixed = names(domain, column, min(count, 200))
        return (
            [*fixed]
            if column is domain.parent.columns[0] or column is domain.child.columns[0]
            else (rng.choices(fixed[:40], k=count))
        )
    if column.kind == "choice":
        return [rng.choice(column.choices) for _ in range(count)]
    if column.kind == "city":
        return [rng.choice(CITIES) for _ in range(count)]
    if column.kind == "date":
        return [(FIRST_DAY + timedelta(days=rng.randrange(DAYS))).isoformat() for _ in range(count)]
    if column.kind == "money":
        return [cents / 100 for cents in rng.sample(range(205, 50_000, 5), count)]
    span = range(1900, 2020) if column.kind == "year" else range(column.low, column.high + 1)
    return [*rng.sample(span, count)] if len(span) >= count else rng.choices(span, k=count)
