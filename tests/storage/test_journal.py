"""A journal keeps what was written whole, whenever its writer was killed."""

from __future__ import annotations

from agentgym.storage.journal import Journal


def test_a_journal_that_was_cut_anywhere_has_every_line_before_and_every_line_after(tmp_path):
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.write("first", {"a": "\u00e9"})
    first = path.read_bytes()
    journal.write("second", None)
    for length in range(len(first), len(path.read_bytes())):
        cut = tmp_path / "cut"
        cut.write_bytes(path.read_bytes()[:length])
        Journal(cut).write("third", [1])
        read = Journal(cut)
        assert read["first"] == {"a": "\u00e9"}
        assert read["third"] == [1]
        second = [
            line for line in cut.read_text().splitlines() if line.startswith('["second", null') and line[-1] == "]"
        ]
        assert ("second" in read) == bool(second)


def test_what_is_no_line_of_a_journal_is_passed_over(tmp_path):
    path = tmp_path / "journal"
    path.write_bytes(b'12\n{"key": "a", "fault": ""}\n[["a"], 1]\n\xff\0\n["b", 2]\n')
    assert "b" in Journal(path)
    assert "a" not in Journal(path)
