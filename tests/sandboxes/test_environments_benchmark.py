"""The benchmark of environments plays real episodes, and its arithmetic is right; figures are no matter here."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmark_modules(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if name.startswith("environments"):
            del sys.modules[name]


async def test_the_memory_run_plays_solved_episodes_and_draws_them(benchmark_modules):
    environments = benchmark_modules("environments")
    assert "sql" in environments.parts()
    assert "row" not in environments.parts()
    samples = await environments.memory(12, 3)
    assert [episodes for episodes, _ in samples] == [3, 6, 9, 12]
    assert "12 episodes" in environments.drawing(samples)


def test_growth_is_the_slope_of_the_second_half(benchmark_modules):
    """2 KiB an episode over the last thousand episodes is 2,000 KiB per thousand; what grew before does not count."""
    environments = benchmark_modules("environments")
    samples = [(n, 50.0 + n) for n in (0, 100, 200)] + [(n, 400 + n * 2 / 1024) for n in (1_000, 1_500, 2_000)]
    assert environments.growth_kib(samples) == pytest.approx(2_000)


def test_rows_are_a_table(benchmark_modules):
    environments, row = benchmark_modules("environments"), benchmark_modules("environments_row").Row
    lines = environments.table([row("bare", 1234.4, "", 0.0), row("a", 617.2, "bare", 0.5)]).split("\n")
    assert lines[2:] == ["| bare | 1,234 |  |  |", "| a | 617 | bare | 0.5 |"]


async def test_the_sql_part_counts_calls_and_whole_episodes(benchmark_modules):
    from agentgym import load_task_set

    part = benchmark_modules("environments_sql")
    task = next(task for task in load_task_set("sql/schemas-inprocess-v1")["train"] if "library" in task.tags)
    queries = [task.truth["sql"]]
    assert part._bare(queries, 0.01) > 0
    assert await part._calls(task, queries, 0.01) > 0
    assert await part._episodes(task, queries, 0.01) > 0


async def test_the_apps_part_counts_calls_resets_and_memory(benchmark_modules):
    from agentgym import load_task_set

    part = benchmark_modules("environments_apps")
    plays = [(task, [["bank", "balance", {}]]) for task in load_task_set("apps/year-v1")["train"][:2]]
    assert await part._through_the_environment(plays, 0.01) > 0
    assert part._bare(plays, 0.01) > 0
    assert await part.reset_ms(3) > 0
    assert await part.memory_kib(2, same=True) > 0
