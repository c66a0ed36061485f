"""The benchmark of sandboxes runs and judges its targets; what it measures is no matter for a test."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def measuring():
    path = FOLDER / "sandbox_measuring.py"
    spec = importlib.util.spec_from_file_location("sandbox_measuring", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["sandbox_measuring"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["sandbox_measuring"]


def test_a_ratio_below_one_is_better_than_the_peer_in_either_direction(measuring):
    assert measuring.Row("cost", 2.0, "ms", beside="peer", beside_value=4.0).ratio == 0.5
    rate = measuring.Row("rate", 200.0, "/ s", 100.0, more_is_better=True, beside="peer", beside_value=100.0)
    assert rate.ratio == 0.5
    assert rate.holds


def test_what_could_not_be_measured_misses_no_target(measuring):
    assert all(row.holds and row.note == "no daemon" for row in measuring.unmeasured(["a", "b"], "no daemon"))
    assert not measuring.Row("cost", 3.0, "ms", 2.0).holds


def test_works_are_done_in_turn_and_the_first_round_does_not_count(measuring):
    order = []

    def work(name):
        async def once():
            order.append(name)

        return once

    times = asyncio.run(measuring.in_turn({"a": work("a"), "b": work("b")}, 2))
    assert order == ["a", "b"] * 3
    assert [len(values) for values in times.values()] == [2, 2]


@pytest.mark.needs_namespaces
@pytest.mark.thorough  # as the benchmarks of tests/test_benchmarks_run.py that take more than five seconds
def test_two_checkouts_are_compared_row_by_row():
    command = [sys.executable, str(FOLDER / "sandbox_against.py"), str(FOLDER.parent), "--rounds", "3"]
    done = subprocess.run([*command, "--only", "of 4 KiB"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert [row[0] for row in rows] == ["write of 4 KiB", "read of 4 KiB"]
    assert all(len(row) == 7 and float(row[1]) > 0 for row in rows)


@pytest.mark.needs_namespaces
@pytest.mark.thorough  # as the benchmarks of tests/test_benchmarks_run.py that take more than five seconds
def test_it_measures_and_writes_what_it_found(tmp_path):
    command = [sys.executable, str(FOLDER / "sandbox.py"), "--quick", "--only", "life", "files", "many", "peers"]
    done = subprocess.run(
        [*command, "--peers", str(tmp_path / "none"), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode in (0, 1), done.stderr[-3000:]  # targets may be missed: others use the machine
    assert "What sandboxes cost" in done.stdout, done.stderr[-3000:]
    figures = json.loads((tmp_path / "sandbox.json").read_text())
    assert all(row["value"] is not None or row["note"] == "needs root" for row in figures["rows"])
    assert figures["peers"]["agentgym, namespaces"]["ms"]["life"] > 0
    assert "not installed" in figures["peers"]["SWE-ReX local"]["reason"]
