"""The texts on the generated screens: one vocabulary for training, one for held-out screens."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScreenVocabulary:
    """Names of windows, buttons, fields, tabs, and of the things and people in rows and values."""

    windows: tuple[str, ...]
    buttons: tuple[str, ...]
    fields: tuple[str, ...]
    tabs: tuple[str, ...]
    things: tuple[str, ...]
    people: tuple[str, ...]


KNOWN = ScreenVocabulary(
    ("Mail", "Orders", "Contacts", "Tickets", "Invoices", "Library", "Stock", "Garden"),
    (
        "Save",
        "Cancel",
        "Send",
        "Delete",
        "Print",
        "Open",
        "Close",
        "Search",
        "Refresh",
        "Copy",
        "Move",
        "Reply",
        "Import",
        "Rename",
        "Undo",
        "Share",
    ),
    ("Name", "City", "Street", "Phone", "Date", "Subject", "Amount", "Note", "Country", "Email"),
    ("General", "Details", "History", "Files", "Access", "Layout", "Alerts", "Billing"),
    ("lamp", "kettle", "notebook", "bicycle", "chair", "lens", "rope", "kite", "drum", "ladder", "basket", "clock"),
    ("Mara Lind", "Jon Beck", "Ida Falk", "Omar Reis", "Pia Holm", "Teo Vance", "Ruth Kane", "Sven Aalto"),
)
UNSEEN = ScreenVocabulary(
    ("Recipes", "Flights", "Patients", "Lessons"),
    (
        "Archive",
        "Export",
        "Approve",
        "Reject",
        "Upload",
        "Pause",
        "Merge",
        "Restore",
        "Publish",
        "Lock",
        "Split",
        "Assign",
    ),
    ("Surname", "Postcode", "Company", "Budget", "Room", "Deadline", "Weight", "Colour"),
    ("Summary", "Members", "Reports", "Devices", "Privacy", "Themes"),
    ("violin", "anchor", "candle", "helmet", "mirror", "pillow", "saddle", "teapot", "wallet", "whistle"),
    ("Nora Quist", "Ben Yates", "Lea Moss", "Karl Dunn", "Una Petrov", "Abel Cruz"),
)
PLACES = {
    "plus": "add",
    "minus": "remove",
    "cross": "close",
    "star": "favourite",
    "disc": "record",
    "ring": "select",
    "square": "stop",
    "play": "play",
    "menu": "menu",
    "arrow": "next",
}
