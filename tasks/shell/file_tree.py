"""Generates the files at the start of the shell tasks: logs, a table, notes, configuration and temporary files."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

KNOWN = {
    "services": ("auth", "billing", "search", "mail", "orders", "stock", "login", "export"),
    "names": ("ada", "ben", "cleo", "dan", "eva", "finn", "gina", "hugo", "ida", "jon"),
    "words": ("red", "lamp", "river", "paper", "stone", "window", "garden", "music", "coffee", "train"),
    "kinds": ("fruit", "tools", "books", "toys"),
}
UNSEEN = {
    "services": ("router", "cache", "queue", "gateway", "backup", "render", "index", "audit"),
    "names": ("kai", "lena", "milo", "nora", "otto", "pia", "quinn", "rosa", "sven", "tess"),
    "words": ("cloud", "anchor", "violin", "harbor", "needle", "copper", "meadow", "lantern", "saddle", "pebble"),
    "kinds": ("metal", "cloth", "seeds", "paint"),
}
LEVELS = ("INFO", "WARN", "ERROR")


@dataclass(frozen=True, slots=True)
class FileTree:
    """The files of one task by path, and the vocabulary from which they were generated."""

    files: Mapping[str, str]
    words: Mapping[str, Sequence[str]]

    def log_lines(self) -> list[list[str]]:
        """Return every line of every log, split into time, level, service and milliseconds."""
        return [line.split() for path in self.below("logs") for line in self.files[path].splitlines()]

    def rows(self) -> list[list[str]]:
        """Return the table's rows without its header: name, kind, count, price."""
        return [line.split(",") for line in self.files["data/sales.csv"].splitlines()[1:]]

    def below(self, folder: str, suffix: str = "") -> list[str]:
        """Return the paths of files in a folder, sorted."""
        return sorted(path for path in self.files if path.startswith(f"{folder}/") and path.endswith(suffix))


def generate(rng: random.Random, words: Mapping[str, Sequence[str]]) -> FileTree:
    """Generate the files from a vocabulary."""
    files: dict[str, str] = {}
    services = rng.sample(words["services"], 4)
    for day in range(1, rng.randint(3, 5)):
        lines = [
            f"{day:02d}T{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d} {rng.choice(LEVELS)} {rng.choice(services)} "
            f"{rng.randint(1, 900)}"
            for _ in range(rng.randint(6, 16))
        ]
        files[f"logs/day{day}.log"] = "\n".join(lines) + "\n"
    rows = [
        f"{rng.choice(words['names'])},{rng.choice(words['kinds'])},{rng.randint(1, 40)},{rng.randint(2, 90)}"
        for _ in range(rng.randint(8, 20))
    ]
    files["data/sales.csv"] = "\n".join(["name,kind,count,price", *rows]) + "\n"
    for word in rng.sample(words["words"], 6):
        folder = rng.choice(("notes", "notes/old", "notes/new"))
        files[f"{folder}/{word}.txt"] = _prose(rng, words)
    for word in rng.sample(words["words"], rng.randint(2, 4)):
        files[f"notes/{word}.tmp"] = _prose(rng, words)
    for service in services[:3]:
        files[f"etc/{service}.conf"] = (
            f"name = {service}\nport = {rng.randint(1000, 9000)}\nowner = {rng.choice(words['names'])}\n"
            f"mode = {rng.choice(words['words'])}\n"
        )
    return FileTree(files, words)


def _prose(rng: random.Random, words: Mapping[str, Sequence[str]]) -> str:
    lines = [" ".join(rng.choices(words["words"], k=rng.randint(2, 6))) for _ in range(rng.randint(1, 9))]
    return "\n".join(lines) + "\n"
