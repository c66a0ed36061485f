"""`agentgym credit` as a user types it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from typer.testing import CliRunner

from agentgym.cli.app import app

ENVIRONMENT_VARIABLES = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}


def agentgym(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words], env=ENVIRONMENT_VARIABLES)


def test_the_benchmark_prints_a_table_and_writes_its_record_and_page(tmp_path: Path):
    done = agentgym(
        "dev",
        "credit-bench",
        "--estimators",
        "rloo,mt_grpo_reach",
        "--turns",
        "2,4",
        "--groups",
        20,
        "--seeds",
        2,
        "--out",
        tmp_path / "new" / "bench",
    )
    assert done.exit_code == 0, done.output
    assert "rloo           unbiased" in done.stdout
    assert "mt_grpo_reach  biased" in done.stdout
    record = json.loads((tmp_path / "new" / "bench" / "credit-bench.json").read_text())
    assert [(row["name"], row["turns"]) for row in record] == [
        ("rloo", 2),
        ("rloo", 4),
        ("mt_grpo_reach", 2),
        ("mt_grpo_reach", 4),
    ]
    page = (tmp_path / "new" / "bench" / "credit-bench.html").read_text()
    assert "<svg" in page
    assert "<script" not in page
    assert page.count("mt_grpo_reach") >= 3


def test_numbers_of_turns_that_are_none_are_refused():
    done = agentgym("dev", "credit-bench", "--turns", "2,many")
    assert done.exit_code == 2
    assert "whole numbers with commas between" in done.stderr
    done = agentgym("dev", "credit-bench", "--turns", "0")
    assert "at least one turn" in done.stderr


def test_an_unknown_estimator_is_named_with_its_neighbour():
    done = agentgym("dev", "credit-bench", "--estimators", "rlo")
    assert done.exit_code == 2
    assert "'rloo'" in done.stderr


def test_an_audit_of_what_is_no_run_says_so(tmp_path: Path):
    done = agentgym("credit", "audit", tmp_path / "none")
    assert done.exit_code == 2
    assert "There is no run at" in done.stderr
