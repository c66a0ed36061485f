"""The files of the page, and its modules as the one script that a viewer serves and a report holds."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

MEDIA_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
FIRST_SCRIPT = "main.js"
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function |const |class )", re.MULTILINE)


@cache
def assets() -> dict[str, bytes]:
    """Every file of the page by name."""
    folder = files(__package__).joinpath("page")
    return {item.name: item.read_bytes() for item in folder.iterdir() if item.name.rpartition(".")[2] in MEDIA_TYPES}


@cache
def served() -> dict[str, bytes]:
    """Return what a server gives by name, and nothing else: all modules are one file, because each request
    costs time.
    """
    others = {name: content for name, content in assets().items() if not name.endswith(".js")}
    return others | {"script.js": script().encode("utf-8")}


def script() -> str:
    """All modules as one, each after those it imports.

    The modules write each import as `import { a, b } from "./module.js";`, export only functions, constants and
    classes, and no two of them use one top-level name: a test sees to it.
    """
    ordered: list[str] = []

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in ordered:
            return
        if name in above:
            raise ValueError(f"The page's modules import each other in a circle: {' -> '.join([*above, name])}.")
        for other in _IMPORT.findall(module(name)):
            add(other, (*above, name))
        ordered.append(name)

    add(FIRST_SCRIPT, ())
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", module(name))).strip() for name in ordered) + "\n"


def module(name: str) -> str:
    """Return the text of one script."""
    return assets()[name].decode("utf-8")


def policy_hash(text: str) -> str:
    """Return what a Content-Security-Policy calls an inline script or style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
