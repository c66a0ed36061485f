"""docs/mended.md names, for each defect, tests and attacks that exist."""

from __future__ import annotations

import re
from pathlib import Path

from agentgym.testing.backends import ATTACKS

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    row
    for row in (ROOT / "docs" / "mended.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| ([A-DHLM]\d+|minor|missing)", row)
]


def test_every_entry_has_a_row():
    entries = [row.split("|")[1].split()[0] for row in ROWS]
    numbered = [entry for entry in dict.fromkeys(entries) if entry[-1].isdigit()]
    counts = {"H": 4, "M": 9, "L": 9, "D": 11, "C": 15}
    assert numbered == [f"{letter}{number}" for letter, count in counts.items() for number in range(1, count + 1)]


def test_every_test_and_attack_that_holds_an_entry_exists():
    attacks = {attack.name for attack in ATTACKS}
    for row in ROWS:
        holders = re.findall(r"`([^`]+)`", row.rstrip("| ").rpartition(" | ")[2])
        assert holders, row
        for holder in holders:
            file, _, name = holder.partition("::")
            if not file.endswith(".py"):
                assert holder in attacks, holder
                continue
            [path] = ROOT.glob(f"tests/**/{file}")
            assert re.search(rf"^(async )?def {name}\b", path.read_text(encoding="utf-8"), re.MULTILINE), holder
