"""The task set `code/tables-v1`: a random table, a second table that groups its keys, and a question about both."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from agentgym import Call, Message, Task, TaskSet

from ..generator import TaskGenerator, TaskSlot

NAME = "code/tables-v1"
SIZES = {"train": 1_000, "validation": 120, "unseen_tables": 120, "unseen_questions": 120}
KNOWN_TABLES = {
    "orders.csv": ("shop", ("north", "harbour", "station", "market"), "amount"),
    "trips.csv": ("driver", ("ada", "ben", "cleo", "dan"), "distance"),
    "visits.csv": ("page", ("home", "news", "help", "about"), "seconds"),
}
UNSEEN_TABLES = {
    "harvest.csv": ("field", ("upper", "lower", "river", "hill"), "weight"),
    "loans.csv": ("reader", ("kai", "lena", "milo", "nora"), "days"),
}
LOAD = """import csv
rows = [dict(row, value=int(row["{value}"])) for row in csv.DictReader(open("{file}"))]
region = {{row["{key}"]: row["region"] for row in csv.DictReader(open("regions.csv"))}}
"""


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table and the region of each key.

    Attributes:
        file: the table's file name. key, value: names of its first and last column.
        rows: (key, month, value). region: the region of each key.
    """

    file: str
    key: str
    value: str
    rows: Sequence[tuple[str, int, int]]
    region: Mapping[str, str]

    def files(self) -> dict[str, str]:
        """Return both files as text."""
        lines = [f"{self.key},month,{self.value}", *(",".join(map(str, row)) for row in self.rows)]
        regions = [f"{self.key},region", *(f"{key},{region}" for key, region in self.region.items())]
        return {self.file: "\n".join(lines) + "\n", "regions.csv": "\n".join(regions) + "\n"}


Question = tuple[str, str, str]
"""The question, the last notebook cell of a solution, and the answer."""


def total(t: DataTable, rng: random.Random) -> Question:
    """Ask for the sum over one key, from some month on."""
    key, month = rng.choice(t.rows)[0], rng.randint(2, 9)
    answer = sum(v for k, m, v in t.rows if k == key and m >= month)
    code = f'sum(r["value"] for r in rows if r["{t.key}"] == "{key}" and int(r["month"]) >= {month})'
    return f"What is the sum of {t.value} of the {t.key} {key} from month {month} on?", code, str(answer)


def mean(t: DataTable, rng: random.Random) -> Question:
    """Ask for the mean over one region, rounded."""
    region = rng.choice(sorted(set(t.region.values())))
    values = [v for k, _, v in t.rows if t.region[k] == region]
    answer = round(float(Fraction(sum(values), len(values))), 2) if values else 0
    code = (
        f'values = [r["value"] for r in rows if region[r["{t.key}"]] == "{region}"]\n'
        "round(sum(values) / len(values), 2) if values else 0"
    )
    question = f"What is the mean of {t.value} over all rows of the region {region}, to two decimals? Without rows: 0."
    return question, code, str(answer)


def busiest_month(t: DataTable, rng: random.Random) -> Question:
    """Ask for the month with the largest sum."""
    minimum = rng.randint(1, 30)
    sums: Counter[int] = Counter()
    for _, month, value in t.rows:
        sums[month] += value if value >= minimum else 0
    answer = min(sums, key=lambda month: (-sums[month], month))
    code = (
        "from collections import Counter\nsums = Counter()\nfor r in rows:\n"
        f'    sums[int(r["month"])] += r["value"] * (r["value"] >= {minimum})\nmin(sums, key=lambda m: (-sums[m], m))'
    )
    question = (
        f"Counting only rows with a {t.value} of at least {minimum}, which month has the largest sum of {t.value}? "
        "Answer with its number; if several are equal, the earliest."
    )
    return question, code, str(answer)


def rows_between(t: DataTable, rng: random.Random) -> Question:
    """Ask for the number of rows that meet two conditions."""
    low, width = rng.randint(1, 50), rng.randint(10, 40)
    region = rng.choice(sorted(set(t.region.values())))
    answer = sum(low <= v <= low + width and t.region[k] != region for k, _, v in t.rows)
    code = f'sum({low} <= r["value"] <= {low + width} and region[r["{t.key}"]] != "{region}" for r in rows)'
    question = (
        f"How many rows outside of the region {region} have a {t.value} from {low} to {low + width}, both included?"
    )
    return question, code, str(answer)


def spread(t: DataTable, rng: random.Random) -> Question:
    """Ask for the difference of the largest and the smallest value."""
    key, month = rng.choice(t.rows)[0], rng.randint(7, 12)
    values = [v for k, m, v in t.rows if k == key and m <= month] or [0]
    code = (
        f'values = [r["value"] for r in rows if r["{t.key}"] == "{key}" and int(r["month"]) <= {month}] or [0]\n'
        "max(values) - min(values)"
    )
    question = (
        f"What is the difference of the largest and the smallest {t.value} of the {t.key} {key} up to month {month}? "
        "Without rows: 0."
    )
    return question, code, str(max(values) - min(values))


