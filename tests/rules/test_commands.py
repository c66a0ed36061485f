"""The commands the documents promise exist, and CI runs the same ones as a person."""

from __future__ import annotations

import re
import subprocess

from source_tree import ROOT, tracked_files

TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
DOCUMENTS = [path for path in tracked_files() if path.suffix == ".md"]


def test_every_make_command_in_a_document_is_a_target():
    unknown = {}
    for path in DOCUMENTS:
        code = re.findall(r"`+[^`]+`+", (ROOT / path).read_text())
        named = {target for block in code for target in re.findall(r"\bmake ([a-z][a-z0-9-]*)", block)}
        unknown[str(path)] = named - TARGETS
    assert {path: targets for path, targets in unknown.items() if targets} == {}, "not in the Makefile"


def test_the_promised_targets_are_all_there():
    assert {"demo", "test", "test-fast", "lint", "bench"} <= TARGETS


def test_ci_runs_the_commands_a_person_runs():
    script = (ROOT / ".ci" / "run").read_text()
    assert {"make lint", "make test"} <= {line.strip() for line in script.splitlines()}
    assert subprocess.run(["bash", "-n", ".ci/run"], cwd=ROOT).returncode == 0


def test_a_scheduled_job_plays_the_tests_that_ci_leaves_out():
    script = (ROOT / ".ci" / "nightly").read_text()
    everything = re.search(r"^test-all:.*\n\t(\S+=1) ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert everything is not None
    assert f"export {everything[1]}" in script.splitlines()
    assert subprocess.run(["bash", "-n", ".ci/nightly"], cwd=ROOT).returncode == 0


def test_make_help_names_every_target():
    output = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {target for target in TARGETS if f"make {target} " not in output} == set()


def test_pre_commit_runs_what_make_lint_runs():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    for check in ("ruff check", "ruff format", "mypy"):
        assert f"entry: .venv/bin/{check}" in hooks
        assert f"-m {check}" in lint
