"""`agentgym new environment`: what it writes is installed, checked and tested as it is."""

from __future__ import annotations

import os
import shutil
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


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A package as `agentgym new` writes it, installed."""
    folder = tmp_path_factory.mktemp("shop")
    package, installed = folder / "shop", folder / "installed"
    done = run("agentgym", "new", "environment", "acme/corner-shop", "--out", package)
    assert done.returncode == 0, done.stderr
    build = run("pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", installed, package)
    assert build.returncode == 0, build.stderr
    return package, installed


def test_a_new_package_passes_the_check_and_its_own_tests(shop):
    package, installed = shop
    path = {"PYTHONPATH": str(installed)}
    checked = run("agentgym", "check", "acme/corner-shop-v1", **path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "keeps its contract" in checked.stdout
    tested = run("pytest", "-q", "-p", "no:cacheprovider", "--rootdir", package, package / "tests", **path)
    assert tested.returncode == 0, tested.stdout
    assert "3 passed" in tested.stdout


@pytest.fixture
def written(shop, tmp_path):
    """A copy of the package whose author has written what the template asks for, and a function that checks it."""
    package = shutil.copytree(shop[0], tmp_path / "shop", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    for name in ("CARD.md", "pyproject.toml"):
        (package / name).write_text((package / name).read_text().replace("TODO: ", ""))
    return package, lambda: run("agentgym", "publish", "--check", package, PYTHONPATH=str(shop[1]))


def test_a_package_with_its_card_written_is_ready(written):
    package, publish = written
    ready = publish()
    assert ready.returncode == 0, ready.stdout + ready.stderr
    assert ready.stdout.endswith("Ready.\n")
    assert not (package / "build").exists()


def test_the_card_and_description_of_the_template_are_not_ready(shop):
    package, installed = shop
    unready = run("agentgym", "publish", "--check", package, PYTHONPATH=str(installed))
    assert unready.returncode == 1
    assert "CARD.md, line 14: TODO: what an agent earns that does nothing" in unready.stderr
    assert "CARD.md, line 16: TODO" in unready.stderr
    assert "pyproject.toml, line 8: TODO" in unready.stderr
    assert "Ready." not in unready.stdout


@pytest.mark.thorough
def test_a_card_without_sections_a_project_without_licence_and_a_wheel_without_files_are_named_together(written):
    package, publish = written
    inside = package / "acme_corner_shop"
    (inside / "stock.json").write_text("{}")
    (inside / "data").mkdir()
    (inside / "data" / "listed.json").write_text("{}")
    (inside / "parts").mkdir()
    (inside / "parts" / "__init__.py").write_text("")
    (package / "CARD.md").write_text(
        "# acme/corner-shop-v1\n**What counts as right.** The sum.\n\n**What it does not measure.**\n"
    )
    text = (package / "pyproject.toml").read_text()
    (package / "pyproject.toml").write_text(text.replace('license = "Apache-2.0"\n', ""))
    unready = publish()
    assert unready.returncode == 1
    assert "card: CARD.md says nothing of floors, what it does not measure" in unready.stderr
    assert "licence: name one in pyproject.toml" in unready.stderr
    assert "the wheel lacks acme_corner_shop/parts/__init__.py, acme_corner_shop/stock.json." in unready.stderr
    assert "package-data" in unready.stderr
    unknown = run("agentgym", "publish", "--check", package)
    assert "acme/corner-shop-v1 is not installed here" in unknown.stderr


@pytest.mark.thorough
def test_the_checks_play_the_wheel_and_not_the_folder(written):
    package, publish = written
    (package / "stock.txt").write_text("400")
    file = package / "acme_corner_shop" / "task_set.py"
    read = 'COUNT = int((Path(__file__).parent.parent / "stock.txt").read_text())'
    file.write_text(file.read_text().replace("import random\n", f"import random\nfrom pathlib import Path\n\n{read}\n"))
    unready = publish()
    assert unready.returncode == 1
    assert "FileNotFoundError" in unready.stderr
    assert "stock.txt" in unready.stderr


@pytest.mark.thorough
def test_a_wheel_that_cannot_be_built_is_named(written):
    package, publish = written
    text = (package / "pyproject.toml").read_text()
    (package / "pyproject.toml").write_text(text.replace('packages = ["acme_corner_shop"]', 'packages = ["elsewhere"]'))
    unready = publish()
    assert unready.returncode == 1
    assert "wheel: it cannot be built" in unready.stderr
    assert "elsewhere" in unready.stderr


@pytest.mark.parametrize("name", ["shop", "Acme/shop", "acme/shop/v1", "acme/-shop", "acme/shop-"])
def test_what_is_no_name_is_refused(name, tmp_path):
    done = CliRunner().invoke(app, ["new", "environment", name, "--out", str(tmp_path / "new")])
    assert done.exit_code == 2
    assert "cannot name an environment" in done.output
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "mine.py").touch()
    done = CliRunner().invoke(app, ["new", "environment", "acme/shop", "--out", str(tmp_path)])
    assert "must be a new or empty folder" in done.output
    done = CliRunner().invoke(app, ["new", "environment", "acme/shop", "--out", str(tmp_path / "mine.py")])
    assert (done.exit_code, "must be a new or empty folder" in done.output) == (2, True)
