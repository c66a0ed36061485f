"""The relations of the wiki: facts about people, towns, regions, rivers, firms, books, schools and museums."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import permutations


@dataclass(frozen=True, slots=True)
class Relation:
    """One kind of fact. In its templates `{s}` is the subject and `{o}` the object.

    Attributes:
        name: unique. subject: the kind of entity that has the fact. target: the kind of entity that is the object, or
            the kind of a value (year, count, km, goods, emblem, colours).
        phrase: words that name the object by its subject, to stand within a question; empty for values.
        question: the question for the object.
        clause: words that describe the subject by the object, to stand after the subject's kind.
        sentences: sentences with which pages state the fact; one is chosen for each page.
    """

    name: str
    subject: str
    target: str
    phrase: str
    question: str
    clause: str
    sentences: tuple[str, ...]

    @property
    def to_entity(self) -> bool:
        return self.target in KINDS

    @property
    def words(self) -> str:
        """Return the words with which pages state the fact: a search for them and the subject finds the sentence."""
        sentences = " ".join(sentence.format(s="", o="") for sentence in self.sentences)
        return " ".join(dict.fromkeys(word for word in re.findall(r"[a-z]{4,}", sentences) if word != "from"))

    @property
    def object(self) -> str:
        """Return a regular expression that matches an object: a name, a number, or lower-case words."""
        return r"[A-Z][\w ]+" if self.to_entity else r"\d+|[a-z ]+"

    def read(self, text: str, subject: str) -> str | None:
        """Return the object that a page states; None if the page does not state the fact."""
        object_pattern = rf"\[({self.object})\]" if self.to_entity else f"({self.object})"
        for sentence in self.sentences:
            before, _, behind = sentence.replace("{s}", subject).partition("{o}")
            if match := re.search(f"{re.escape(before)}{object_pattern}{re.escape(behind)}", text):
                return match[1]
        return None


KINDS = ("person", "town", "region", "river", "firm", "book", "school", "museum")

# fmt: off
RELATIONS = tuple(Relation(*row) for row in (
    ("born_in", "person", "town", "the birthplace of {s}", "Which town is the birthplace of {s}?", "born in {o}",
     ("{s} comes from {o}.", "The birthplace of {s} is {o}.", "{s} was born in {o}.")),
    ("birth", "person", "year", "", "In which year was {s} born?", "born in the year {o}",
     ("The year of birth of {s} is {o}.", "{s} was born in the year {o}.")),
    ("taught_at", "person", "school", "the school attended by {s}", "Which school did {s} attend?", "taught at {o}",
     ("{s} went to {o}.", "{s} was a pupil of {o}.", "The school attended by {s} was {o}.")),
    ("married_to", "person", "person", "the spouse of {s}", "Who is the spouse of {s}?", "married to {o}",
     ("{s} is married to {o}.", "The spouse of {s} is {o}.")),
    ("employer", "person", "firm", "the employer of {s}", "Which firm is the employer of {s}?", "employed by {o}",
     ("{s} works for {o}.", "The employer of {s} is {o}.")),
    ("region", "town", "region", "the region of {s}", "Which region does {s} belong to?", "in {o}",
     ("{s} lies in {o}.", "{s} belongs to {o}.", "The region of {s} is {o}.")),
    ("on_river", "town", "river", "the river through {s}", "Which river flows through {s}?", "on {o}",
     ("{s} stands on {o}.", "The river through {s} is {o}.")),
    ("mayor", "town", "person", "the mayor of {s}", "Who is the mayor of {s}?", "whose mayor is {o}",
     ("The mayor of {s} is {o}.", "{s} is governed by its mayor, {o}.")),
    ("settled", "town", "year", "", "In which year was {s} settled?", "settled in {o}",
     ("{s} was settled in {o}.", "People have lived in {s} since {o}.")),
    ("people", "town", "count", "", "How many inhabitants does {s} have?", "with {o} inhabitants",
     ("{s} has {o} inhabitants.", "The inhabitants of {s} number {o}.")),
    ("capital", "region", "town", "the capital of {s}", "Which town is the capital of {s}?", "whose capital is {o}",
     ("The capital of {s} is {o}.", "{s} is ruled from its capital, {o}.")),
    ("governor", "region", "person", "the governor of {s}", "Who is the governor of {s}?", "whose governor is {o}",
     ("The governor of {s} is {o}.", "{s} has {o} as its governor.")),
    ("emblem", "region", "emblem", "", "What is the emblem of {s}?", "with {o} as its emblem",
     ("The emblem of {s} is {o}.", "{s} bears {o} as its emblem.")),
    ("source", "river", "region", "the region where {s} rises", "In which region does {s} rise?", "rising in {o}",
     ("{s} rises in {o}.", "The source of {s} is in {o}.")),
    ("length", "river", "km", "", "How long is {s} in km?", "{o} km long",
     ("{s} is {o} km long.", "The length of {s} is {o} km.")),
    ("explorer", "river", "person", "the explorer of {s}", "Who was the explorer of {s}?", "explored by {o}",
     ("{s} was explored by {o}.", "The explorer of {s} was {o}.")),
    ("seat", "firm", "town", "the seat of {s}", "Which town is the seat of {s}?", "seated in {o}",
     ("{s} has its seat in {o}.", "The seat of {s} is {o}.")),
    ("founder", "firm", "person", "the founder of {s}", "Who was the founder of {s}?", "founded by {o}",
     ("{s} was founded by {o}.", "The founder of {s} was {o}.")),
    ("since", "firm", "year", "", "In which year did {s} begin to trade?", "trading since {o}",
     ("{s} has traded since {o}.", "{s} began to trade in {o}.")),
    ("goods", "firm", "goods", "", "What does {s} make?", "making {o}",
     ("{s} makes {o}.", "The goods of {s} are {o}.")),
    ("author", "book", "person", "the author of {s}", "Who is the author of {s}?", "by {o}",
     ("{s} was written by {o}.", "The author of {s} is {o}.")),
    ("published", "book", "year", "", "In which year was {s} published?", "published in {o}",
     ("{s} was published in {o}.", "{s} came out in {o}.")),
    ("setting", "book", "town", "the setting of {s}", "Which town is the setting of {s}?", "set in {o}",
     ("{s} is set in {o}.", "The setting of {s} is {o}.")),
    ("printer", "book", "firm", "the printer of {s}", "Which firm is the printer of {s}?", "printed by {o}",
     ("{s} was printed by {o}.", "The printer of {s} is {o}.")),
    ("site", "school", "town", "the site of {s}", "In which town is {s}?", "in {o}",
     ("{s} is in {o}.", "The site of {s} is {o}.")),
    ("patron", "school", "person", "the patron of {s}", "Who is the patron of {s}?", "whose patron is {o}",
     ("The patron of {s} is {o}.", "{s} has {o} as its patron.")),
    ("colours", "school", "colours", "", "What are the colours of {s}?", "whose colours are {o}",
     ("The colours of {s} are {o}.", "{s} plays in {o}.")),
    ("house", "museum", "town", "the home of {s}", "Which town is the home of {s}?", "in {o}",
     ("{s} is found in {o}.", "The home of {s} is {o}.")),
    ("director", "museum", "person", "the director of {s}", "Who is the director of {s}?", "whose director is {o}",
     ("The director of {s} is {o}.", "{s} is led by its director, {o}.")),
    ("architect", "museum", "person", "the architect of {s}", "Who was the architect of {s}?", "designed by {o}",
     ("{s} was designed by {o}.", "The architect of {s} was {o}.")),
    ("opened", "museum", "year", "", "In which year did {s} open?", "opened in {o}",
     ("{s} opened in {o}.", "The doors of {s} have been open since {o}.")),
))
# fmt: on
BY_NAME = {relation.name: relation for relation in RELATIONS}


def of_kind(kind: str) -> tuple[Relation, ...]:
    """Return the relations that entities of this kind have, in the order of the table."""
    return tuple(relation for relation in RELATIONS if relation.subject == kind)


def chain_of(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Return the chain of relations that a task's tags name: `seat.mayor` is the mayor of the seat of something."""
    return next(tuple(tag.split(".")) for tag in tags if tag.partition(".")[0] in BY_NAME)


