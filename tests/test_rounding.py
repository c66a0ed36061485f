"""A share is rounded the same way in a terminal and on a page."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from agentgym.text import hundredfold, percent, points

WORDS = Path(__file__).parents[1] / "agentgym" / "evaluation" / "report" / "page" / "words.js"
SHARES = [0.0, 1.0, 0.625, 0.125, 0.285, 0.145, 0.1435, 0.005, 1e-7, 2 / 3, 0.9995, 0.99949999]


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [(0.625, 0, "63"), (0.605, 0, "61"), (0.145, 0, "15"), (0.1435, 1, "14.4"), (-0.0004, 0, "0"), (-0.125, 0, "-13")],
)
def test_halves_go_away_from_zero(share, digits, text):
    assert hundredfold(share, digits) == text


def test_signs_and_what_is_no_number():
    assert (percent(0.625), points(0.125), points(-0.125, 1), points(0.0)) == ("63%", "+13", "-12.5", "+0")
    assert percent(float("nan")) == "nan%"


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_pages_round_alike():
    code = f"""
        import {{ percent, pointsOf }} from {json.dumps(WORDS.as_uri())};
        const shares = {json.dumps(SHARES)};
        console.log(JSON.stringify(shares.map((s) => [percent(s), percent(s, 1), pointsOf(s), pointsOf(-s)])));
    """
    done = subprocess.run(["node", "--input-type=module", "-e", code], capture_output=True, text=True, check=True)
    on_pages = [[text.replace("\u2212", "-").replace(" %", "%") for text in row] for row in json.loads(done.stdout)]
    expected = [[percent(s), percent(s, 1), points(s, 1), points(-s, 1)] for s in SHARES]
    assert on_pages == expected
