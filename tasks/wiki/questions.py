"""Questions over a knowledge base: the chains of relations, which of them are held out, and their variants."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from functools import cache
from itertools import permutations

from agentgym import seed_of

from .knowledge_base import NAME, KnowledgeBase
from .relations import BY_NAME, KINDS, description, of_kind

Chain = tuple[str, ...]
MAX_HOPS = 4
HELD_OUT_SHARE = 5
"""One of this many chains of two or more relations is never trained on."""


@cache
def chains(hops: int, held_out: bool) -> tuple[Chain, ...]:
    """Return all chains of this many relations, each about the object of the one before: those that are held out, or
    all others.
    """
    candidates = [chain for kind in KINDS for chain in _from(kind, hops)]
    return tuple(chain for chain in candidates if is_held_out(chain) is held_out)


def is_held_out(chain: Chain) -> bool:
    """Return whether a chain is held out. Single relations never are, because every chain needs them."""
    return len(chain) > 1 and seed_of(NAME, "held-out chain", *chain) % HELD_OUT_SHARE == 0


def _from(kind: str, hops: int) -> Iterator[Chain]:
    for relation in of_kind(kind):
        if hops == 1:
            yield (relation.name,)
        elif relation.to_entity:
            for rest in _from(relation.target, hops - 1):
                yield (relation.name, *rest)


def makes_sense(base: KnowledgeBase, start: str, chain: Chain) -> bool:
    """Return whether no entity on the path occurs twice, so that there are no detours and the question does not name
    its answer.
    """
    path = base.walk(start, chain)
    return len(set(path)) == len(path)


def obscured(base: KnowledgeBase, name: str, forbidden: Collection[str], rng: random.Random) -> str | None:
    """Describe an entity by two facts that no other entity shares; None if it has no such facts.

    The description does not name any of `forbidden`, the entities on the question's path.

    Source of the idea: DeepDive (Lu et al. 2025) obfuscates the entities of walks over a knowledge graph.
    """
    kind = base.kind_of[name]
    pairs = [pair for pair in permutations(of_kind(kind), 2) if pair[0].to_entity]
    rng.shuffle(pairs)
    for first, second in pairs:
        objects = (base.facts[name, first.name], base.facts[name, second.name])
        if set(objects) & set(forbidden):
            continue
        matches = [
            candidate
            for candidate in base.names[kind]
            if (base.facts[candidate, first.name], base.facts[candidate, second.name]) == objects
        ]
        if matches == [name]:
            return description(kind, first, second, objects)
    return None


def variants(base: KnowledgeBase, start: str, chain: Chain) -> Iterator[tuple[str, Chain]]:
    """Yield other questions with the same answer: starts and chains that lead to the same last fact.

    Source of the idea: SvS (Liang et al. 2025) trains on variations of a problem that keep its answer.
    """
    last, final = base.walk(start, chain)[-2], chain[-1]
    for hops in range(2, MAX_HOPS):
        for head in _into(base, last, hops - 1):
            variant = (*head[1], final)
            if (head[0], variant) != (start, chain) and makes_sense(base, head[0], variant):
                yield head[0], variant


def _into(base: KnowledgeBase, target: str, hops: int) -> Iterator[tuple[str, Chain]]:
    for (name, relation), object_name in base.facts.items():
        if object_name == target and BY_NAME[relation].to_entity:
            if hops == 1:
                yield name, (relation,)
            else:
                for start, chain in _into(base, name, hops - 1):
                    yield start, (*chain, relation)
