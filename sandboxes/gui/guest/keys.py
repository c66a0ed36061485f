"""Turns the names of keys into the browser's key events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}
_MODIFIER_CODES = {"Alt": 18, "Control": 17, "Meta": 91, "Shift": 16}
_NAMED = {
    "Enter": (13, "\r"),
    "Tab": (9, ""),
    "Escape": (27, ""),
    "Backspace": (8, ""),
    "Delete": (46, ""),
    "Insert": (45, ""),
    "Space": (32, " "),
    "ArrowUp": (38, ""),
    "ArrowDown": (40, ""),
    "ArrowLeft": (37, ""),
    "ArrowRight": (39, ""),
    "PageUp": (33, ""),
    "PageDown": (34, ""),
    "Home": (36, ""),
    "End": (35, ""),
    "ContextMenu": (93, ""),
    "CapsLock": (20, ""),
    "Pause": (19, ""),
    "PrintScreen": (44, ""),
    **{f"F{number}": (111 + number, "") for number in range(1, 13)},
}
"""Virtual key code and text of each named key; the name is also its `code`."""
_PUNCTUATION = {
    ";": ("Semicolon", 186, ":"),
    "=": ("Equal", 187, "+"),
    ",": ("Comma", 188, "<"),
    "-": ("Minus", 189, "_"),
    ".": ("Period", 190, ">"),
    "/": ("Slash", 191, "?"),
    "`": ("Backquote", 192, "~"),
    "[": ("BracketLeft", 219, "{"),
    "\\": ("Backslash", 220, "|"),
    "]": ("BracketRight", 221, "}"),
    "'": ("Quote", 222, '"'),
}
"""`code`, virtual key code and shifted character of the other keys of a US keyboard."""
_SHIFTED_DIGITS = ")!@#$%^&*("


class UnknownKey(ValueError):
    """No key has this name."""


def modifiers_of(names: str) -> int:
    """Return the bits of modifier keys that are joined by +, such as Control+Shift; 0 for ''. Raises: UnknownKey."""
    bits = 0
    for name in filter(None, names.split("+")):
        if name not in MODIFIERS:
            raise UnknownKey(f"{name[:30]!r} is not a modifier key. Those are: {', '.join(MODIFIERS)}.")
        bits |= MODIFIERS[name]
    return bits


def events(keys: str) -> list[dict[str, Any]]:
    """Return the events of pressing keys together and releasing them, such as Enter, a, F5 or Control+Shift+k.

    Raises: UnknownKey.
    """
    is_plus = keys == "+" or keys.endswith("++")
    *held, name = [*filter(None, keys[:-1].split("+")), "+"] if is_plus else keys.split("+")
    if name in MODIFIERS:
        held, name = [*held, name], ""
    elif not name:
        raise UnknownKey(f"{keys[:30]!r} names no key.")
    bits = modifiers_of("+".join(held))
    held = [modifier for modifier in MODIFIERS if bits & MODIFIERS[modifier]]
    down: list[dict[str, Any]] = []
    up: list[dict[str, Any]] = []
    so_far = 0
    for modifier in held:
        code = {"key": modifier, "code": f"{modifier}Left", "windowsVirtualKeyCode": _MODIFIER_CODES[modifier]}
        up.insert(0, {"type": "keyUp", "modifiers": so_far, **code})
        so_far |= MODIFIERS[modifier]
        down.append({"type": "rawKeyDown", "modifiers": so_far, **code})
    return [*down, *(_strokes(name, bits) if name else ()), *up]


def typed(text: str) -> Iterator[dict[str, Any]]:
    """Yield the events of typing a text, character by character."""
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


def _strokes(name: str, modifiers: int) -> list[dict[str, Any]]:
    """Return the events of one key while modifier keys are held."""
    key, code, number, text = _key(name, shifted=bool(modifiers & MODIFIERS["Shift"]))
    described = {"key": key, "code": code, "windowsVirtualKeyCode": number, "modifiers": modifiers}
    if modifiers & ~MODIFIERS["Shift"]:
        text = ""  # keys pressed with a modifier type no text
    down = {"type": "keyDown", "text": text, **described} if text else {"type": "rawKeyDown", **described}
    return [down, {"type": "keyUp", **described}]


def _key(name: str, *, shifted: bool) -> tuple[str, str, int, str]:
    """Return `key`, `code`, virtual key code and text of a key. Raises: UnknownKey."""
    name = "Space" if name == " " else name
    if name in _NAMED:
        number, text = _NAMED[name]
        return text if name == "Space" else name, name, number, text
    if len(name) == 1 and name.isprintable():
        upper = name.upper()
        if upper.isascii() and upper.isalpha():
            key = upper if shifted else name
            return key, f"Key{upper}", ord(upper), key
        if name.isascii() and name.isdigit():
            key = _SHIFTED_DIGITS[int(name)] if shifted else name
            return key, f"Digit{name}", ord(name), key
        for plain, (code, number, shift) in _PUNCTUATION.items():
            if name in (plain, shift):
                key = shift if shifted else name
                return key, code, number, key
        if name in _SHIFTED_DIGITS:
            digit = _SHIFTED_DIGITS.index(name)
            return name, f"Digit{digit}", ord(str(digit)), name
        return name, "", 0, name
    raise UnknownKey(
        f"{name[:30]!r} is no key. Keys are single characters, F1 to F12 and {', '.join(list(_NAMED)[:19])}; "
        "join them with those held by +, as in Control+Shift+k."
    )
