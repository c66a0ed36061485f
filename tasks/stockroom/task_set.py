"""Generates the jobs in the stockroom (questions and movements of pieces), and the required final shelves."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from agentgym import Call, Message, Task, TaskSet

from ..generator import TaskGenerator, TaskSlot
from .server import Stockroom

NAME, ENVIRONMENT = "mcp/stockroom-v1", "agentgym/mcp-v1"
SIZES = {"train": 400, "validation": 60, "unseen_items": 60, "unseen_jobs": 60}
SHELVES = tuple(f"{row}{number}" for row in "ABC" for number in range(1, 4))
ITEMS = (
    "bolts",
    "brushes",
    "cables",
    "clamps",
    "filters",
    "gloves",
    "hooks",
    "lamps",
    "locks",
    "nails",
    "pumps",
    "valves",
)
UNSEEN_ITEMS = ("batteries", "drills", "fuses", "hinges", "ladders", "magnets", "ropes", "wheels")
QUESTIONS, CHANGES = ("where", "count"), ("collect", "ship")
Step = tuple[str, dict[str, Any]]


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Jobs for an agent with the tools of an MCP server. The seed chooses the shelves and the jobs.

    Held-out tasks carry the tag `unseen_items` (none of their items is in another stratum) or `unseen_jobs` (two jobs
    in one, which no training task has).
    """
    generator = TaskGenerator(NAME, SIZES, seed)
    return TaskSet(NAME, generator.splits(_task), oracle=oracle, imperfect_oracle=imperfect_oracle)


def server_source() -> bytes:
    """The asset `mcp/stockroom`: the program of the server."""
    return (files(__package__) / "server.py").read_bytes()


def _task(rng: random.Random, slot: TaskSlot) -> Task:
    items = UNSEEN_ITEMS if slot.stratum == "unseen_items" else ITEMS
    shelves: dict[str, dict[str, int]] = {shelf: {} for shelf in SHELVES}
    for item in items:
        places = rng.sample(SHELVES, rng.choice((1, 2, 2, 3)))
        for shelf, pieces in zip(places, rng.sample(range(2, 40), len(places)), strict=True):
            shelves[shelf][item] = pieces
    stockroom = Stockroom({shelf: dict(held) for shelf, held in shelves.items()})
    first, second = rng.sample(items, 2)
    jobs = [_job(rng, stockroom, first, CHANGES)] if slot.stratum == "unseen_jobs" else []
    jobs.append(_job(rng, stockroom, second, (*QUESTIONS, *CHANGES)))
    answer = jobs[-1][2]
    truth: dict[str, Any] = {
        "state": [json.dumps(stockroom.inventory())],
        "steps": json.dumps([step for _, steps, _ in jobs for step in steps]),
    }
    if answer is not None:
        truth["answer"] = answer
    last = " Then answer done." if answer is None else ""
    return Task(
        id=slot.id,
        environment=ENVIRONMENT,
        prompt=" Then: ".join(text for text, _, _ in jobs) + last,
        parameters={
            "server": {"command": ["python3", "server.py"], "era": "stateless"},
            "files": {"server.py": {"asset": "mcp/stockroom"}, "stock.json": json.dumps(shelves)},
            "tools": ["find", "look", "move", "ship"],
            "state": [{"tool": "inventory"}],
        },
        truth=truth,
        split=slot.split,
        tags=slot.tags,
        difficulty=float(sum(len(steps) for _, steps, _ in jobs)),
    )


def _job(
    rng: random.Random, stockroom: Stockroom, item: str, kinds: Sequence[str]
) -> tuple[str, list[Step], str | None]:
    """Draw a job and do it. Returns: the request, the steps that fulfil it, and the answer if it is a question."""
    places = stockroom.find(item)
    finding: Step = ("find", {"item": item})
    kind = rng.choice(kinds)
    if kind == "where":
        return (
            f"Which shelf holds the most {item}? Answer with its name.",
            [finding],
            max(places, key=places.__getitem__),
        )
    if kind == "count":
        text = f"How many {item} are there on all shelves together? Answer with the number."
        return text, [finding], str(sum(places.values()))
    if kind == "collect":
        target = rng.choice([shelf for shelf in SHELVES if shelf not in places])
        moves = [
            ("move", {"item": item, "pieces": pieces, "source": shelf, "target": target})
            for shelf, pieces in places.items()
        ]
        text = f"Move all {item}, from wherever they lie, to shelf {target}."
    else:
        shelf = max(places, key=places.__getitem__)
        pieces = rng.randint(1, places[shelf])
        moves = [("ship", {"item": item, "pieces": pieces, "shelf": shelf})]
        text = f"Ship {pieces} {item} from the shelf that holds the most of them."
    for name, arguments in moves:
        getattr(stockroom, name)(**arguments)
    return text, [finding, *moves], None


def oracle(task: Task) -> list[Message]:
    """Do the steps one after the other, then answer."""
    return _play(json.loads(task.truth["steps"]), task.truth.get("answer", "done"))


def imperfect_oracle(task: Task) -> list[Message]:
    """Do every step correctly except the last, which uses another shelf; then give a wrong answer."""
    *steps, (name, arguments) = json.loads(task.truth["steps"])
    if name in ("move", "ship"):
        key = "target" if name == "move" else "shelf"
        wrong = SHELVES[(SHELVES.index(arguments[key]) + 1) % len(SHELVES)]
        return _play([*steps, (name, {**arguments, key: wrong})], "done")
    return _play([*steps, (name, arguments)], "A4")


def _play(steps: Sequence[Step], answer: str) -> list[Message]:
    calls = [Call(name, dict(arguments)) for name, arguments in steps]
    return [Message("assistant", "", calls=(call,)) for call in (*calls, Call("answer", {"text": answer}))]
