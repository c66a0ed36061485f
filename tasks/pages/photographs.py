"""The archive of photographed pages: pictures, and an index of the elements on each."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from agentgym import TaskError

ARCHIVE, INDEX = "pages.zip", "pages.json"
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a page.

    Attributes:
        role, name: from the browser's accessibility tree.
        box: left, top, right and bottom in pixels of the picture; right and bottom are exclusive.
    """

    role: str
    name: str
    box: Box


@dataclass(frozen=True, slots=True)
class Photograph:
    """A page in a browser window.

    Attributes:
        name: the name of its picture in the archive.
        stratum, site: as in `visits.py`.
        size: width and height in pixels.
        elements: elements wholly in view.
    """

    name: str
    stratum: str
    site: str
    size: tuple[int, int]
    elements: tuple[Element, ...]


@cache
def photographs() -> tuple[Photograph, ...]:
    """Return the photographs of the package, in the order in which they were taken."""
    return read_index(_archive().read(INDEX))


def picture(name: str = "0000") -> bytes:
    """Return a picture as WebP. Raises: TaskError if no picture has this name."""
    try:
        return _archive().read(f"{name}.webp")
    except KeyError as error:
        raise TaskError(f"There is no page {name!r}. Pages are 0000 to {len(photographs()) - 1:04d}.") from error


def write(path: Path, pages: Sequence[tuple[Photograph, bytes]]) -> None:
    """Write an archive of photographs and their pictures. Equal pages give equal bytes."""
    rows = [asdict(photograph) for photograph, _ in pages]
    index = "[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(INDEX), index, zipfile.ZIP_DEFLATED)
        for photograph, content in pages:  # pictures are compressed already
            archive.writestr(zipfile.ZipInfo(f"{photograph.name}.webp"), content)


def read_index(content: bytes) -> tuple[Photograph, ...]:
    """Read an index written by `write`."""
    return tuple(
        Photograph(
            row["name"],
            row["stratum"],
            row["site"],
            tuple(row["size"]),
            tuple(Element(element["role"], element["name"], tuple(element["box"])) for element in row["elements"]),
        )
        for row in json.loads(content)
    )


@cache
def _archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(files(__package__).joinpath(ARCHIVE).read_bytes()))
