"""Every example runs by itself, and says what it claims."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_runs_and_the_table_names_it(path, tmp_path):
    done = subprocess.run([sys.executable, "-W", "error", path], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert f"`{path.name}`" in (EXAMPLES / "README.md").read_text()


def test_there_are_at_least_six_examples_of_less_than_sixty_lines():
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert sum(length < 60 for length in lengths.values()) >= 6


def test_halving_beats_one_by_one_and_by_how_much():
    """With 8 turns halving always gets there (2^7 > 100); asking 1, 2, 3 ... gets only the lowest numbers."""
    done = subprocess.run([sys.executable, EXAMPLES / "two_strategies.py"], capture_output=True, text=True, check=True)
    assert "halving: 100 %" in done.stdout
    assert "95 % interval +8" in done.stdout
