"""Make the initial files of office jobs: sheets, letters, archives, pictures. Equal arguments give equal bytes."""

from __future__ import annotations

import base64
import gzip
import io
import random
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

Rows = Sequence[tuple[str, str | int]]
Picture = tuple[int, int, bytes]
Content = str | dict[str, str]
"""The content of a task's file: text, or `{"base64": ...}`."""
SHEET = '<c r="{name}" t="inlineStr"><is><t>{text}</t></is></c>'
SPREADSHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
WORKBOOK = "application/vnd.openxmlformats-officedocument.spreadsheetml"
RELATION = (
    f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="rId1" Type="{OFFICE}/{{kind}}" '
    'Target="{target}"/></Relationships>'
)
XLSX_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{WORKBOOK}.sheet.main+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{WORKBOOK}.worksheet+xml"/></Types>',
    "_rels/.rels": RELATION.format(kind="officeDocument", target="xl/workbook.xml"),
    "xl/_rels/workbook.xml.rels": RELATION.format(kind="worksheet", target="worksheets/sheet1.xml"),
    "xl/workbook.xml": f'<workbook xmlns="{SPREADSHEET}" xmlns:r="{OFFICE}"><sheets><sheet name="Sheet1" sheetId="1" '
    'r:id="rId1"/></sheets></workbook>',
}


def packed(data: bytes) -> Content:
    """Encode a binary file."""
    return {"base64": base64.b64encode(data).decode()}


def gnumeric(rows: Rows) -> Content:
    """Return a sheet of two columns as Gnumeric saves it: compressed XML."""
    lines = [
        f'<gnm:Cell Row="{row}" Col="{column}" ValueType="{60 if isinstance(value, str) else 40}">{value}</gnm:Cell>'
        for row, values in enumerate(rows)
        for column, value in enumerate(values)
    ]
    text = (
        '<?xml version="1.0" encoding="UTF-8"?><gnm:Workbook xmlns:gnm="http://www.gnumeric.org/v10.dtd">'
        "<gnm:SheetNameIndex><gnm:SheetName>Sheet1</gnm:SheetName></gnm:SheetNameIndex><gnm:Sheets><gnm:Sheet>"
        f"<gnm:Name>Sheet1</gnm:Name><gnm:MaxCol>1</gnm:MaxCol><gnm:MaxRow>{len(rows) - 1}</gnm:MaxRow><gnm:Cells>"
        f"{''.join(lines)}</gnm:Cells></gnm:Sheet></gnm:Sheets></gnm:Workbook>"
    )
    return packed(gzip.compress(text.encode(), mtime=0))


def xlsx(rows: Rows) -> Content:
    """Return a sheet of two columns as XLSX."""
    lines = []
    for number, (thing, count) in enumerate(rows, 1):
        first = SHEET.format(name=f"A{number}", text=thing)
        second = f'<c r="B{number}"><v>{count}</v></c>'
        if isinstance(count, str):
            second = SHEET.format(name=f"B{number}", text=count)
        lines.append(f'<row r="{number}">{first}{second}</row>')
    sheet = f'<worksheet xmlns="{SPREADSHEET}"><sheetData>{"".join(lines)}</sheetData></worksheet>'
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in {**XLSX_PARTS, "xl/worksheets/sheet1.xml": sheet}.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return packed(buffer.getvalue())


def letter(lines: Sequence[str]) -> str:
    """Return an AbiWord document of plain paragraphs."""
    text = "".join(f"<p>{escape(line)}</p>" for line in lines)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<abiword xmlns="http://www.abisource.com/awml.dtd">'
    return f"{head}<section>{text}</section></abiword>\n"


def archive(files: Mapping[str, str]) -> Content:
    """Return a tar archive, compressed with gzip."""
    buffer = io.BytesIO()
    with gzip.GzipFile("", "wb", fileobj=buffer, mtime=0) as plain, tarfile.open(fileobj=plain, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return packed(buffer.getvalue())


def drawing(rng: random.Random) -> Picture:
    """Return a picture of some rectangles without symmetry under flips or turns: width, height and RGB."""
    width, height = rng.randrange(24, 48, 2), rng.randrange(50, 72, 2)
    colours = [bytes(rng.randrange(40, 250) for _ in range(3)) for _ in range(4)]
    rows = [[colours[0]] * width for _ in range(height)]
    for number, colour in enumerate(colours[1:]):
        left, top = rng.randrange(width // 2), rng.randrange(height // 2)
        for y in range(top, top + 4 + 3 * number):
            rows[y][left : left + 5 + number] = [colour] * (5 + number)
    rows[0][0] = b"\xff\xff\xff"
    return width, height, b"".join(pixel for row in rows for pixel in row)


def flipped(picture: Picture, *, horizontally: bool) -> Picture:
    """Return the mirror image, left to right or upside down."""
    width, height, _ = picture
    rows = _rows(picture)
    turned = [row[::-1] for row in rows] if horizontally else rows[::-1]
    return width, height, b"".join(pixel for row in turned for pixel in row)


def rotated(picture: Picture, *, clockwise: bool) -> Picture:
    """Return the picture turned by 90 degrees."""
    width, height, _ = picture
    rows = _rows(picture)
    turned = list(zip(*rows[::-1], strict=True)) if clockwise else list(zip(*rows, strict=True))[::-1]
    return height, width, b"".join(pixel for row in turned for pixel in row)


def encoded(picture: Picture) -> str:
    """Return the picture as PNG in base64."""
    width, height, _ = picture
    lines = b"".join(b"\0" + b"".join(row) for row in _rows(picture))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [b"IHDR" + head, b"IDAT" + zlib.compress(lines, 9), b"IEND"]
    body = b"".join(struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks)
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def _rows(picture: Picture) -> list[list[bytes]]:
    width, height, rgb = picture
    return [[rgb[3 * (y * width + x) : 3 * (y * width + x) + 3] for x in range(width)] for y in range(height)]
