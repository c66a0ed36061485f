"""Every program in benchmarks/ runs, with so little work that its figures mean nothing: what is not run, breaks."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest
from checkouts import checkpoint

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
SHORT = {
    "credit": "--groups 2 --repeats 1 --turns 4",
    "episodes": "--episodes 2 --rounds 1",
    "intervals": "--tasks 10 --samples 1 --trials 20",
    "mcp": "--servers 2 --calls 5",
}
LONG = {
    "driver": "--quick",
    "gateway": "--quick",
    "kills": "--quick",
    "fake_sandboxes": "--quick",
    "mixed_soak": "--quick",
    "training": "--rounds 1 --groups 1",
    "sandbox_against": f"{BENCHMARKS.parent} --rounds 1",
    "sampling": "--episodes 2 --rounds 1",
    "environments": "--seconds 0.05 --episodes 0",
    "environments_search": "--passages 2000 --episodes 2",
    "knowledge": "--turns 2 --batch 4",
    "overhead": "--quick",
    "sandbox_programs": "--quick",
    "pool": "--backends namespaces --task-sets code/functions-v1 --episodes 2 --rounds 1 --at-once 1 --think-ms 0",
    "search_budget": "--quick",
    "swe": "--rounds 1 --judged 1 --episodes 2",
    "viewer": "--quick",
    "warehouse": "--episodes 2 --rounds 1",
}
"""What takes more than five seconds of a processor or has tests in tests/interop: run by `make test-all`."""
OWN_TESTS = {
    "figures": "test_benchmark_figures.py",
    "fuzz": "sandbox/test_fuzz_targets.py",
    "gui_full": "sandboxes/test_miniwob_pages.py",
    "horizon": "training/test_horizon_benchmark.py",
    "importers": "tasks/test_importers_benchmark.py",
    "learning": "training/test_learning_benchmark.py",
    "memory": "training/test_memory_benchmark.py",
    "objectives": "training/test_objectives_benchmark.py",
    "sandbox": "sandbox/test_sandbox_benchmark.py",
    "soak": "sandbox/test_soak.py",
    "supply": "training/test_supply_benchmark.py",
    "swe_cheats": "sandboxes/test_swe_forgery.py",
}
"""Programs whose parts are tested one by one, or that would run for long however little they do."""
STARTED_BY = {
    "against": "overhead",
    "driver_workers": "driver",
    "environments_apps": "environments",
    "environments_code": "environments",
    "environments_text": "environments",
    "gateway_programs": "gateway",
    "peering": "episodes",
    "soak_worker": "soak",
}
"""Programs that another one starts or imports, by that one."""
BY_HAND = {
    "cluster": "needs a Ray cluster for minutes",
    "cluster_kills": "needs a Ray cluster for minutes",
    "cluster_many": "needs a Ray cluster for minutes",
    "combinations": "trains every combination: hours",
    "gui": "opens pages of 100,000 elements",
    "make_library_bugs": "writes the bugs of two task sets anew",
    "scale": "trains in two ways, and on a cluster: hours",
    "swe_gold": "plays a published set whole",
}


def run(program: str, arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / f"{program}.py"), *arguments.split()]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
@pytest.mark.needs_namespaces
@pytest.mark.parametrize("program", [*SHORT, *(pytest.param(name, marks=pytest.mark.thorough) for name in LONG)])
def test_a_benchmark_runs_and_prints_figures(program, tmp_path):
    done = run(program, (SHORT | LONG)[program], tmp_path)
    missed_a_target = done.returncode == 1 and "Traceback" not in done.stderr
    assert done.returncode == 0 or missed_a_target, done.stderr[-3000:]
    assert any(character.isdigit() for character in done.stdout)


def test_every_program_is_run_here_or_is_known_not_to_be():
    programs = {path.stem for path in BENCHMARKS.glob("*.py") if 'if __name__ == "__main__"' in path.read_text()}
    lists = (SHORT, LONG, OWN_TESTS, STARTED_BY, BY_HAND)
    assert sorted(programs) == sorted(name for names in lists for name in names)
    assert [file for file in OWN_TESTS.values() if not (Path(__file__).parent / file).is_file()] == []


@pytest.mark.parametrize(("program", "arguments"), [("overhead", "--against nowhere"), ("sandbox_against", "nowhere")])
def test_a_checkout_that_is_missing_is_one_message_with_the_way_to_make_one(program, arguments, tmp_path):
    done = run(program, arguments, tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "nowhere is not a checkout of agentgym: git worktree add nowhere COMMIT"
    )


@pytest.mark.thorough  # the programs import everything that trains before they read their arguments
@pytest.mark.parametrize("program", ["training", "sampling"])
def test_a_model_that_is_missing_is_one_message_with_the_way_to_get_one(program, tmp_path):
    done = run(program, "--model nowhere", tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "nowhere is not a model's folder: make models/smollm2-135m/config.json gets one"
    )


def test_a_model_is_a_folder_with_its_config(tmp_path):
    with pytest.raises(argparse.ArgumentTypeError, match="nowhere is not a model's folder: make models/smollm2-135m"):
        checkpoint("nowhere")
    (tmp_path / "config.json").touch()
    assert checkpoint(str(tmp_path)) == str(tmp_path)
