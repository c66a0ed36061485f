"""The attributes that people mention, with the sentences, notes and questions about each."""

from __future__ import annotations

from dataclasses import dataclass

NAMES = (
    *("Ada", "Ben", "Cora", "Dan", "Ella", "Finn", "Greta", "Hugo", "Ida", "Jon", "Kara", "Leo"),
    *("Mara", "Nils", "Olga", "Paul", "Rosa", "Sven", "Tara", "Umar", "Vera", "Will", "Yara", "Zeno"),
)
NEW_NAMES = ("Anton", "Bella", "Carlo", "Doris", "Emil", "Frida", "Gina", "Henri")
"""Names of people who are in no training task."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of people. `{name}` and `{value}` are placeholders in its texts.

    Attributes:
        first: the sentence with which the person first says it.
        changed: the person's sentence about a later, different value.
        reported: another person's sentence about it, first or later.
        noted: the memory entry.
        question: the question about it.
        values: the possible values.
    """

    first: str
    changed: str
    reported: str
    noted: str
    question: str
    values: tuple[str, ...]


ATTRIBUTES = {
    "city": Attribute(
        "I live in {value}.",
        "I have moved to {value}.",
        "{name} lives in {value} now.",
        "{name} lives in {value}",
        "Which city does {name} live in?",
        ("Lisbon", "Turin", "Oslo", "Quito", "Dakar", "Perth", "Hanoi", "Leeds", "Bonn", "Lima", "Riga", "Kyoto"),
    ),
    "work": Attribute(
        "I work as a {value}.",
        "I work as a {value} from now on.",
        "{name} works as a {value} these days.",
        "{name} works as a {value}",
        "What does {name} work as?",
        ("baker", "nurse", "pilot", "tailor", "welder", "judge", "farmer", "painter", "barber", "teacher", "cook"),
    ),
    "drink": Attribute(
        "My favourite drink is {value}.",
        "I like {value} better than any other drink by now.",
        "{name} drinks {value} all day.",
        "{name}'s favourite drink is {value}",
        "What is {name}'s favourite drink?",
        ("cocoa", "cider", "milk", "water", "coffee", "juice", "tonic", "lassi", "kefir", "mate", "chai", "broth"),
    ),
    "sport": Attribute(
        "I spend my evenings with {value}.",
        "I have given up my old sport, and do {value} instead.",
        "{name} has begun with {value}, and does nothing else.",
        "{name}'s sport is {value}",
        "Which sport does {name} do?",
        ("tennis", "rowing", "judo", "chess", "golf", "boxing", "fencing", "archery", "squash", "polo", "karate"),
    ),
    "car": Attribute(
        "My car is {value}.",
        "My new car is {value}.",
        "{name} drives a {value} car.",
        "{name}'s car is {value}",
        "What colour is {name}'s car?",
        ("red", "blue", "green", "white", "black", "grey", "yellow", "brown", "orange", "silver", "purple"),
    ),
}
NEW_ATTRIBUTES = {
    "instrument": Attribute(
        "I play the {value}.",
        "I have changed to the {value}.",
        "{name} plays the {value} now.",
        "{name} plays the {value}",
        "Which instrument does {name} play?",
        ("flute", "piano", "viola", "harp", "drums", "cello", "oboe", "tuba", "guitar", "organ"),
    ),
}
"""Attributes that no training task asks for."""

ALLERGIES = ("nuts", "eggs", "wheat", "fish", "wool", "dust", "pollen", "soy", "latex", "mustard")
PETS = ("cats", "goats", "hens", "rabbits", "ducks", "sheep")
KIN = ("sister", "brother", "boss", "neighbour", "doctor", "landlord")
NOTHING = "nothing"

SMALL_TALK = (
    "What a day!",
    "It has rained since noon.",
    "The bus was late again.",
    "Have you seen the new bridge?",
    "I slept badly last night.",
    "The market was crowded.",
    "We should meet more often.",
    "The soup was cold.",
    "I lost my umbrella again.",
    "Somebody left the window open.",
    "The lift is broken.",
    "That film was too long.",
    "I could not find my keys this morning.",
    "The sunset was lovely.",
    "The shop closes early today.",
    "My phone needs charging.",
    "There was a queue at the post office.",
    "The train was full.",
    "I am tired of this weather.",
    "Somebody played music until midnight.",
)
