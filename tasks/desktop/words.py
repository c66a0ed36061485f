"""Names of folders and files, and what stands in them: one list for training, one that only held-out tasks use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """`folders`, `names` of files without their ending, and `things` that lines are made of."""

    folders: tuple[str, ...]
    names: tuple[str, ...]
    things: tuple[str, ...]


KNOWN = Words(
    ("docs", "garden", "travel", "kitchen", "letters", "music"),
    ("notes", "plan", "list", "report", "draft", "ideas", "budget", "diary", "route", "menu"),
    ("milk", "bread", "apples", "candles", "paper", "soap", "tickets", "seeds", "honey", "maps", "boots", "tea"),
)
UNSEEN = Words(
    ("archive", "school", "workshop", "photos"),
    ("agenda", "minutes", "poem", "recipe", "invoice", "summary"),
    ("nails", "chalk", "yarn", "pepper", "screws", "lemons", "ink", "rice", "cords"),
)
