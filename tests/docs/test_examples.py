"""Every example runs by itself, and says what it claims."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


IN_SANDBOXES = {
    "network_allow_list.py": (
        "-> lamp 42\n",
        "example.org:80 is not on the allow list of this sandbox",
        "OSError: .* Network is unreachable",
        r'"refused": \["example.org:80", "127.0.0.1:\d+"\]',
        "reward: {'right_and_inside': 0.0}",
    ),
    "own_root_filesystem.py": (
        "python3 -> 10\n",
        "Read-only file system: '/data/stock.csv'",
        r"sh -> \[exit code 127\]",
        "image: sha256:[0-9a-f]{64}\n",
    ),
}
"""Examples that need sandboxes, and what they print."""


def _examples() -> Iterator[object]:
    for path in sorted(EXAMPLES.glob("*.py")):
        marks = [pytest.mark.needs_namespaces] if path.name in IN_SANDBOXES else []
        yield pytest.param(path, id=path.name, marks=marks)


@pytest.mark.parametrize("path", list(_examples()))
def test_an_example_runs_and_the_table_names_it(path, tmp_path):
    done = subprocess.run([sys.executable, "-W", "error", path], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    for pattern in IN_SANDBOXES.get(path.name, ()):
        assert re.search(pattern, done.stdout), f"{pattern!r} is not in:\n{done.stdout}"
    assert f"`{path.name}`" in (EXAMPLES / "README.md").read_text()


def test_there_are_at_least_six_examples_of_less_than_sixty_lines():
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert sum(length < 60 for length in lengths.values()) >= 6


def test_halving_beats_one_by_one_and_by_how_much():
    """With 8 turns halving always gets there (2^7 > 100); asking 1, 2, 3 ... gets only the lowest numbers."""
    done = subprocess.run([sys.executable, EXAMPLES / "two_strategies.py"], capture_output=True, text=True, check=True)
    assert "halving: 100 %" in done.stdout
    assert "95 % interval +8" in done.stdout
