"""Templates of questions and changes: each writes a prompt and its SQL for any domain, and finds the SQL of its
prompts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .database import key_of, names
from .domains import Domain

Draw = Callable[[Domain, random.Random], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class SchemaTemplate:
    """One kind of question or change.

    Attributes:
        name: a tag of its tasks.
        words: the prompt. In the prompt and in the SQL, placeholders name parts of the domain. Of the child
            table: `{bs}` its name, `{b}` its singular, `{b_name}` the first column, `{b_choice}` the column of choices,
            `{b_number}` the numeric column, `{b_money}` the amount, `{b_id}` the column with the parent's id. Likewise
            of the parent table `{as}`, `{a}`, `{a_name}`, `{a_city}`, `{a_number}`; of the table of events `{cs}`,
            `{c}`, `{c_who}`, `{c_day}`, `{c_number}`, `{c_id}`. The values of all other placeholders are drawn.
        statements: the gold SQL, with the same placeholders.
        draw: draws the values of these other placeholders for a task.
        difficulty: 1 for one table and one condition; one more for each join, group or nested query.
    """

    name: str
    words: str
    statements: tuple[str, ...]
    draw: Draw
    difficulty: float = 1.0

    def fill(self, domain: Domain, values: Mapping[str, Any]) -> tuple[str, list[str]]:
        """Return the prompt and the SQL statements of one task."""
        fixed, spoken = words_of(domain)
        text = self.words.format(**{**fixed, **spoken, **values})
        return text, [sql.format(**{**fixed, **values}) for sql in self.statements]

    def read(self, domain: Domain, text: str) -> list[str] | None:
        """Return the SQL of a prompt that this template has filled in; None for another prompt."""
        fixed, spoken = words_of(domain)
        pattern, groups = "", set()
        for piece in re.split(r"(\{\w+\})", self.words):
            name = piece.strip("{}")
            if not piece.startswith("{"):
                pattern += re.escape(piece)
            elif name in fixed:
                pattern += re.escape({**fixed, **spoken}[name])
            else:
                pattern += f"(?P={name})" if name in groups else f"(?P<{name}>.+?)"
                groups.add(name)
        match = re.fullmatch(pattern, text)
        return [sql.format(**{**fixed, **match.groupdict()}) for sql in self.statements] if match else None


def words_of(domain: Domain) -> tuple[dict[str, str], dict[str, str]]:
    """Return the values of a template's placeholders in SQL, and in prompts if different."""
    a, b, c = domain.tables
    fixed = {
        "as": a.name,
        "a": a.singular,
        "a_name": a.columns[0].name,
        "a_city": a.of_kind("city")[0].name,
        "a_number": a.of_kind("number", "year")[0].name,
        "bs": b.name,
        "b": b.singular,
        "b_name": b.columns[0].name,
        "b_choice": b.of_kind("choice")[0].name,
        "b_number": b.of_kind("number")[0].name,
        "b_money": b.of_kind("money")[0].name,
        "b_id": key_of(a),
        "cs": c.name,
        "c": c.singular,
        "c_who": c.columns[0].name,
        "c_day": c.of_kind("date")[0].name,
        "c_number": c.of_kind("number")[0].name,
        "c_id": key_of(b),
    }
    spoken = {name: text.replace("_", " ") for name, text in fixed.items()}
    return fixed, spoken


def some_parent(domain: Domain, rng: random.Random, count: int = 1) -> list[str]:
    """Return `count` different names from the parent table."""
    return rng.sample(names(domain, domain.parent.columns[0], 18), count)


def some_child(domain: Domain, rng: random.Random, count: int = 1) -> list[str]:
    """Return `count` different names from the child table."""
    return rng.sample(names(domain, domain.child.columns[0], 70), count)


def some_choice(domain: Domain, rng: random.Random, count: int = 1) -> list[str]:
    """Return `count` different values of the child table's column of choices."""
    return rng.sample(domain.child.of_kind("choice")[0].choices, count)


def some_bound(domain: Domain, rng: random.Random) -> int:
    """Return a number from the middle three fifths of the range of the child table's numeric column."""
    column = domain.child.of_kind("number")[0]
    return rng.randrange(column.low + (column.high - column.low) // 5, column.high - (column.high - column.low) // 5)
