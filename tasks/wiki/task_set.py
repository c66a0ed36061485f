"""The task sets over generated wikis: which questions each asks, and its three splits."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice

from agentgym.errors import TaskError
from agentgym.task import Split, Task, TaskSet, seed_of

from ..landmarks import landmark
from .oracle import answer, imperfect_lookup_oracle, imperfect_oracle, lookup_oracle, oracle, retrieve_oracle
from .questions import Chain, chains, is_held_out, makes_sense, obscured, variants
from .relations import BY_NAME, KINDS, chain_of, question
from .world import EDITIONS, World, world

CORPUS = "search/wiki"
RESERVED = 5
"""Every fifth entity of a kind is kept as a start for the stratum `unseen_entities`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a task set asks.

    Attributes:
        name: of the set. `sizes`: tasks of each stratum.
        hops: share of questions with one, two, ... hops; where none of one hop is asked, the others' in proportion.
        subjects: kinds of entity that questions start at.
        obscured: share of questions that describe their start in place of naming it.
        results: pages that a search shows in these tasks; None for as many as the environment says.
        editions: seeds of the wikis that a stratum's tasks are about, in turn. Where questions are few, many editions
            keep a policy from learning their answers by heart.
    """

    name: str
    sizes: Mapping[str, int]
    hops: tuple[float, ...]
    subjects: tuple[str, ...] = KINDS
    obscured: float = 0.0
    results: int | None = None
    editions: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def edition(self, stratum: str, index: int) -> int:
        """The seed of the wiki that a task is about."""
        seeds = self.editions.get(stratum, [EDITIONS if stratum == "unseen_wiki" else 0])
        return seeds[index % len(seeds)]


WIKI = Plan(
    "search/wiki-v1",
    {
        "train": 2_000, "variants": 400, "validation": 240,
        "unseen_entities": 160, "unseen_chains": 160, "unseen_wiki": 160,
    },
    hops=(0.4, 0.3, 0.2, 0.1),
    obscured=0.2,
)  # fmt: skip
LOOKUP = Plan(
    "search/lookup-v1",
    {"train": 6_000, "validation": 240, "unseen_entities": 240, "unseen_wiki": 240},
    hops=(1.0,),
    subjects=("person",),
    results=1,
    editions={"train": range(16), "validation": [16], "unseen_entities": [17, 18]},
)


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Build `search/wiki-v1`. The seed chooses which questions are asked; the wikis stay the same.

    Held-out tasks carry one of the tags `unseen_entities` (starts at an entity that no other question starts at),
    `unseen_chains` (kinds of question that are never trained on) and `unseen_wiki` (other names, other facts).
    """
    return TaskSet(WIKI.name, _splits(WIKI, seed), oracle=oracle, imperfect_oracle=imperfect_oracle, answer=answer)


@cache
def lookup_task_set(seed: int = 0) -> TaskSet:
    """Build `search/lookup-v1`: one fact of one person, who is named, and a search that shows one page at a time."""
    return TaskSet(
        LOOKUP.name,
        _splits(LOOKUP, seed),
        oracle=lookup_oracle,
        imperfect_oracle=imperfect_lookup_oracle,
        answer=answer,
    )


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


def _splits(plan: Plan, seed: int) -> dict[str, list[Task]]:
    asked: set[tuple[int, str, Chain]] = set()

    def draw(split: Split, stratum: str) -> list[Task]:
        return [_draw(plan, asked, split, stratum, seed, index) for index in range(plan.sizes.get(stratum, 0))]

    held_out = [
        task for stratum in ("unseen_entities", "unseen_chains", "unseen_wiki") for task in draw("held_out", stratum)
    ]
    validation, train = draw("validation", "validation"), draw("train", "train")
    train += [_variant(plan, asked, train, seed, index) for index in range(plan.sizes.get("variants", 0))]
    return {"train": train, "validation": validation, "held_out": held_out}


def _draw(plan: Plan, asked: set[tuple[int, str, Chain]], split: Split, stratum: str, seed: int, index: int) -> Task:
    """Draw a question nobody has asked yet. One stream of random numbers a task, so that sizes may change alone."""
    rng = random.Random(seed_of(plan.name, split, stratum, seed, index))
    wiki = plan.edition(stratum, index)
    made = world(wiki)
    strange = stratum == "unseen_chains"
    shares = [0.0 if strange and hops == 0 else share for hops, share in enumerate(plan.hops)]
    (hops,) = rng.choices(range(1, len(shares) + 1), shares)
    for _ in range(10_000):
        chain = rng.choice(chains(hops, strange))
        if _kind(chain) not in plan.subjects:
            continue
        start = rng.choice(_starts(made, _kind(chain), stratum == "unseen_entities"))
        if (wiki, start, chain) in asked or not makes_sense(made, start, chain):
            continue
        asked.add((wiki, start, chain))
        return _task(plan, wiki, start, chain, rng, f"{stratum}/{index:04d}", split, (stratum,))
    raise TaskError(f"{plan.name}: no unasked question is left for {stratum}: ask for fewer.")


def _variant(plan: Plan, asked: set[tuple[int, str, Chain]], train: list[Task], seed: int, index: int) -> Task:
    """Another question with the answer of a training task."""
    rng = random.Random(seed_of(plan.name, "train", "variants", seed, index))
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
            return _task(plan, 0, other, way, rng, f"variants/{index:04d}", "train", (f"variant_of_{original.id}",))
    raise TaskError(f"{plan.name}: no variant is left: ask for fewer.")


def _task(
    plan: Plan, wiki: int, start: str, chain: Chain, rng: random.Random, name: str, split: Split, tags: tuple[str, ...]
) -> Task:
    made = world(wiki)
    path = made.walk(start, chain)
    hidden = obscured(made, start, path[1:], rng) if rng.random() < plan.obscured else None
    pages = {title: place for place, title in enumerate(path[:-1], start=1)}
    parameters = {"corpus": CORPUS, "seed": wiki, "landmarks": [landmark(title) for title in pages]}
    return Task(
        id=name,
        environment="agentgym/search-v1",
        prompt=question(chain, hidden or start),
        parameters=parameters if plan.results is None else {**parameters, "results": plan.results},
        truth={"answer": path[-1], "pages": pages},
        split=split,
        tags=(f"hops_{len(chain)}", ".".join(chain), *(("obscured",) if hidden else ()), *tags),
        difficulty=float(len(chain) + bool(hidden)),
    )


def _kind(chain: Chain) -> str:
    return BY_NAME[chain[0]].subject


def _starts(made: World, kind: str, reserved: bool) -> list[str]:
    return [name for place, name in enumerate(made.names[kind]) if (place % RESERVED == 0) is reserved]
