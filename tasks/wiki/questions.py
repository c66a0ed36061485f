"""Questions over a world: which chains of relations there are, which are held out, and who is asked about."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from functools import cache

from agentgym.task import seed_of

from .relations import BY_NAME, KINDS, description, of_kind
from .world import NAME, World

Chain = tuple[str, ...]
MOST_HOPS = 4
HELD_OUT_SHARE = 5
"""One chain of two or more relations in so many is never trained on."""


@cache
def chains(hops: int, held_out: bool) -> tuple[Chain, ...]:
    """Every chain of this many relations in which each continues the one before, of the one stratum or the other."""
    found = [chain for kind in KINDS for chain in _from(kind, hops)]
    return tuple(chain for chain in found if is_held_out(chain) is held_out)


def is_held_out(chain: Chain) -> bool:
    """Whether a chain is kept from training. Single relations never are: who has not met them cannot follow one."""
    return len(chain) > 1 and seed_of(NAME, "held-out chain", *chain) % HELD_OUT_SHARE == 0


def _from(kind: str, hops: int) -> Iterator[Chain]:
    for relation in of_kind(kind):
        if hops == 1:
            yield (relation.name,)
        elif relation.to_entity:
            for rest in _from(relation.target, hops - 1):
                yield (relation.name, *rest)


def makes_sense(world: World, start: str, chain: Chain) -> bool:
    """No detour and no giveaway: nothing on the way is met twice, so the answer is not in the question either."""
    path = world.walk(start, chain)
    return len(set(path)) == len(path)


def obscured(world: World, name: str, telling: Collection[str], rng: random.Random) -> str | None:
    """An entity described by two of its facts that no other shares, in place of its name; None if it has none such.

    Nothing in `telling` is named: it is what the question leads to.

    Source of the idea: DeepDive (Lu et al. 2025) obfuscates the entities of walks over a knowledge graph.
    """
    kind = world.kind_of[name]
    pairs = [(one, other) for one in of_kind(kind) for other in of_kind(kind) if one is not other and one.to_entity]
    rng.shuffle(pairs)
    for one, other in pairs:
        objects = (world.facts[name, one.name], world.facts[name, other.name])
        if set(objects) & set(telling):
            continue
        alike = [
            twin
            for twin in world.names[kind]
            if (world.facts[twin, one.name], world.facts[twin, other.name]) == objects
        ]
        if alike == [name]:
            return description(kind, one, other, objects)
    return None


def variants(world: World, start: str, chain: Chain) -> Iterator[tuple[str, Chain]]:
    """Other questions with the same answer: other starts and chains that lead to the same last fact.

    Source of the idea: SvS (Liang et al. 2025) trains on variations of a problem that keep its answer.
    """
    last, final = world.walk(start, chain)[-2], chain[-1]
    for hops in range(2, MOST_HOPS):
        for head in _into(world, last, hops - 1):
            other = (*head[1], final)
            if (head[0], other) != (start, chain) and makes_sense(world, head[0], other):
                yield head[0], other


def _into(world: World, target: str, hops: int) -> Iterator[tuple[str, Chain]]:
    for (name, relation), found in world.facts.items():
        if found == target and BY_NAME[relation].to_entity:
            if hops == 1:
                yield name, (relation,)
            else:
                for start, chain in _into(world, name, hops - 1):
                    yield start, (*chain, relation)
