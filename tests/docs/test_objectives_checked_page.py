"""docs/objectives_checked.md names, for each claim, tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    row
    for row in (ROOT / "docs" / "objectives_checked.md").read_text(encoding="utf-8").splitlines()
    if row.startswith("|") and not re.match(r"\|(---| what is claimed)", row)
]


def test_every_claim_names_a_test():
    assert len(ROWS) > 50
    assert len({row.split(" | ")[0] for row in ROWS}) == len(ROWS), "each claim once"
    for row in ROWS:
        assert re.fullmatch(r"(`test_\w+\.py::test_\w+`(, )?)+", row.rstrip("| ").rpartition(" | ")[2]), row


def test_every_test_that_is_named_exists():
    for file, name in {tuple(each) for row in ROWS for each in re.findall(r"`(test_\w+\.py)::(\w+)`", row)}:
        [path] = ROOT.glob(f"tests/**/{file}")
        assert re.search(rf"^(async )?def {name}\b", path.read_text(encoding="utf-8"), re.MULTILINE), (file, name)
