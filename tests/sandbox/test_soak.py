"""The soak in short: sandboxes, their makers and their hosts are killed at random, and nothing stays behind."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOAK = HERE.parents[1] / "benchmarks" / "soak.py"
SWITCH = [str(HERE / "as_ordinary_user.py")] if os.geteuid() == 0 else []


@pytest.mark.needs_namespaces
@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "options"),
    [
        pytest.param([], ["--kills=0.4"], id="root", marks=pytest.mark.thorough),
        pytest.param([], ["--kills=0.4", "--pool=4"], id="pool"),
        pytest.param(SWITCH, ["--kills=0.2"], id="ordinary user", marks=pytest.mark.thorough),
    ],
)
def test_nothing_leaks_whatever_is_killed(who, options):
    command = [sys.executable, *who, str(SOAK), "--count=60", "--at-once=6", "--seed=3", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "nothing left, every failure typed" in done.stdout
    assert " x guest" in done.stdout
    assert " x host" in done.stdout


@pytest.fixture(scope="module")
def counted():
    spec = importlib.util.spec_from_file_location("soak_census", SOAK.with_name("soak_census.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_census_sees_what_is_left_of_each_kind(counted, tmp_path):
    before = counted.census(tmp_path)
    assert counted.grown(before, counted.census(tmp_path, ())) == []
    (tmp_path / "agentgym-forgotten").write_text("x")
    with subprocess.Popen(["sleep", "60"]) as left, open("/dev/null") as _:
        after = counted.census(tmp_path, ())
        left.kill()
    kinds = [line.split(" left: ")[0] for line in counted.grown(before, after)]
    assert kinds == ["1 processes", "1 files", "1 descriptors"]


def test_what_a_former_process_left_is_not_ours_although_it_had_the_id_of_one(counted, tmp_path):
    """Ids come round: a soak once blamed itself for a control group that was six hours old."""
    with socket.socket(socket.AF_UNIX) as former:
        former.bind("\0agentgym-4000000-former")
        before = counted.census(tmp_path)
        assert counted.grown(before, counted.census(tmp_path, {4000000})) == []
        with socket.socket(socket.AF_UNIX) as ours:
            ours.bind("\0agentgym-4000000-ours")
            assert [line.split(": ")[1] for line in counted.grown(before, counted.census(tmp_path, {4000000}))] == [
                "@agentgym-4000000-ours",
                "open in this process",
            ]


def test_of_two_equal_things_one_more_is_seen(counted):
    assert counted.grown({"mounts": Counter(["a"])}, {"mounts": Counter(["a", "a"])}) == ["1 mounts left: a"]
