"""The words in the data of web applications: a vocabulary for training, another for held-out tasks, and word pairs, of
which every fifth is held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

HELD_OUT_SHARE = 5


@dataclass(frozen=True, slots=True)
class WebVocabulary:
    """A vocabulary. `domain` is the domain of its mail addresses."""

    qualities: tuple[str, ...]
    goods: dict[str, tuple[str, ...]]
    colours: tuple[str, ...]
    people: tuple[str, ...]
    places: tuple[str, ...]
    matters: tuple[str, ...]
    occasions: tuple[str, ...]
    topics: tuple[str, ...]
    domain: str


TRAINED = WebVocabulary(
    qualities=("Amber", "Nordic", "Compact", "Classic", "Silent", "Sturdy", "Bright", "Folding", "Velvet", "Alpine"),
    goods={
        "Kitchen": ("Kettle", "Pan", "Grater", "Bowl", "Toaster"),
        "Garden": ("Shovel", "Hose", "Lantern", "Bench", "Planter"),
        "Office": ("Stapler", "Notebook", "Lamp", "Chair", "Folder"),
        "Sports": ("Racket", "Helmet", "Bottle", "Rope", "Mat"),
    },
    colours=("red", "green", "grey", "blue", "white"),
    people=("Mira Holt", "Jonas Berg", "Ada Quinn", "Leon Falk", "Nora Weiss", "Tom Arden", "Ines Moreau", "Karl Voss"),
    places=("Room 12", "Town Hall", "Cafe Linden", "Station Square", "Library", "Main Office"),
    matters=(
        "the lease",
        "the survey",
        "the invoice",
        "the workshop",
        "the harvest",
        "the timetable",
        "the heating",
        "the contract",
        "the parcel",
        "the budget",
    ),
    occasions=("Choir", "Dentist", "Review", "Lunch", "Lecture", "Training", "Interview", "Concert", "Board meeting"),
    topics=("Cooking", "Cycling", "Gardening", "Music"),
    domain="post.test",
)
HELD_OUT = WebVocabulary(
    qualities=("Copper", "Coastal", "Slim", "Modern", "Gentle", "Rugged", "Pale", "Sliding", "Linen", "Polar"),
    goods={
        "Bath": ("Towel", "Mirror", "Brush", "Basin", "Scale"),
        "Toys": ("Puzzle", "Kite", "Drum", "Robot", "Marble"),
        "Travel": ("Suitcase", "Pillow", "Adapter", "Map", "Wallet"),
        "Music": ("Flute", "Metronome", "Stand", "Cable", "Tuner"),
    },
    colours=("black", "yellow", "brown", "pink", "orange"),
    people=(
        "Otto Lang",
        "Vera Solis",
        "Pablo Reyes",
        "Greta Lund",
        "Simon Oaks",
        "Clara Dietz",
        "Hugo Blanc",
        "Rita Moss",
    ),
    places=("Hall B", "Old Mill", "Harbour Bar", "North Gate", "Archive", "Pavilion"),
    matters=(
        "the permit",
        "the minutes",
        "the refund",
        "the seminar",
        "the garage",
        "the roster",
        "the window",
        "the warranty",
        "the shipment",
        "the estimate",
    ),
    occasions=("Rehearsal", "Checkup", "Audit", "Dinner", "Tour", "Course", "Hearing", "Match", "Assembly"),
    topics=("Sailing", "Painting", "Hiking", "Films"),
    domain="mail.test",
)
CODES = ("SPRING10", "WELCOME15", "LUCKY20")


def words_of(seed: int) -> WebVocabulary:
    """Return the vocabulary of a seed: seeds of 100 and above are held out and have other words."""
    return TRAINED if seed < 100 else HELD_OUT


def address_of(person: str, words: WebVocabulary) -> str:
    return f"{person.lower().replace(' ', '.')}@{words.domain}"


@cache
def word_pairs(firsts: Sequence[str], seconds: Sequence[str], *, held_out: bool) -> list[str]:
    """Return the held-out pairs, which are every fifth, or else all other pairs.

    Every word is in held-out and in other pairs.
    """
    return [
        f"{first} {second}"
        for i, first in enumerate(firsts)
        for j, second in enumerate(seconds)
        if ((i + j) % HELD_OUT_SHARE == 0) is held_out
    ]
