"""The environment that is written for several frameworks is the same in those that are installed here."""

from __future__ import annotations

from pathlib import Path

import pytest
import warehouse

pytest.importorskip("gymnasium")
FOLDER = Path(warehouse.__file__).parent / "peers" / "warehouses"


def test_they_agree_and_a_framework_that_is_not_installed_is_named(tmp_path):
    results = warehouse.measure(tmp_path, episodes=3, rounds=1)
    measured = {name: result for name, result in results.items() if not isinstance(result, str)}
    assert list(measured) == ["plain Python", "agentgym", "Gymnasium"]
    assert len({tuple(result["texts"]) for result in measured.values()}) == 1
    assert {results[name] for name in results if name not in measured} == {
        f"not installed: make bench-peers PEERS={tmp_path}"
    }
    table = warehouse.table_of(results)
    assert table.row_count == len(warehouse.PEERS)
    measured["Gymnasium"]["texts"] = ["4"]
    with pytest.raises(RuntimeError, match="Gymnasium differs"):
        warehouse.table_of(results)


def test_there_is_a_file_for_each_row():
    assert {f"{name}_warehouse.py" for name in warehouse.WAREHOUSES} == {path.name for path in FOLDER.glob("*.py")}
