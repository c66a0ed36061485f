"""Read the items of a data file, and their fields."""

from __future__ import annotations

import csv
import gzip
import json
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym import TaskError, install_command

TABLES = {".csv": ",", ".tsv": "\t"}
COLUMNAR = (".parquet", ".arrow", ".feather")
MAX_NAMED = 3


class LeftOut(ValueError):
    """The reason why a row does not become a task."""


class LeftOutWarning(UserWarning):
    """Some items were left out. `reasons`: the reason for each, by item id."""

    def __init__(self, message: str, reasons: Mapping[str, str]) -> None:
        super().__init__(message)
        self.reasons = dict(reasons)


def report_left_out(path: str | Path, reasons: Mapping[str, str], imported: int, *, stacklevel: int = 3) -> None:
    """Warn about the items that do not become tasks, with the first ids of each reason.

    Args:
        reasons: the reason for each, by item id. imported: the number of the other items.
    Raises: TaskError if no item becomes a task.
    """
    if imported and not reasons:
        return
    names: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        names.setdefault(reason.rstrip("."), []).append(name)
    lines = []
    for reason, ids in sorted(names.items(), key=lambda row: -len(row[1])):
        more = f" and {len(ids) - MAX_NAMED} more" if len(ids) > MAX_NAMED else ""
        lines.append(f"{', '.join(ids[:MAX_NAMED])}{more}: {reason}")
    summary = f"{'; '.join(lines)}."
    if not imported:
        raise TaskError(f"{path}: none of {len(reasons)} items can be imported: {summary}")
    count = f"{len(reasons)} of {len(reasons) + imported}"
    warnings.warn(LeftOutWarning(f"{path}: {count} items are left out: {summary}", reasons), stacklevel=stacklevel)


def read_items(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON array or of JSON lines, perhaps gzipped.

    Raises: TaskError naming the file, and the item (counted from 0) that is not an object.
    """
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise TaskError(f"Cannot read {path}: {reason}. Give the path of a file of the data set.") from error
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is not UTF-8 text: {error}. Save it as UTF-8.") from error
    try:
        items = json.loads(text) if text.lstrip().startswith("[") else _read_lines(text, path)
    except (json.JSONDecodeError, RecursionError) as error:
        raise TaskError(f"{path} is neither a JSON array nor JSON lines: {error}.") from error
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            raise TaskError(f"{path}, item {number}: expected a JSON object, found {type(item).__name__}.")
    if not items:
        raise TaskError(f"{path} contains no items.")
    return list(items)


def _read_lines(text: str, path: Path) -> list[Any]:
    """Return the value of each line that is not empty. Raises: TaskError naming the first line that is not JSON."""
    items = []
    for number, line in enumerate(text.split("\n"), 1):  # only at line feeds: JSON text may contain other separators
        if line.strip():
            try:
                items.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise TaskError(
                    f"{path} is neither a JSON array nor JSON lines: line {number}, {line.strip()[:60]!r}: {error.msg}."
                ) from error
    return items


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return a file's rows, each as values by column: JSON, lines of JSON, CSV, TSV, Parquet, Arrow or Feather.

    Raises: TaskError if the file cannot be read or has no rows.
    """
    kind = path.suffix.lower()
    if kind in COLUMNAR:
        return _columnar_rows(path)
    if kind not in TABLES:
        return read_items(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file, delimiter=TABLES[kind]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TaskError(f"Cannot read {path}: {error}.") from error
    if not rows:
        raise TaskError(f"{path} has no rows below its first line, which names the columns.")
    return rows


def _columnar_rows(path: Path) -> list[dict[str, Any]]:
    try:
        from pyarrow import ArrowException, ipc, parquet
    except ImportError as error:
        raise TaskError(f"{path} is read by the library pyarrow. Run: {install_command('data')}") from error
    try:
        if path.suffix.lower() == ".parquet":
            table = parquet.read_table(path)
        else:
            raw = path.read_bytes()  # written by the library datasets: a file, or a stream
            table = (ipc.open_file if raw.startswith(b"ARROW1") else ipc.open_stream)(raw).read_all()
    except (ArrowException, OSError) as error:
        raise TaskError(f"Cannot read {path}: {error}.") from error
    if not (rows := table.to_pylist()):
        raise TaskError(f"{path} holds no row.")
    return list(rows)


def field(item: Mapping[str, Any], where: str, *names: str) -> Any:
    """Return the value of the first of these fields that is not empty.

    Raises: TaskError, with `where` at the beginning of its message, if all are missing or empty.
    """
    for name in names:
        if item.get(name) not in (None, "", []):
            return item[name]
    raise TaskError(f"{where}: expected one of the fields {', '.join(names)}, found {', '.join(item) or 'none'}.")


def text_of(item: Mapping[str, Any], where: str, *names: str) -> str:
    """Return the first of these fields that is a nonempty text, without outer spaces.

    Raises: TaskError that names the fields.
    """
    for name in names:
        if isinstance(item.get(name), str) and item[name].strip():
            return str(item[name]).strip()
    fields = ", ".join(map(str, item)) or "none"
    raise TaskError(f"{where}: none of the fields {', '.join(names)} holds text. Its fields are {fields}.")