def median_of_sums(t: DataTable, rng: random.Random) -> Question:
    """Ask for the median of the weighted sums by key."""
    weight = rng.randint(2, 9)
    sums: dict[str, int] = defaultdict(int)
    for key, month, value in t.rows:
        sums[key] += value * (weight if month > 6 else 1)
    ordered = sorted(sums.values())
    answer = ordered[(len(ordered) - 1) // 2]
    code = (
        "from collections import Counter\nsums = Counter()\nfor r in rows:\n"
        f'    sums[r["{t.key}"]] += r["value"] * ({weight} if int(r["month"]) > 6 else 1)\n'
        "sorted(sums.values())[(len(sums) - 1) // 2]"
    )
    question = (
        f"Add up {t.value} for each {t.key} that has rows, counting every row after month 6 {weight} times. "
        "What is the middle of these sums in order of size (the lower one if there are two)?"
    )
    return question, code, str(answer)


def best_region_share(t: DataTable, rng: random.Random) -> Question:
    """Ask for the share of the largest region, in percent."""
    deduction = rng.randint(1, 25)
    sums: Counter[str] = Counter()
    for key, _, value in t.rows:
        sums[t.region[key]] += max(value - deduction, 0)
    answer = round(float(Fraction(100 * max(sums.values()), sum(sums.values()) or 1)), 1)
    code = (
        "from collections import Counter\nsums = Counter()\nfor r in rows:\n"
        f'    sums[region[r["{t.key}"]]] += max(r["value"] - {deduction}, 0)\n'
        "round(100 * max(sums.values()) / (sum(sums.values()) or 1), 1)"
    )
    question = (
        f"Subtract {deduction} from {t.value} in every row, but never go below 0. Which share of the whole sum has "
        "the region with the most, in percent, rounded to one decimal?"
    )
    return question, code, str(answer)


KNOWN: Mapping[str, Callable[[DataTable, random.Random], Question]] = {
    family.__name__: family for family in (total, mean, busiest_month, rows_between, spread)
}
UNSEEN: Mapping[str, Callable[[DataTable, random.Random], Question]] = {
    family.__name__: family for family in (median_of_sums, best_region_share)
}


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Questions about two data files, to be answered in a notebook.

    The seed chooses tables and questions.

    Held-out tasks carry the tag `unseen_tables` (kinds of question of the training tasks, on other kinds of table) or
    `unseen_questions` (kinds of question that no training task has). Difficulty is 1 for one condition, 2 for a join, 3
    for the questions of `unseen_questions`.
    """
    draw = TaskGenerator(NAME, SIZES, seed, key=None).draw
    held_out = [*draw("unseen_tables", _task, KNOWN), *draw("unseen_questions", _task, UNSEEN)]
    train, validation = draw("train", _task, KNOWN), draw("validation", _task, KNOWN)
    splits = {"held_out": held_out, "validation": validation, "train": train}
    return TaskSet(NAME, splits, oracle=oracle, answer=answer)


def oracle(task: Task) -> Callable[[Sequence[Message]], Message]:
    """Load the tables in one cell, compute in the next, submit its output."""
    cells: Sequence[str] = task.truth["cells"]

    def script(messages: Sequence[Message]) -> Message:
        done = sum(message.role == "tool" for message in messages)
        if done < len(cells):
            return Message("assistant", "", (Call("cell", {"code": cells[done]}),))
        return Message("assistant", "", (Call("submit", {"text": messages[-1].text}),))

    return script


def answer(task: Task) -> Message:
    """Return the message that submits the right answer."""
    return Message("assistant", "", (Call("submit", {"text": task.truth["answer"]}),))


def _task(
    rng: random.Random, slot: TaskSlot, families: Mapping[str, Callable[[DataTable, random.Random], Question]]
) -> Task:
    """Make one task. Families of questions alternate with the slot's index."""
    kinds_of_table = UNSEEN_TABLES if slot.split == "held_out" else KNOWN_TABLES
    file = rng.choice(sorted(kinds_of_table))
    key, names, value = kinds_of_table[file]
    keys = [f"{name}{number}" for name in names for number in rng.sample(range(1, 9), 2)]
    region = {k: rng.choice(("east", "west", "south")) for k in keys}
    rows = [(rng.choice(keys), rng.randint(1, 12), rng.randint(1, 99)) for _ in range(rng.randint(20, 70))]
    table = DataTable(file, key, value, rows, region)
    name = list(families)[slot.index % len(families)]
    question, code, solution = families[name](table, rng)
    return Task(
        id=slot.id,
        environment="agentgym/code-notebook-v1",
        prompt=(
            f"In /work are {file} with the columns {key}, month (1 to 12) and {value}, and regions.csv with the region "
            f"of each {key}. {question} Submit the number alone."
        ),
        parameters={"files": table.files()},
        truth={"answer": solution, "cells": [LOAD.format(file=file, key=key, value=value), code]},
        split=slot.split,
        tags=(name, *slot.tags),
        difficulty=3.0 if name in UNSEEN else 2.0 if "region" in code else 1.0,
    )
