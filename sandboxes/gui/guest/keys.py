"""Turns the names of keys into the browser's key events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KEYS = {
    "Enter": (13, "\r"),
    "Tab": (9, ""),
    "Escape": (27, ""),
    "Backspace": (8, ""),
    "Delete": (46, ""),
    "Space": (32, " "),
    "ArrowUp": (38, ""),
    "ArrowDown": (40, ""),
    "ArrowLeft": (37, ""),
    "ArrowRight": (39, ""),
    "PageUp": (33, ""),
    "PageDown": (34, ""),
    "Home": (36, ""),
    "End": (35, ""),
}
EDITING = {"Control+a": "selectAll", "Control+c": "copy", "Control+x": "cut", "Control+v": "paste"}


def events(name: str) -> list[dict[str, Any]]:
    """The events of pressing and releasing a key. Raises: KeyError for an unknown name."""
    if name in EDITING:
        letter = name[-1]
        code: dict[str, Any] = {
            "key": letter,
            "code": f"Key{letter.upper()}",
            "windowsVirtualKeyCode": ord(letter.upper()),
            "modifiers": 2,
        }
        return [{"type": "rawKeyDown", "commands": [EDITING[name]], **code}, {"type": "keyUp", **code}]
    number, text = KEYS[name]
    key = " " if name == "Space" else name
    code = {"key": key, "code": name, "windowsVirtualKeyCode": number}
    down = {"type": "keyDown", "text": text, **code} if text else {"type": "rawKeyDown", **code}
    return [down, {"type": "keyUp", **code}]


def typed(text: str) -> Iterator[dict[str, Any]]:
    """The events of typing a text, character by character."""
    for character in text:
        if character == "\n":
            yield from events("Enter")
            continue
        upper = character.upper()
        number = ord(upper) if len(upper) == 1 and ((upper.isascii() and upper.isalnum()) or upper == " ") else 0
        code: dict[str, Any] = {"key": character, "windowsVirtualKeyCode": number}
        if upper.isascii() and upper.isalpha():
            code["code"] = f"Key{upper}"
        yield {"type": "keyDown", "text": character, **code}
        yield {"type": "keyUp", **code}
