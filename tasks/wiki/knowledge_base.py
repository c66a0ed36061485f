"""Generates the facts of a wiki from a seed, and writes its pages as JSON lines."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product

from agentgym import seed_of

from .relations import KINDS, of_kind

NAME = "search/wiki"
EDITIONS = 100
"""Seeds 0 to 99 are editions of one wiki: their names are the same, their facts differ.

Seeds 100 to 199 are editions of another wiki, and so on.
"""
SIZES = {
    "person": 200,
    "town": 80,
    "region": 12,
    "river": 24,
    "firm": 48,
    "book": 80,
    "school": 24,
    "museum": 24,
}


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_FIRST = _split(
    "Alma Anton Berta Bruno Clara Dario Edda Emil Fanny Gregor Hanna Ida Ivo Jonas Karla Lena Luca Mara Milo "
    "Nadia Nils Olga Oskar Paula Rafael Rosa Sven Thea Tomas Vera"
)
_LAST = _split(
    "Abel Amberg Baum Berg Carlin Dorn Eckart Falk Feld Garber Haller Hartwin Imhoff Janda Kessler Kolb Lindner "
    "Lorenz Maro Merten Novak Orlow Palme Quist Reuter Ritter Sander Sorel Tamm Ulmer Varga Weller Wenz Zander"
)
_TOWN = _split(
    "Alder Ash Birch Brook Clay Crow Elm Fern Fox Glen Hazel Heath Iron Kings Larch Lark Moss Oak Raven Salt "
    "Stone Thorn Wheat Wolf"
)
_ENDING = _split("bridge bury dale field ford gate ham haven mere port stead ton wick worth")
_REGION = ("Nor", "Wes", "Sud", "Os", "Hoch", "Nieder", "Al", "Bel", "Cor", "Dun", "Eri", "Fal")
_RIVER = ("Ad", "Bor", "Cal", "Dra", "Ela", "Fen", "Gar", "Isa", "Lun", "Mor", "Nar", "Oru", "Sal", "Tar", "Ur", "Vel")
_ADJECTIVE = _split(
    "Amber Blue Broken Distant Empty Final Golden Hidden Hollow Iron Last Paper Quiet Scarlet Silent Winter"
)
_NOUN = _split("Anchor Bell Bird Candle Clock Door Garden Island Key Ladder Lantern Map Mirror Orchard Road Tower")
_TRADE = _split("Brothers Mills Press Trading Works Yard")
_GOODS = _split("bricks carpets clocks glass kites lamps nails paper pianos rope saddles soap tiles violins")
_STUFF = _split("brass copper fine garden heavy iron plain silver tin wooden")
_BEAST = _split("bear crane eagle hare heron lynx otter salmon stag swan")
_COLOUR = _split("black blue brown gold green grey red silver violet white yellow")


@dataclass(frozen=True)
class KnowledgeBase:
    """The entities of a wiki and all facts about them.

    Attributes:
        names: the names of each kind of entity, in a fixed order.
        kind_of: maps the name of an entity to its kind.
        facts: maps (name of an entity, relation) to another entity or a value.
    """

    names: Mapping[str, tuple[str, ...]]
    kind_of: Mapping[str, str]
    facts: Mapping[tuple[str, str], str]

    def walk(self, start: str, chain: tuple[str, ...]) -> list[str]:
        """Return what a chain of relations leads to, step by step: the start, then the object of each relation."""
        path = [start]
        for relation in chain:
            path.append(self.facts[path[-1], relation])
        return path


@cache
def knowledge_base(seed: int = 0) -> KnowledgeBase:
    """Generate the knowledge base of a seed; see EDITIONS."""
    names = {kind: _names(kind, seed // EDITIONS) for kind in KINDS}
    rng = random.Random(seed_of(NAME, "facts", seed))
    facts: dict[tuple[str, str], str] = {}
    for kind in KINDS:
        for name in names[kind]:
            for relation in of_kind(kind):
                if relation.to_entity:
                    candidates = [candidate for candidate in names[relation.target] if candidate != name]
                    facts[name, relation.name] = rng.choice(candidates)
                else:
                    facts[name, relation.name] = _value(relation.target, rng)
    people = list(names["person"])
    rng.shuffle(people)
    for person, spouse in zip(people[::2], people[1::2], strict=True):
        facts[person, "married_to"], facts[spouse, "married_to"] = spouse, person
    kind_of = {name: kind for kind, members in names.items() for name in members}
    return KnowledgeBase(names, kind_of, facts)


@cache
def wiki(seed: int = 0) -> bytes:
    """The pages of a wiki as JSON lines: id, title, text and links. The same bytes for the same seed."""
    base = knowledge_base(seed)
    rng = random.Random(seed_of(NAME, "pages", seed))
    lines: list[str] = []
    for name, kind in base.kind_of.items():
        relations = list(of_kind(kind))
        rng.shuffle(relations)
        links = dict.fromkeys(base.facts[name, relation.name] for relation in relations if relation.to_entity)
        sentences = [f"{name} is a {kind}."]
        for relation in relations:
            target = base.facts[name, relation.name]
            written_target = f"[{target}]" if relation.to_entity else target
            sentences.append(rng.choice(relation.sentences).format(s=name, o=written_target))
        page = {"id": str(len(lines)), "title": name, "text": " ".join(sentences), "links": list(links)}
        lines.append(json.dumps(page))
    return "\n".join(lines).encode()


@cache
def _names(kind: str, wiki_index: int) -> tuple[str, ...]:
    """Return the names of one kind in one wiki: a slice of all combinations in a fixed order, so that two wikis share
    few names.
    """
    combinations = [_SHAPE[kind].format(*parts) for parts in product(*_PARTS[kind])]
    random.Random(seed_of(NAME, "names", kind)).shuffle(combinations)
    start = wiki_index * SIZES[kind]
    return tuple(combinations[position % len(combinations)] for position in range(start, start + SIZES[kind]))


_PARTS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "person": (_FIRST, _LAST),
    "town": (_TOWN, _ENDING),
    "region": (_REGION, ("land", "mark", "shire", "vale")),
    "river": (_RIVER, ("a", "en", "is", "o", "une")),
    "firm": (_LAST, _TRADE),
    "book": (_ADJECTIVE, _NOUN),
    "school": (_LAST, ("Academy", "College", "School")),
    "museum": (_NOUN, ("Gallery", "House", "Museum")),
}
_SHAPE = {
    "person": "{} {}",
    "town": "{}{}",
    "region": "{}{}",
    "river": "River {}{}",
    "firm": "{} {}",
    "book": "The {} {}",
    "school": "{} {}",
    "museum": "{} {}",
}


def _value(kind: str, rng: random.Random) -> str:
    if kind == "year":
        return str(rng.randint(1801, 1999))
    if kind == "count":
        return str(rng.randint(2_000, 99_999))
    if kind == "km":
        return str(rng.randint(41, 999))
    if kind == "goods":
        return f"{rng.choice(_STUFF)} {rng.choice(_GOODS)}"
    if kind == "emblem":
        return f"a {rng.choice(_COLOUR)} {rng.choice(_BEAST)}"
    return " and ".join(rng.sample(_COLOUR, 2))