def question(chain: tuple[str, ...], start: str) -> str:
    """Write the question for what a chain of relations from `start` leads to: "Who is the mayor of the birthplace of
    X?".
    """
    for name in chain[:-1]:
        start = BY_NAME[name].phrase.format(s=start)
    return BY_NAME[chain[-1]].question.format(s=start)


def start_of(chain: tuple[str, ...], prompt: str) -> str | None:
    """Return the entity at which the chain of a question begins, if `question` wrote the prompt for this chain; else
    None.
    """
    before, _, behind = question(chain, "\0").partition("\0")
    if prompt.startswith(before) and prompt.endswith(behind):
        return prompt[len(before) : len(prompt) - len(behind)]
    return None


def description(kind: str, first: Relation, second: Relation, objects: tuple[str, str]) -> str:
    """Describe an entity by two of its facts, without its name: "the book by X and set in Y"."""
    return f"the {kind} {first.clause.format(o=objects[0])} and {second.clause.format(o=objects[1])}"


def described(text: str) -> tuple[str, tuple[tuple[Relation, str], ...]] | None:
    """Return the kind and the two facts of an entity that `description` described; None for another text."""
    for kind in KINDS:
        for first, second in permutations(of_kind(kind), 2):
            clauses = (relation.clause.replace("{o}", f"({relation.object})") for relation in (first, second))
            if match := re.fullmatch(f"the {kind} {' and '.join(clauses)}", text):
                return kind, ((first, match[1]), (second, match[2]))
    return None
