"""What the fuzzer runs for hours runs here for a moment: valid inputs, and inputs that differ in one place."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "fuzz.py"
SPEC = importlib.util.spec_from_file_location("fuzz", SCRIPT)
fuzz = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fuzz)


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_a_parser_of_hostile_bytes_keeps_its_promises(target):
    @settings(max_examples=60)
    @given(
        seed=st.sampled_from(fuzz.seeds()[target]),
        fraction=st.floats(0, 1),
        removed=st.integers(0, 40),
        inserted=st.binary(max_size=40),
    )
    def check(seed, fraction, removed, inserted):
        start = int(fraction * len(seed))
        fuzz.TARGETS[target](seed[:start] + inserted + seed[start + removed :])

    for seed in fuzz.seeds()[target]:
        fuzz.TARGETS[target](seed)
    check()
