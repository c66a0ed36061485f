"""Templates of desktop jobs. Each returns the prompt, the initial files, and the required final state."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .words import DesktopVocabulary


@dataclass(slots=True)
class DesktopJob:
    """One job: its prompt, the initial files by path, the truth for the reward, and the programs to offer."""

    prompt: str
    files: dict[str, str]
    truth: dict[str, Any]
    programs: list[str] = field(default_factory=lambda: ["editor", "files", "calculator", "terminal"])


def home(rng: random.Random, words: DesktopVocabulary) -> dict[str, str]:
    """Create three to five files in two folders, each with a few lines."""
    folders = rng.sample(words.folders, 2)
    names = rng.sample(words.names, rng.randint(3, 5))
    return {f"{rng.choice(folders)}/{name}.txt": lines(rng, words, rng.randint(2, 5)) for name in names}


def lines(rng: random.Random, words: DesktopVocabulary, count: int) -> str:
    return "".join(f"{rng.randint(2, 40)} {thing}\n" for thing in rng.sample(words.things, count))


def _quoted(text: str) -> str:
    return " and then ".join(repr(line) for line in text.splitlines())


def write(rng: random.Random, words: DesktopVocabulary) -> DesktopJob:
    files, text = home(rng, words), lines(rng, words, rng.randint(2, 3))
    free = [name for name in words.names if not any(path.endswith(f"/{name}.txt") for path in files)]
    path = f"{rng.choice(sorted(files)).partition('/')[0]}/{rng.choice(free)}.txt"
    return DesktopJob(f"Make the file {path} with the lines {_quoted(text)}.", files, {"files": {path: text}})


def append(rng: random.Random, words: DesktopVocabulary) -> DesktopJob:
    files, more = home(rng, words), lines(rng, words, 1)
    path = rng.choice(sorted(files))
    prompt = f"Add the line {more.strip()!r} at the end of {path}, and change nothing else."
    return DesktopJob(prompt, files, {"files": {path: files[path] + more}})


def mend(rng: random.Random, words: DesktopVocabulary) -> DesktopJob:
    files = home(rng, words)
    path = rng.choice(sorted(files))
    old = rng.choice(files[path].splitlines())
    new = f"{rng.randint(41, 99)} {old.split()[1]}"
    text = files[path].replace(f"{old}\n", f"{new}\n")
    return DesktopJob(f"In {path}, the line {old!r} must be {new!r}. Change it.", files, {"files": {path: text}})


def show(rng: random.Random, words: DesktopVocabulary) -> DesktopJob:
    files = home(rng, words)
    path = rng.choice(sorted(files))
    name = path.partition("/")[2]
    truth = {"windows": [["Mousepad", f"{path} - Mousepad"]], "files": {path: files[path]}}
    return DesktopJob(
        f"Open {name} of the folder {path.partition('/')[0]} in the editor and leave it open.", files, truth
    )


def move(rng: random.Random, words: DesktopVocabulary) -> DesktopJob:
    files = home(rng, words)
    path = rng.choice(sorted(files))
    free = [folder for folder in words.folders if not any(p.startswith(f"{folder}/") for p in files)]
    new = f"{rng.choice(free)}/{path.partition('/')[2]}"
    prompt = f"Make a folder {new.partition('/')[0]} and move {path} there."
    return DesktopJob(prompt, files, {"files": {path: None, new: files[path]}})


def remove(rng: random.Random, words: DesktopVocabulary) -> DesktopJob:
    files = home(rng, words)
    path = rng.choice(sorted(files))
    return DesktopJob(f"Delete {path}, for good.", files, {"files": {path: None}})


def count(rng: random.Random, words: DesktopVocabulary) -> DesktopJob:
    files = home(rng, words)
    total = sum(len(text.splitlines()) for text in files.values()) + 1000
    path = "big.txt"
    files[path] = "".join(f"{number}\n" for number in range(1000))
    return DesktopJob(
        "How many lines have all files of the home folder together?", files, {"answer": str(total), "files": {}}
    )


def calculate(rng: random.Random, words: DesktopVocabulary) -> DesktopJob:
    a, b, c = rng.randint(120, 980), rng.randint(12, 98), rng.randint(1000, 9999)
    return DesktopJob(f"What is {a} times {b}, plus {c}?", home(rng, words), {"answer": str(a * b + c), "files": {}})


def rename(rng: random.Random, words: DesktopVocabulary) -> DesktopJob:
    files = home(rng, words)
    path = rng.choice(sorted(files))
    folder, name = path.split("/")
    new = f"{folder}/old-{name}"
    return DesktopJob(f"Put old- before the name of {path}.", files, {"files": {path: None, new: files[path]}})


def total(rng: random.Random, words: DesktopVocabulary) -> DesktopJob:
    files = home(rng, words)
    path = rng.choice(sorted(files))
    number = sum(int(line.split()[0]) for line in files[path].splitlines())
    new = "sum.txt"
    prompt = f"Add up the numbers in {path} and write the sum, alone, into {new} in the home folder."
    return DesktopJob(prompt, files, {"files": {new: f"{number}\n"}})


KINDS: dict[str, Callable[[random.Random, DesktopVocabulary], DesktopJob]] = {
    job.__name__: job for job in (write, append, mend, show, move, remove, count, calculate)
}
UNSEEN_KINDS: dict[str, Callable[[random.Random, DesktopVocabulary], DesktopJob]] = {
    job.__name__: job for job in (rename, total)
}
"""Kinds of jobs that only held-out tasks have."""
