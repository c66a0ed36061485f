"""The task sets over generated wikis: the plan of each, and how its questions are drawn."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice

from agentgym import Split, Task, TaskError, TaskSet, seed_of

from ..landmarks import landmark
from .knowledge_base import EDITIONS, KnowledgeBase, knowledge_base
from .oracle import answer, imperfect_lookup_oracle, imperfect_oracle, lookup_oracle, oracle, retrieve_oracle
from .questions import Chain, chains, is_held_out, makes_sense, obscured, variants
from .relations import BY_NAME, KINDS, chain_of, question

CORPUS = "search/wiki"
RESERVED = 5
"""Every fifth entity of a kind is reserved as a start for the stratum `unseen_entities`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a task set contains.

    Attributes:
        name: the registered name of the set. sizes: number of tasks by stratum.
        hops: the shares of questions with one hop, two hops and so on. The stratum `unseen_chains` has no questions of
            one hop.
        subjects: kinds of entity that questions start at.
        obscured: share of questions that describe their start instead of naming it.
        results: the number of pages that a search shows; None for the environment's default.
        editions: the seeds of each stratum's wikis, used in turn. If there are few questions, many editions keep a
            policy from memorising answers.
    """

    name: str
    sizes: Mapping[str, int]
    hops: tuple[float, ...]
    subjects: tuple[str, ...] = KINDS
    obscured: float = 0.0
    results: int | None = None
    editions: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def edition(self, stratum: str, index: int) -> int:
        """Return the seed of the wiki that a task is about."""
        seeds = self.editions.get(stratum, [EDITIONS if stratum == "unseen_wiki" else 0])
        return seeds[index % len(seeds)]


WIKI = Plan(
    "search/wiki-v1",
    {
        "train": 2_000,
        "variants": 400,
        "validation": 240,
        "unseen_entities": 160,
        "unseen_chains": 160,
        "unseen_wiki": 160,
    },
    hops=(0.4, 0.3, 0.2, 0.1),
    obscured=0.2,
)
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
    """Questions of one to four hops over a generated wiki, answered by searching and reading its pages.

    The seed chooses the questions; the wikis stay the same.

    Held-out tasks carry one of the tags `unseen_entities` (the question starts at an entity at which no other question
    starts), `unseen_chains` (chains of relations that no training task has) and `unseen_wiki` (a wiki with other names
    and facts).
    """
    return TaskSet(WIKI.name, _splits(WIKI, seed), oracle=oracle, imperfect_oracle=imperfect_oracle, answer=answer)


@cache
def lookup_task_set(seed: int = 0) -> TaskSet:
    """Questions for one fact about a named person, with a search that shows one page at a time."""
    return TaskSet(
        LOOKUP.name,
        _splits(LOOKUP, seed),
        oracle=lookup_oracle,
        imperfect_oracle=imperfect_lookup_oracle,
        answer=answer,
    )


@cache
def retrieve_task_set(seed: int = 0) -> TaskSet:
    """Those questions of `search/wiki-v1` that name the entity at which they start, for a plain retriever.

    A retriever returns a few passages and no second page of results, so it may not find an entity that is only
    described.
    """
    splits = {
        split: [
            replace(task, environment="agentgym/search-retrieve-v1") for task in tasks if "obscured" not in task.tags
        ]
        for split, tasks in task_set(seed).items()
    }
    return TaskSet("search/wiki-retrieve-v1", splits, oracle=retrieve_oracle, answer=answer)


def _splits(plan: Plan, seed: int) -> dict[str, list[Task]]:
    used: set[tuple[int, str, Chain]] = set()

    def draw(split: Split, stratum: str) -> list[Task]:
        return [_draw(plan, used, split, stratum, seed, index) for index in range(plan.sizes.get(stratum, 0))]

    held_out = [
        task for stratum in ("unseen_entities", "unseen_chains", "unseen_wiki") for task in draw("held_out", stratum)
    ]
    validation, train = draw("validation", "validation"), draw("train", "train")
    train += [_variant(plan, used, train, seed, index) for index in range(plan.sizes.get("variants", 0))]
    return {"train": train, "validation": validation, "held_out": held_out}


def _draw(plan: Plan, used: set[tuple[int, str, Chain]], split: Split, stratum: str, seed: int, index: int) -> Task:
    """Draw a question that is not in `used`. Each task has its own random stream, so sizes may change independently."""
    rng = random.Random(seed_of(plan.name, split, stratum, seed, index))
    wiki = plan.edition(stratum, index)
    base = knowledge_base(wiki)
    has_unseen_chain = stratum == "unseen_chains"
    shares = [0.0 if has_unseen_chain and hops == 0 else share for hops, share in enumerate(plan.hops)]
    (hops,) = rng.choices(range(1, len(shares) + 1), shares)
    for _ in range(10_000):
        chain = rng.choice(chains(hops, has_unseen_chain))
        if _kind(chain) not in plan.subjects:
            continue
        start = rng.choice(_starts(base, _kind(chain), stratum == "unseen_entities"))
        if (wiki, start, chain) in used or not makes_sense(base, start, chain):
            continue
        used.add((wiki, start, chain))
        return _task(plan, wiki, start, chain, rng, f"{stratum}/{index:04d}", split, (stratum,))
    raise TaskError(f"{plan.name}: there is no further question for {stratum}. Ask for fewer.")


def _variant(plan: Plan, used: set[tuple[int, str, Chain]], train: list[Task], seed: int, index: int) -> Task:
    """Draw another question with the answer of a training task."""
    rng = random.Random(seed_of(plan.name, "train", "variants", seed, index))
    base = knowledge_base(0)
    for _ in range(10_000):
        original = rng.choice(train)
        chain = chain_of(original.tags)
        start = next(iter(original.truth["pages"]))
        candidates = [
            (variant_start, variant_chain)
            for variant_start, variant_chain in islice(variants(base, start, chain), 40)
            if (0, variant_start, variant_chain) not in used
            and not is_held_out(variant_chain)
            and variant_start in _starts(base, _kind(variant_chain), False)
        ]
        if candidates:
            variant_start, variant_chain = rng.choice(candidates)
            used.add((0, variant_start, variant_chain))
            return _task(
                plan,
                0,
                variant_start,
                variant_chain,
                rng,
                f"variants/{index:04d}",
                "train",
                (f"variant_of_{original.id}",),
            )
    raise TaskError(f"{plan.name}: there is no further variant. Ask for fewer.")


def _task(
    plan: Plan, wiki: int, start: str, chain: Chain, rng: random.Random, name: str, split: Split, tags: tuple[str, ...]
) -> Task:
    base = knowledge_base(wiki)
    path = base.walk(start, chain)
    described_start = obscured(base, start, path[1:], rng) if rng.random() < plan.obscured else None
    pages = {title: position for position, title in enumerate(path[:-1], start=1)}
    parameters = {"corpus": CORPUS, "seed": wiki, "landmarks": [landmark(title) for title in pages]}
    return Task(
        id=name,
        environment="agentgym/search-v1",
        prompt=question(chain, described_start or start),
        parameters=parameters if plan.results is None else {**parameters, "results": plan.results},
        truth={"answer": path[-1], "pages": pages},
        split=split,
        tags=(f"hops_{len(chain)}", ".".join(chain), *(("obscured",) if described_start else ()), *tags),
        difficulty=float(len(chain) + bool(described_start)),
    )


def _kind(chain: Chain) -> str:
    return BY_NAME[chain[0]].subject


def _starts(base: KnowledgeBase, kind: str, reserved: bool) -> list[str]:
    return [name for position, name in enumerate(base.names[kind]) if (position % RESERVED == 0) is reserved]
