"""The tables of credit have every estimator, and the proofs that docs/credit.md links exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from agentgym import registry
from agentgym.errors import CreditError
from agentgym.testing.exact.bias import GradientBias
from research.credit_bench import run_benchmark
from research.credit_bench.markdown import BENCH, BIAS, bench_block, bias_block, markers, names_in, write_into

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "credit.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "benchmarks" / "credit_results.md").read_text(encoding="utf-8")
PROOFS = re.findall(r"\]\(\.\./(tests/[\w/]+\.py)#(\w+)\)", DOCUMENT)


@cache
def names_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_linked_proof_is_an_existing_test():
    assert len(PROOFS) >= 10
    assert [proof for proof in PROOFS if proof[1] not in names_of(proof[0])] == []
    assert len(re.findall(r"\.\./tests/", DOCUMENT)) == len(PROOFS), "a link to a test without the test's name"


@pytest.mark.parametrize(("document", "table"), [(DOCUMENT, BIAS), (RESULTS, BENCH)])
def test_a_table_has_a_row_for_every_estimator(document, table):
    """To write a table anew: agentgym dev credit-bias --out docs/credit.md, credit-bench --out benchmarks/..."""
    assert names_in(document, table) == registry.names("estimators")


def test_no_unbiased_row_has_an_error():
    begin, end = markers(BIAS)
    rows = DOCUMENT.partition(begin)[2].partition(end)[0].splitlines()
    for row in (row for row in rows if "| unbiased |" in row):
        assert row.count("**0**") == 4, row


def test_a_table_is_written_between_its_markers_and_nowhere_else(tmp_path):
    begin, end = markers(BIAS)
    path = tmp_path / "page.md"
    path.write_text(f"before\n{begin}\nstale\n{end}\nafter\n")
    block = bias_block({"a": ("biased", [GradientBias("one", 2, 0.25, 1.0), GradientBias("two_rooms", 2, 0.0, 1.0)])})
    for _ in range(2):
        write_into(path, BIAS, block)
        assert path.read_text() == (
            f"before\n{begin}\n| estimator | declared | one | two rooms |\n|---|---|---|---|\n"
            f"| `a` | biased | 0.25 | **0** |\n{end}\nafter\n"
        )
    assert names_in(path.read_text(), BIAS) == ["a"]
    with pytest.raises(CreditError, match="no place for the table"):
        write_into(path, BENCH, block)
    with pytest.raises(CreditError, match="Cannot read"):
        write_into(tmp_path / "none.md", BIAS, block)


def test_the_benchmarks_table_has_a_column_for_every_length():
    heading, _, row = bench_block(run_benchmark(["rloo"], turns=(2, 4), size=4, groups=4, seeds=2, most=5)).splitlines()
    assert heading == "| estimator | error, 2 | error, 4 | sign, 4 | noise, 4 | updates, 2 | updates, 4 |"
    assert row.startswith("| `rloo` | ")
    assert row.count("|") == heading.count("|")
