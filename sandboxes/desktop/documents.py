"""Reads office files: cells, paragraphs and pixels. The agent made them, so reading is bounded."""

from __future__ import annotations

import base64
import csv
import io
import struct
import xml.etree.ElementTree as ElementTree
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

MAX_PLAIN, MAX_PIXELS, MAX_SHEETS = 2**22, 2**20, 8
PNG_SIZE = slice(16, 24)  # where a PNG has its width and height
CHANNELS = {2: 3, 3: 1, 6: 4}
GNUMERIC = "{http://www.gnumeric.org/v10.dtd}"
XLSX = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
STYLES = {"bold": "font-weight:bold", "italic": "font-style:italic"}
UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    OSError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    zlib.error,
    struct.error,
    csv.Error,
    zipfile.BadZipFile,
    ElementTree.ParseError,
)
"""Errors of reading a broken or hostile file."""

Content = str | dict[str, str]


def bytes_of(content: Content) -> bytes:
    """Return the bytes of a file: text, or `{"base64": ...}`. Raises: ValueError."""
    if isinstance(content, str):
        return content.encode()
    if not isinstance(content, dict) or content.keys() != {"base64"}:
        raise ValueError('expected text or {"base64": ...}')
    return base64.b64decode(content["base64"], validate=True)


def content_of(data: bytes) -> Content:
    """Return a file as text if it is text, otherwise as `{"base64": ...}`."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def cells(data: bytes) -> dict[str, str | float]:
    """Return the non-empty cells by name, such as B3: numbers, texts, or formulas, which are in lower case and begin
    with =.

    Reads Gnumeric's XML, compressed or not, XLSX and CSV. Cells of the second sheet are named 2!B3.
    Raises: one of UNREADABLE.
    """
    if data.startswith(b"PK"):
        return dict(_xlsx_cells(data))
    if data.startswith(b"\x1f\x8b"):
        data = _inflated(data, zlib.MAX_WBITS | 16, MAX_PLAIN)
    if data.lstrip().startswith(b"<?xml"):
        return dict(_gnumeric_cells(data))
    rows = csv.reader(io.StringIO(data.decode()))
    return {
        _name(row, column): _value(text) for row, texts in enumerate(rows) for column, text in enumerate(texts) if text
    }


def paragraphs(data: bytes) -> list[list[list[str]]]:
    """Return the paragraphs of an AbiWord document. Each is a list of runs: pairs of a text and its styles, such as
    "bold".

    Empty paragraphs at the end are left out. Raises: one of UNREADABLE.
    """
    read = []
    for element in _xml(data).iter():
        if element.tag.rpartition("}")[2] != "p":
            continue
        runs: list[list[str]] = []
        pieces = [(element.text, "")]
        for child in element:
            pieces += [("".join(child.itertext()), _styles(child.get("props", ""))), (child.tail, "")]
        for text, style in pieces:
            if text and runs and runs[-1][1] == style:
                runs[-1][0] += text
            elif text:
                runs.append([text, style])
        read.append(runs)
    while read and not read[-1]:
        read.pop()
    return read


def pixels(data: bytes) -> tuple[int, int, bytes]:
    """Return width, height and RGB bytes of a PNG with 8 bits per channel, not interlaced. Alpha is dropped.

    Raises: one of UNREADABLE. Source: W3C, Portable Network Graphics, sections 5, 9 and 11.
    """
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        raise ValueError("the file is not a PNG image")
    chunks: dict[bytes, bytes] = {}
    at = 8
    while at < len(data):
        (size,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        chunks[kind] = chunks.get(kind, b"") + data[at + 8 : at + 8 + size]
        at += size + 12
    width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if depth != 8 or interlaced or not 0 < width * height <= MAX_PIXELS:
        raise ValueError("PNG images of this kind (size, depth or interlacing) are not supported")
    channels = CHANNELS[colours]
    line = width * channels
    raw = _inflated(chunks[b"IDAT"], zlib.MAX_WBITS, (line + 1) * height)
    rows, above = bytearray(), bytes(line)
    for y in range(height):
        row = raw[y * (line + 1) : (y + 1) * (line + 1)]
        above = _unfiltered(row[0], bytearray(row[1:]), above, channels)
        rows += above
    if colours == 3:
        palette = chunks[b"PLTE"]
        return width, height, b"".join(palette[3 * index : 3 * index + 3] for index in rows)
    rgb = bytearray(3 * width * height)
    for channel in range(3):
        rgb[channel::3] = rows[channel::channels]
    return width, height, bytes(rgb)


READERS: dict[str, Callable[[bytes], Any]] = {"cells": cells, "paragraphs": paragraphs, "picture": pixels}


def holds(data: bytes, expected: Mapping[str, Any]) -> bool:
    """Return whether a file holds the `cells`, the `paragraphs`, the pixels of a `picture` or the bytes of `base64`.

    Raises: ValueError if the expected content has none of these keys, or its picture is invalid.
    """
    if expected.keys() == {"base64"}:
        return data == bytes_of({"base64": expected["base64"]})
    kind = next(iter(expected), "")
    if len(expected) != 1 or kind not in READERS:
        raise ValueError(f"the checks of a file must be one of {', '.join(READERS)} or base64, not {sorted(expected)}")
    content: Any = expected[kind]
    if kind == "picture":
        picture = bytes_of({"base64": content})
        content = _read(pixels, picture)
        if content is None:
            raise ValueError("the expected picture is not a PNG image that can be read")
        if data[PNG_SIZE] != picture[PNG_SIZE]:
            return False  # the agent may have left a picture of another size, which would take seconds to read
    elif kind == "cells":
        content = dict(content)
    return bool(_read(READERS[kind], data) == content)


def _read(reader: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return reader(data)
    except UNREADABLE:
        return None


def _unfiltered(kind: int, row: bytearray, above: bytes, step: int) -> bytes:
    """Undo the filter of this kind on one row of a PNG. `above`: the row above. `step`: bytes per pixel."""
    for index, value in enumerate(row):
        left, up = row[index - step] if index >= step else 0, above[index]
        if kind == 1:
            value += left
        elif kind == 2:
            value += up
        elif kind == 3:
            value += (left + up) // 2
        elif kind == 4:
            corner = above[index - step] if index >= step else 0
            estimate = left + up - corner
            value += min((left, up, corner), key=lambda near: abs(estimate - near))
        row[index] = value & 255
    return bytes(row)


def _inflated(data: bytes, window: int, limit: int) -> bytes:
    plain = zlib.decompressobj(window).decompress(data, limit + 1)
    if len(plain) > limit:
        raise ValueError(f"it is longer than {limit} bytes")
    return plain


def _xml(data: bytes) -> ElementTree.Element:
    """Parse XML. Entity declarations are refused: they could make the document grow without bound."""
    text = data.decode()
    if "<!ENTITY" in text:
        raise ValueError("XML with entities is not supported")
    return ElementTree.fromstring(text)


def _styles(properties: str) -> str:
    plain = properties.replace(" ", "")
    return " ".join(name for name, mark in STYLES.items() if mark in plain)


def _value(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text.casefold().replace(" ", "") if text.startswith("=") else text


def _name(row: int, column: int) -> str:
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return f"{letters}{row + 1}"


def _sheet(index: int) -> str:
    if index >= MAX_SHEETS:
        raise ValueError(f"it has more than {MAX_SHEETS} sheets")
    return f"{index + 1}!" if index else ""


def _gnumeric_cells(data: bytes) -> Iterator[tuple[str, str | float]]:
    for index, sheet in enumerate(_xml(data).iter(f"{GNUMERIC}Sheet")):
        for cell in sheet.iter(f"{GNUMERIC}Cell"):
            text = cell.text or ""
            plain = cell.get("ValueType") == "60"  # a cell of this type is text, even if it looks like a number
            name = _sheet(index) + _name(int(cell.attrib["Row"]), int(cell.attrib["Col"]))
            yield name, text if plain else _value(text)


def _xlsx_cells(data: bytes) -> Iterator[tuple[str, str | float]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.namelist()
        strings = []
        if "xl/sharedStrings.xml" in members:
            strings = ["".join(item.itertext()).strip() for item in _member(archive, "xl/sharedStrings.xml")]
        sheets = sorted(name for name in members if name.startswith("xl/worksheets/sheet"))
        for index, sheet in enumerate(sheets):
            for cell in _member(archive, sheet).iter(f"{XLSX}c"):
                formula, value, kind = cell.find(f"{XLSX}f"), cell.find(f"{XLSX}v"), cell.get("t")
                text = (value.text if value is not None else "") or ""
                content: str | float = text if kind == "str" else _value(text)
                if formula is not None:
                    content = _value(f"={formula.text}")
                elif kind == "s":
                    content = strings[int(text)]
                elif kind == "inlineStr":
                    content = "".join(cell.itertext()).strip()
                if content != "":
                    yield _sheet(index) + cell.attrib["r"], content


def _member(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    if archive.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("a member is compressed by an unsupported method")
    with archive.open(name) as member:
        plain = member.read(MAX_PLAIN + 1)
    if len(plain) > MAX_PLAIN:
        raise ValueError(f"a member is longer than {MAX_PLAIN} bytes")
    return _xml(plain)
