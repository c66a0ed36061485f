"""Names of folders and files, and the things listed in them: one vocabulary for training, one for held-out tasks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OfficeVocabulary:
    """A vocabulary: folders, file names without their ending, things that are counted, and sentences of letters."""

    folders: tuple[str, ...]
    names: tuple[str, ...]
    things: tuple[str, ...]
    sentences: tuple[str, ...]


KNOWN = OfficeVocabulary(
    ("accounts", "branch", "clients", "orders", "personnel", "stock"),
    ("april", "august", "autumn", "forecast", "january", "ledger", "north", "office", "spring", "summary", "west"),
    ("binders", "chairs", "desks", "folders", "lamps", "markers", "monitors", "pencils", "printers", "staplers"),
    (
        "The meeting is moved to Monday",
        "We thank you for your order",
        "The invoice is enclosed",
        "Please confirm the delivery",
        "The new desks have arrived",
        "Our office is closed on Friday",
        "The contract ends in June",
        "Nobody has answered yet",
    ),
)
UNSEEN = OfficeVocabulary(
    ("harbour", "library", "museum", "theatre"),
    ("catalogue", "exhibits", "harvest", "loans", "members", "repairs", "season"),
    ("anchors", "atlases", "costumes", "crates", "masks", "paddles", "scores", "statues"),
    (
        "The curtain rises at eight",
        "Two statues are being cleaned",
        "The ferry leaves from pier four",
        "All atlases must be returned",
        "The rehearsal was a success",
        "Visitors enter by the garden",
    ),
)
