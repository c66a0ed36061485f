"""The files of the web page that the viewer and the report show, with its JavaScript modules combined into a script."""

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
    """Return every file of the page by name."""
    folder = files(__package__).joinpath("page")
    return {item.name: item.read_bytes() for item in folder.iterdir() if item.name.rpartition(".")[2] in MEDIA_TYPES}


@cache
def served() -> dict[str, bytes]:
    """Return all files to serve, by name. The modules are combined into one file, because each request costs time."""
    others = {name: content for name, content in assets().items() if not name.endswith(".js")}
    return others | {"script.js": script().encode("utf-8")}


def script() -> str:
    """Return all JavaScript modules as one script, each after the modules it imports.

    The modules write each import as `import { a, b } from "./module.js";`, export only functions, constants and
    classes, and share no top-level names; a test checks this.
    """
    ordered: list[str] = []

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in ordered:
            return
        if name in above:
            raise ValueError(
                "The page's modules import each other in a circle, which is not supported: "
                f"{' -> '.join([*above, name])}."
            )
        for other in _IMPORT.findall(module(name)):
            add(other, (*above, name))
        ordered.append(name)

    add(FIRST_SCRIPT, ())
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", module(name))).strip() for name in ordered) + "\n"


def module(name: str) -> str:
    """Return the text of one JavaScript module."""
    return assets()[name].decode("utf-8")


def policy_hash(text: str) -> str:
    """Return the hash of an inline script or style, in the form that a Content-Security-Policy lists."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
