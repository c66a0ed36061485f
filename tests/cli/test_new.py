"""`agentgym new environment`: what it writes is installed, checked and tested as it is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app


def run(*command, **variables):
    return subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_a_new_package_passes_the_check_and_its_own_tests(tmp_path):
    package, installed = tmp_path / "shop", tmp_path / "installed"
    done = run("agentgym", "new", "environment", "acme/corner-shop", "--out", package)
    assert done.returncode == 0, done.stderr
    build = run("pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", installed, package)
    assert build.returncode == 0, build.stderr
    path = {"PYTHONPATH": str(installed)}
    checked = run("agentgym", "check", "acme/corner-shop-v1", **path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "keeps its contract" in checked.stdout
    tested = run("pytest", "-q", "-p", "no:cacheprovider", "--rootdir", package, package / "tests", **path)
    assert tested.returncode == 0, tested.stdout
    assert "3 passed" in tested.stdout
    ready = run("agentgym", "publish", "--check", package, **path)
    assert ready.returncode == 0, ready.stdout + ready.stderr
    assert ready.stdout.endswith("Ready.\n")
    (package / "CARD.md").write_text("# acme/corner-shop-v1\n**What counts as right.** The sum.\n")
    text = (package / "pyproject.toml").read_text()
    (package / "pyproject.toml").write_text(text.replace('license = "Apache-2.0"\n', ""))
    unready = run("agentgym", "publish", "--check", package, **path)
    assert unready.returncode == 1
    assert "card: CARD.md says nothing of floors, what it does not measure" in unready.stderr
    assert "licence: name one in pyproject.toml" in unready.stderr
    unknown = run("agentgym", "publish", "--check", package)
    assert "acme/corner-shop-v1 is not installed here" in unknown.stderr


@pytest.mark.parametrize("name", ["shop", "Acme/shop", "acme/shop/v1", "acme/-shop", "acme/shop-"])
def test_what_is_no_name_is_refused(name, tmp_path):
    done = CliRunner().invoke(app, ["new", "environment", name, "--out", str(tmp_path / "new")])
    assert done.exit_code == 2
    assert "is not a name for an environment" in done.output
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "mine.py").touch()
    done = CliRunner().invoke(app, ["new", "environment", "acme/shop", "--out", str(tmp_path)])
    assert "is not empty" in done.output
    done = CliRunner().invoke(app, ["new", "environment", "acme/shop", "--out", str(tmp_path / "mine.py")])
    assert (done.exit_code, "or no folder" in done.output) == (2, True)
