"""Kinds of office jobs. Each gives the prompt, the initial files, and the required final contents of files."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .files import Content, archive, drawing, encoded, flipped, gnumeric, letter, rotated, xlsx
from .words import OfficeVocabulary

HEAD = ("item", "count")


@dataclass(slots=True)
class OfficeJob:
    """One job: its prompt, the required final contents, the initial files, the number of programs that it needs."""

    prompt: str
    expected: dict[str, Any]
    files: dict[str, Content]
    programs: int = 1


class Cabinet:
    """Two folders with a sheet, a letter, a text and a picture; a job uses some of these files."""

    def __init__(self, rng: random.Random, words: OfficeVocabulary) -> None:
        self.rng, self.words = rng, words
        self.folder, self.other = self.rng.sample(self.words.folders, 2)
        self.names = self.rng.sample(self.words.names, 5)
        self.counts: list[tuple[str, str | int]] = [
            (thing, self.rng.randint(11, 99)) for thing in self.rng.sample(self.words.things, self.rng.randint(3, 5))
        ]
        self.sentences = [f"{line}." for line in self.rng.sample(self.words.sentences, 3)]
        self.picture = drawing(self.rng)
        self.ending = self.rng.choice(("gnumeric", "xlsx"))
        make = gnumeric if self.ending == "gnumeric" else xlsx
        self.sheet = f"{self.folder}/{self.names[0]}.{self.ending}"
        self.letter = f"{self.other}/{self.names[1]}.abw"
        self.text = f"{self.folder}/{self.names[2]}.txt"
        self.image = f"{self.other}/{self.names[3]}.png"
        self.lines = "".join(f"{line}\n" for line in self.sentences[::-1])
        self.files: dict[str, Content] = {
            self.sheet: make([HEAD, *self.counts]),
            self.letter: letter(self.sentences),
            self.text: self.lines,
            self.image: {"base64": encoded(self.picture)},
        }
        rows = enumerate([HEAD, *self.counts], 1)
        self.cells = {
            f"{column}{row}": value for row, values in rows for column, value in zip("AB", values, strict=True)
        }

    def free_thing(self) -> str:
        """Return a thing that the sheet does not list."""
        listed = [thing for thing, _ in self.counts]
        return self.rng.choice([thing for thing in self.words.things if thing not in listed])

    def sheet_with(self, changed: dict[str, str | int]) -> dict[str, Any]:
        """Return the required contents of the sheet: its current contents with these changes."""
        return {self.sheet: {"cells": [list(named) for named in {**self.cells, **changed}.items()]}}

    def job(self, prompt: str, expected: dict[str, Any], programs: int = 1) -> OfficeJob:
        return OfficeJob(prompt, expected, self.files, programs)


def _plain(*lines: str) -> dict[str, Any]:
    return {"paragraphs": [[[line, ""]] for line in lines]}


def cell(cabinet: Cabinet) -> OfficeJob:
    row = cabinet.rng.randrange(len(cabinet.counts))
    thing, new = cabinet.counts[row][0], cabinet.rng.randint(100, 999)
    prompt = f"In the sheet {cabinet.sheet}, the count of {thing} must be {new}. Change it and save the sheet."
    return cabinet.job(prompt, cabinet.sheet_with({f"B{row + 2}": new}))


def row(cabinet: Cabinet) -> OfficeJob:
    thing, count, line = cabinet.free_thing(), cabinet.rng.randint(11, 99), len(cabinet.counts) + 2
    prompt = f"Add a row for {count} {thing} right below the last one of the sheet {cabinet.sheet}, and save it."
    return cabinet.job(prompt, cabinet.sheet_with({f"A{line}": thing, f"B{line}": count}))


def paragraph(cabinet: Cabinet) -> OfficeJob:
    used = {line.rstrip(".") for line in cabinet.sentences}
    new = cabinet.rng.choice([line for line in cabinet.words.sentences if line not in used]) + "."
    prompt = f"Add a last paragraph to the letter {cabinet.letter}: {new} Save the letter."
    return cabinet.job(prompt, {cabinet.letter: _plain(*cabinet.sentences, new)})


def bold(cabinet: Cabinet) -> OfficeJob:
    first, *rest = cabinet.sentences
    prompt = f"Make the whole first line of the letter {cabinet.letter} bold, nothing else, and save it."
    styled = {"paragraphs": [[[first, "bold"]], *_plain(*rest)["paragraphs"]]}
    return cabinet.job(prompt, {cabinet.letter: styled})


def flip(cabinet: Cabinet) -> OfficeJob:
    horizontally = cabinet.rng.random() < 0.5
    way = "horizontally, so that left and right change places" if horizontally else "vertically, upside down"
    prompt = f"Flip the picture {cabinet.image} {way}, and save it under the same name."
    return cabinet.job(
        prompt, {cabinet.image: {"picture": encoded(flipped(cabinet.picture, horizontally=horizontally))}}
    )


def unpack(cabinet: Cabinet) -> OfficeJob:
    name, rng = cabinet.names[4], cabinet.rng
    packed = {f"{thing}.txt": f"{rng.randint(100, 999)} {thing}\n" for thing in rng.sample(cabinet.words.things, 2)}
    path = f"{cabinet.folder}/{name}.tar.gz"
    cabinet.files[path] = archive(packed)
    target = f"{cabinet.other}/{name}"
    prompt = (
        f"Unpack the archive {path} into a new folder {name} inside of the folder {cabinet.other}. Keep the archive."
    )
    return cabinet.job(prompt, {f"{target}/{member}": text for member, text in packed.items()})


def line(cabinet: Cabinet) -> OfficeJob:
    new = f"{cabinet.rng.randint(100, 999)} {cabinet.free_thing()}"
    prompt = f"Add the line '{new}' at the end of the text {cabinet.text}, and save it."
    return cabinet.job(prompt, {cabinet.text: f"{cabinet.lines}{new}\n"})


def move(cabinet: Cabinet) -> OfficeJob:
    path = cabinet.text
    new = f"{cabinet.other}/{path.partition('/')[2]}"
    prompt = f"Move the file {path} into the folder {cabinet.other}, under the same name."
    return cabinet.job(prompt, {path: None, new: cabinet.lines})


def product(cabinet: Cabinet) -> OfficeJob:
    a, b = cabinet.rng.randint(112, 989), cabinet.rng.randint(12, 89)
    prompt = f"Multiply {a} by {b}, add the result as a last line to the text {cabinet.text}, and save it."
    return cabinet.job(prompt, {cabinet.text: f"{cabinet.lines}{a * b}\n"}, programs=2)


def letter_to_sheet(cabinet: Cabinet) -> OfficeJob:
    row = cabinet.rng.randrange(len(cabinet.counts))
    thing, new = cabinet.counts[row][0], cabinet.rng.randint(100, 999)
    cabinet.files[cabinet.letter] = letter([*cabinet.sentences[:2], f"We have counted {new} {thing} today."])
    prompt = (
        f"The letter {cabinet.letter} tells a new count. Change the sheet {cabinet.sheet} accordingly, and save it."
    )
    return cabinet.job(prompt, cabinet.sheet_with({f"B{row + 2}": new}), programs=2)


def formula(cabinet: Cabinet) -> OfficeJob:
    last = len(cabinet.counts) + 1
    prompt = (
        f"Put a formula with SUM over all counts into the cell right below the last count of {cabinet.sheet}, and save "
        "the sheet."
    )
    return cabinet.job(prompt, cabinet.sheet_with({f"B{last + 1}": f"=sum(b2:b{last})"}))


def quarter(cabinet: Cabinet) -> OfficeJob:
    clockwise = cabinet.rng.random() < 0.5
    way = "clockwise" if clockwise else "anti-clockwise"
    prompt = f"Rotate the picture {cabinet.image} by a quarter {way} in the paint program; save it under the same name."
    return cabinet.job(prompt, {cabinet.image: {"picture": encoded(rotated(cabinet.picture, clockwise=clockwise))}})


def viewer_quarter(cabinet: Cabinet) -> OfficeJob:
    job = quarter(cabinet)
    job.prompt = job.prompt.replace("in the paint program", "in the viewer")
    return job


def delete(cabinet: Cabinet) -> OfficeJob:
    return cabinet.job(f"Delete the file {cabinet.text} for good. Leave all others.", {cabinet.text: None})


def sheet_to_letter(cabinet: Cabinet) -> OfficeJob:
    thing, count = cabinet.rng.choice(cabinet.counts)
    prompt = (
        f"Look up in the sheet {cabinet.sheet} how many {thing} there are, and add that number alone as a last "
        f"paragraph to the letter {cabinet.letter}. Save the letter."
    )
    return cabinet.job(prompt, {cabinet.letter: _plain(*cabinet.sentences, str(count))}, programs=2)


Maker = Callable[[Cabinet], OfficeJob]
KINDS: Mapping[str, Maker] = {
    maker.__name__: maker for maker in (cell, row, paragraph, bold, flip, unpack, line, move, product, letter_to_sheet)
}
UNSEEN_KINDS: Mapping[str, Maker] = {maker.__name__: maker for maker in (formula, quarter, delete, sheet_to_letter)}
"""Kinds that only held-out tasks have."""
UNSEEN_PROGRAM: Mapping[str, Maker] = {"viewer_quarter": viewer_quarter}
"""Kinds that only held-out tasks have; they need a program that no other task offers."""
