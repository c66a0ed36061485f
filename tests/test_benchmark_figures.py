"""benchmarks/figures.py keeps what a benchmark shows, and makes the tables of docs/benchmarks.md from it."""

from __future__ import annotations

import json

import figures
import pytest
from source_tree import ROOT


def test_the_tables_of_the_document_are_made_from_the_results():
    page = figures.PAGE.read_text(encoding="utf-8")
    assert figures.page_with_tables(page) == page, "python benchmarks/figures.py"
    in_page = {match["name"] for match in figures.TABLES.finditer(page)}
    assert in_page == {path.stem for path in figures.RESULTS.glob("*.json")}


def test_all_code_that_a_benchmark_measures_exists():
    measured = {path for paths in figures.MEASURES.values() for path in paths}
    assert [path for path in sorted(measured) if not (ROOT / path).exists()] == []
    assert [name for name in figures.MEASURES if not (figures.HERE / f"{name}.py").is_file()] == []


@pytest.mark.slow
def test_a_run_keeps_the_tables_with_commit_machine_and_date(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    assert figures.run("credit", ["--groups", "2", "--repeats", "1", "--turns", "4", "--estimators", "grpo,rloo"]) == 0
    results = json.loads((tmp_path / "credit.json").read_text())
    assert results["command"] == "python benchmarks/credit.py --groups 2 --repeats 1 --turns 4 --estimators grpo,rloo"
    assert results["commit"].rstrip("+") == figures.git("rev-parse", "--short=8", "HEAD")
    assert all(results[name] for name in ("date", "machine", "processor", "python"))
    [table] = results["tables"]
    assert [row[0].split()[0] for row in table["rows"]] == ["grpo", "rloo"]
    assert figures.as_markdown(results).count("\n| ") >= 3
    assert [path.name for path in tmp_path.iterdir()] == ["credit.json"]


def test_a_benchmark_that_does_not_exist_is_named_with_those_that_do():
    with pytest.raises(SystemExit, match=r"no benchmark 'nothing'\. There are: credit, "):
        figures.run("nothing", [])


def test_a_table_is_older_than_the_last_change_of_the_code_that_it_measures(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    last = figures.git("log", "-1", "--format=%h", "--", *figures.MEASURES["overhead"], "benchmarks/overhead.py")
    if not last or not (before := figures.git("rev-parse", f"{last}~1")):
        pytest.skip("the history is not here")
    for commit, changes in ((before, [last]), (last, [])):
        (tmp_path / "overhead.json").write_text(json.dumps({"commit": commit}))
        assert [change.split()[0] for change in figures.changes_since("overhead")] == changes
