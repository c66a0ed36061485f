"""tests/testing/attacks.md shows the attacks that there are, as a run of `agentgym dev sandbox-attack` wrote them."""

from __future__ import annotations

from pathlib import Path

from agentgym.testing.backends.check import CheckVerdict
from agentgym.testing.backends.runs import ATTACKS
from agentgym.testing.backends.table import BEGIN, END, WORDS, TableColumn, markdown, rows_of, spliced

DOCUMENT = (Path(__file__).resolve().parents[1] / "testing" / "attacks.md").read_text(encoding="utf-8")


def test_the_table_lists_every_attack_in_its_order_with_its_sentence():
    """`agentgym dev sandbox-attack --out tests/testing/attacks.md` writes it anew, `--beside` adds earlier runs."""
    assert rows_of(DOCUMENT) == [(case.name, case.sentence) for case in ATTACKS]


def test_no_attack_is_shown_as_not_held():
    block = DOCUMENT.partition(BEGIN)[2].partition(END)[0]
    assert WORDS["failed"] not in block
    assert "not run" not in block


def test_a_table_of_two_runs_says_what_held_what_did_not_and_why():
    def verdict(name, outcome, finding=""):
        return CheckVerdict(name, "attack", "Theme", f"Sentence of {name} with a | in it", outcome, finding)

    first = TableColumn("one", "ns", (verdict("a", "passed"), verdict("b", "left out", "no group")))
    second = TableColumn("two", "ns", (verdict("a", "failed", "got | through"), verdict("c", "passed")))
    block = markdown([first, second])
    assert block.splitlines()[:2] == ["| attack | what is tried, and what must hold | one | two |", "|---|---|---|---|"]
    assert "| a | Sentence of a with a \\| in it | held | **not held** [1] |" in block
    assert "| b | Sentence of b with a \\| in it | not tried [2] | not run |" in block
    assert "| c | Sentence of c with a \\| in it | not run | held |" in block
    assert "| **held** | of 3 attacks | 1 of 2 | 1 of 2 |" in block
    assert "[1] got \\| through" in block
    document = spliced(f"before\n{BEGIN}\nstale\n{END}\nafter\n", block)
    assert [name for name, _ in rows_of(document)] == ["a", "b", "c"]
    assert "stale" not in document
    assert spliced(document, block) == document
