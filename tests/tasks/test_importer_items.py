"""What every importer begins with: the items of a file, however they are packed."""

import gzip
import json

import pytest

from agentgym.errors import TaskError
from agentgym.tasks.importers.items import field, read_items

ITEMS = [{"text": "one\u2028line and\x85the next"}, {"text": "two"}]


@pytest.mark.parametrize("packed", [False, True])
def test_an_array_and_lines_hold_the_same_items_packed_or_not(tmp_path, packed):
    """Line separators other than the line feed may stand in JSON text as they are, and end no line."""
    path = tmp_path / "a"
    lines = "\n\n".join(json.dumps(item, ensure_ascii=False) for item in ITEMS)
    for text in (json.dumps(ITEMS), lines, lines.replace("\n", "\r\n")):
        raw = text.encode()
        path.write_bytes(gzip.compress(raw) if packed else raw)
        assert read_items(path) == ITEMS


@pytest.mark.parametrize(
    "raw",
    [gzip.compress(b"x" * 999, mtime=0)[:15], gzip.compress(b"[{}]", mtime=0)[:10] + b"\xff" * 9],
    ids=["cut", "broken"],
)
def test_a_broken_archive_cannot_be_read(tmp_path, raw):
    (tmp_path / "a.gz").write_bytes(raw)
    with pytest.raises(TaskError, match="Cannot read"):
        read_items(tmp_path / "a.gz")


def test_a_missing_field_is_named_beside_those_that_are_there():
    assert field({"b": 0}, "here", "a", "b") == 0
    with pytest.raises(TaskError, match="here: expected one of the fields a, b, found c"):
        field({"c": 1, "a": ""}, "here", "a", "b")
