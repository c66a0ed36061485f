"""The task set `search/wiki-v1`: questions of one to four hops over a generated wiki, and the three splits."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from itertools import islice

from agentgym.errors import TaskError
from agentgym.task import Split, Task, TaskSet, seed_of

from ..landmarks import landmark
from .oracle import answer, novice, oracle, retrieve_oracle
from .questions import MOST_HOPS, Chain, chains, is_held_out, makes_sense, obscured, variants
from .relations import BY_NAME, chain_of, question
from .world import EDITIONS, World, world

NAME = "search/wiki-v1"
CORPUS = "search/wiki"
SIZES = {
    "train": 2_000,
    "variants": 400,
    "validation": 240,
    "unseen_entities": 160,
    "unseen_chains": 160,
    "unseen_wiki": 160,
}
HOPS = (0.4, 0.3, 0.2, 0.1)
"""Share of questions with one, two, ... hops; where none of one hop is asked, the others' in proportion."""
OBSCURED_SHARE = 0.2
RESERVED = 5
"""Every fifth entity of a kind is kept as a start for the stratum `unseen_entities`."""


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Build the task set. The seed chooses which questions are asked; the wikis stay the same.

    Held-out tasks carry one of the tags `unseen_entities` (starts at an entity that no other question starts at),
    `unseen_chains` (kinds of question that are never trained on) and `unseen_wiki` (other names, other facts).
    """
    asked: set[tuple[int, str, Chain]] = set()
    first, second = 0, EDITIONS

    def draw(split: Split, stratum: str, wiki: int = first) -> list[Task]:
        return [_draw(asked, split, stratum, wiki, seed, index) for index in range(SIZES[stratum])]

    held_out = [*draw("held_out", "unseen_entities"), *draw("held_out", "unseen_chains")]
    held_out += draw("held_out", "unseen_wiki", second)
    validation = draw("validation", "validation")
    train = draw("train", "train")
    train += [_variant(asked, train, seed, index) for index in range(SIZES["variants"])]
    splits: dict[str, list[Task]] = {"train": train, "validation": validation, "held_out": held_out}
    return TaskSet(NAME, splits, oracle=oracle, novice=novice, answer=answer)


@cache
def retrieve_task_set(seed: int = 0) -> TaskSet:
    """`search/wiki-retrieve-v1`: the questions of `search/wiki-v1` that name what they start at, for a retriever alone.

    A retriever gives a few passages and no second page of results, so what is only described may not be found.
    """
    splits = {
        split: [
            replace(task, environment="agentgym/search-retrieve-v1") for task in tasks if "obscured" not in task.tags
        ]
        for split, tasks in task_set(seed).items()
    }
    return TaskSet("search/wiki-retrieve-v1", splits, oracle=retrieve_oracle, answer=answer)


def _draw(asked: set[tuple[int, str, Chain]], split: Split, stratum: str, wiki: int, seed: int, index: int) -> Task:
    """Draw a question nobody has asked yet. One stream of random numbers a task, so that sizes may change alone."""
    rng = random.Random(seed_of(NAME, split, stratum, seed, index))
    made = world(wiki)
    strange = stratum == "unseen_chains"
    shares = [0.0 if strange and hops == 0 else share for hops, share in enumerate(HOPS)]
    (hops,) = rng.choices(range(1, MOST_HOPS + 1), shares)
    for _ in range(10_000):
        chain = rng.choice(chains(hops, strange))
        start = rng.choice(_starts(made, _kind(chain), stratum == "unseen_entities"))
        if (wiki, start, chain) in asked or not makes_sense(made, start, chain):
            continue
        asked.add((wiki, start, chain))
        return _task(made, wiki, start, chain, rng, f"{stratum}/{index:04d}", split, (stratum,))
    raise TaskError(f"{NAME}: no unasked question is left for {stratum}: ask for fewer than {SIZES[stratum]}.")


def _variant(asked: set[tuple[int, str, Chain]], train: list[Task], seed: int, index: int) -> Task:
    """Another question with the answer of a training task."""
    rng = random.Random(seed_of(NAME, "train", "variants", seed, index))
    made = world(0)
    for _ in range(10_000):
        original = rng.choice(train)
        chain = chain_of(original.tags)
        start = next(iter(original.truth["pages"]))
        found = [
            (other, way)
            for other, way in islice(variants(made, start, chain), 40)
            if (0, other, way) not in asked and not is_held_out(way) and other in _starts(made, _kind(way), False)
        ]
        if found:
            other, way = rng.choice(found)
            asked.add((0, other, way))
            return _task(made, 0, other, way, rng, f"variants/{index:04d}", "train", (f"variant_of_{original.id}",))
    raise TaskError(f"{NAME}: no variant is left: ask for fewer than {SIZES['variants']}.")


def _task(
    made: World, wiki: int, start: str, chain: Chain, rng: random.Random, name: str, split: Split, tags: tuple[str, ...]
) -> Task:
    path = made.walk(start, chain)
    hidden = obscured(made, start, path[1:], rng) if rng.random() < OBSCURED_SHARE else None
    pages = {title: place for place, title in enumerate(path[:-1], start=1)}
    return Task(
        id=name,
        environment="agentgym/search-v1",
        prompt=question(chain, hidden or start),
        parameters={"corpus": CORPUS, "seed": wiki, "landmarks": [landmark(title) for title in pages]},
        truth={"answer": path[-1], "pages": pages},
        split=split,
        tags=(f"hops_{len(chain)}", ".".join(chain), *(("obscured",) if hidden else ()), *tags),
        difficulty=float(len(chain) + bool(hidden)),
    )


def _kind(chain: Chain) -> str:
    return BY_NAME[chain[0]].subject


@cache
def _reserved(names: tuple[str, ...], reserved: bool) -> tuple[str, ...]:
    return tuple(name for place, name in enumerate(names) if (place % RESERVED == 0) is reserved)


def _starts(made: World, kind: str, reserved: bool) -> tuple[str, ...]:
    return _reserved(made.names[kind], reserved)
