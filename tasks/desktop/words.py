"""Names of folders and files, and the things listed in them: one vocabulary for training, one for held-out tasks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DesktopVocabulary:
    """A vocabulary: folders, file names without their ending, and the things that lines of text name."""

    folders: tuple[str, ...]
    names: tuple[str, ...]
    things: tuple[str, ...]


KNOWN = DesktopVocabulary(
    ("docs", "garden", "travel", "kitchen", "letters", "music"),
    ("notes", "plan", "list", "report", "draft", "ideas", "budget", "diary", "route", "menu"),
    ("milk", "bread", "apples", "candles", "paper", "soap", "tickets", "seeds", "honey", "maps", "boots", "tea"),
)
UNSEEN = DesktopVocabulary(
    ("archive", "school", "workshop", "photos"),
    ("agenda", "minutes", "poem", "recipe", "invoice", "summary"),
    ("nails", "chalk", "yarn", "pepper", "screws", "lemons", "ink", "rice", "cords"),
)
