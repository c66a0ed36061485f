"""A test suite is worth what it catches: errors of one character in estimators, each of which some test must notice.

Every mutation is made in a copy of the package, against which real test files of this folder are then run.
"""

from __future__ import annotations

import io
import multiprocessing
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.util import cache_from_source
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HAND, PUBLISHED, EVIDENCE = "test_estimators_by_hand.py", "test_published_by_hand.py", "test_evidence_by_hand.py"
BRANCHES, REPLAYS = "test_branches.py", "test_counterfactual.py"
WRAPPERS, OFF_POLICY = "test_wrappers.py", "test_off_policy.py"

# file of the package, what stands there, what one character makes of it, the tests that must notice
MUTATIONS = [
    ("credit/arithmetic.py", "else (0.0, 0)", "else (0.0, 1)", HAND),
    ("credit/arithmetic.py", "count = mask.sum(axis=0)\n", "count = mask.sum(axis=1)\n", HAND),
    (
        "credit/arithmetic.py",
        "where(k == group.turns - 1, outcomes",
        "where(k == group.turns - 2, outcomes",
        HAND,
    ),
    ("credit/arithmetic.py", "outcomes, gamma * following", "outcomes, gamma + following", HAND),
    ("credit/estimators/grpo.py", "ddof: Ddof = 1", "ddof: Ddof = 0", HAND),
    ("credit/arithmetic.py", "reached.sum(axis=0) == 1", "reached.sum(axis=0) == 2", HAND),
    (
        "credit/estimators/mt_grpo.py",
        "return centred(turn_returns, baseline)",
        "return centred(-turn_returns, baseline)",
        HAND,
    ),
    ("methods/credit/opo.py", "lengths.sum() - leave_out * lengths", "lengths.sum() + leave_out * lengths", PUBLISHED),
    ("credit/arithmetic.py", "gamma * following - values", "gamma * following + values", PUBLISHED),
    ("methods/credit/mt_grpo_two_segment.py", "columns[None] <= end", "columns[None] >= end", PUBLISHED),
    ("methods/credit/shaping.py", "(turn_returns - before", "(turn_returns + before", EVIDENCE),
    ("methods/credit/igpo.py", "discounted_sums(advantages, gamma)", "discounted_sums(advantages, 1.0)", EVIDENCE),
    ("credit/arithmetic.py", "+ decay * following", "- decay * following", EVIDENCE),
    ("methods/credit/trace.py", "(columns + window >= ends)", "(columns - window >= ends)", EVIDENCE),
    ("methods/credit/spa.py", "(outcomes - before)", "(outcomes + before)", EVIDENCE),
    ("methods/credit/hindsight.py", "z, 1 - band, 1 + band", "z, 1 - band, 1 - band", EVIDENCE),
    ("methods/credit/hca.py", "-np.expm1(-ratio)", "+np.expm1(-ratio)", EVIDENCE),
    ("methods/credit/vine.py", "return turn_returns - forward_fill", "return turn_returns + forward_fill", BRANCHES),
    ("methods/credit/sibling.py", "np.maximum(tree.siblings - 1, 1)", "np.maximum(tree.siblings - 0, 1)", BRANCHES),
    ("methods/credit/branches.py", "total[level] / count[level]", "total[level] * count[level]", BRANCHES),
    ("methods/credit/counterfactual.py", "math.comb(turns - 1, size)", "math.comb(turns - 0, size)", REPLAYS),
    ("methods/credit/wrappers/gated.py", "(reached >= threshold)", "(reached > threshold)", WRAPPERS),
    ("methods/credit/wrappers/masked.py", "valid=~is_hidden", "valid=is_hidden", WRAPPERS),
    ("credit/wrappers/off_policy.py", "where(ratios <= high", "where(ratios >= high", OFF_POLICY),
    (
        "methods/credit/wrappers/entropy_weighted.py",
        "np.abs(advantages) / limit",
        "np.abs(advantages) * limit",
        WRAPPERS,
    ),
]


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    """The framework and the methods, in a folder that stands before the installed one."""
    folder = tmp_path_factory.mktemp("mutated")
    for source, target in (("agentgym", "agentgym"), ("methods", "agentgym/methods")):
        shutil.copytree(ROOT / source, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def processes():
    """Each task is done by a process of its own, forked from one that has imported what all of them need but us."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "numpy", "hypothesis"])
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as processes:
        yield processes


def run_tests(folder: str, names: list[str]) -> tuple[int, str]:
    """Run tests of this folder against the package in another one. Returns: exit code and output."""
    sys.path.insert(0, folder)
    arguments = ["-x", "-q", "--noconftest", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
    arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is imported before
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(output):
        code = pytest.main([*arguments, *(str(HERE / name) for name in names)])
    return int(code), output.getvalue()


def file_of(folder: str, module: str) -> str:
    """The source file that a module is imported from."""
    sys.path.insert(0, folder)
    return str(import_module(module).__file__)


def passes(processes: ProcessPoolExecutor, copied: Path, *tests: str) -> bool:
    """Whether the tests pass against the copy. A file that can no longer be imported is no test that failed."""
    code, output = processes.submit(run_tests, str(copied), list(tests)).result()
    assert code in (0, 1), output
    return code == 0


def write(path: Path, text: str) -> None:
    """Write a source file, and remove the compiled one, which could pass for that of another text of equal size."""
    path.write_text(text)
    Path(cache_from_source(path)).unlink(missing_ok=True)


@pytest.mark.slow
def test_the_tests_pass_on_the_copy_and_run_against_it(copied, processes):
    """Else a mutation would be caught by something else than its error, or never be seen."""
    imported_from = processes.submit(file_of, str(copied), "agentgym.credit.estimators.rloo").result()
    assert imported_from == str(copied / "agentgym" / "credit" / "estimators" / "rloo.py")
    assert passes(processes, copied, *sorted({tests for *_, tests in MUTATIONS}))


@pytest.mark.slow
@pytest.mark.parametrize(("file", "right", "wrong", "tests"), MUTATIONS, ids=[f"{m[0]}: {m[2]}" for m in MUTATIONS])
def test_an_error_of_one_character_is_caught(copied, processes, file, right, wrong, tests):
    path = copied / "agentgym" / file
    text = path.read_text()
    assert text.count(right) == 1, f"{file} no longer holds {right!r} once: write the mutation anew"
    write(path, text.replace(right, wrong))
    try:
        assert not passes(processes, copied, tests), f"nobody noticed {wrong!r} in {file}"
    finally:
        write(path, text)
