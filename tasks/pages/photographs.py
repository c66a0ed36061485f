"""The pages as they were photographed: an archive of pictures, and of each what is on it and where."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from agentgym.errors import TaskError

ARCHIVE, INDEX = "pages.zip", "pages.json"
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Element:
    """Something on a page. `role` and `name` are those of the browser's accessibility tree; `box` in pixels of the
    picture: left, top, right, bottom, the last two outside."""

    role: str
    name: str
    box: Box


@dataclass(frozen=True, slots=True)
class Photograph:
    """A page in a browser window: `name` of its picture, `size` in pixels, and the elements wholly in view."""

    name: str
    stratum: str
    site: str
    size: tuple[int, int]
    elements: tuple[Element, ...]


@cache
def photographs() -> tuple[Photograph, ...]:
    """Those that come with the package, in the order in which they were taken."""
    return read_index(_opened().read(INDEX))


def picture(name: str = "0000") -> bytes:
    """One picture, WebP. Raises: TaskError if there is none of that name."""
    try:
        return _opened().read(f"{name}.webp")
    except KeyError as error:
        raise TaskError(f"There is no page {name!r}: they are 0000 to {len(photographs()) - 1:04d}.") from error


def write(path: Path, taken: Sequence[tuple[Photograph, bytes]]) -> None:
    """Write an archive. The same pages give the same bytes."""
    rows = [asdict(photograph) for photograph, _ in taken]
    index = "[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(INDEX), index, zipfile.ZIP_DEFLATED)
        for photograph, content in taken:  # a picture does not shrink any further
            archive.writestr(zipfile.ZipInfo(f"{photograph.name}.webp"), content)


def read_index(content: bytes) -> tuple[Photograph, ...]:
    """What `write` wrote of the photographs."""
    return tuple(
        Photograph(
            row["name"], row["stratum"], row["site"], tuple(row["size"]),
            tuple(Element(one["role"], one["name"], tuple(one["box"])) for one in row["elements"]),
        )
        for row in json.loads(content)
    )  # fmt: skip


@cache
def _opened() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(files(__package__).joinpath(ARCHIVE).read_bytes()))
