"""The wheel holds the packages of the tree, whole, and nothing else: its one top-level name is agentgym."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser

import pytest
from source_tree import ROOT, SHIPPED, package_folders, project, shipped_files, tracked_files


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of the tracked files, so that no earlier build in the checkout can leak into it."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for path in tracked_files():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copy / path)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (built,) = out.glob("*.whl")
    with zipfile.ZipFile(built) as opened:
        yield opened


def info(wheel, name: str) -> str:
    (member,) = [one for one in wheel.namelist() if one.partition("/")[2] == name and ".dist-info/" in one]
    return wheel.read(member).decode()


def test_the_only_top_level_name_is_agentgym(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"agentgym"}
    assert len(tops) == 2


def test_every_file_of_the_packages_is_in_the_wheel_and_no_other(wheel):
    """Cards, templates, pages, guest programs and py.typed as much as modules."""
    installed = {str(path) if path.parts[0] == "agentgym" else f"agentgym/{path}" for path in shipped_files()}
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed - installed == set(), "in the wheel but not in the tree"
    assert installed - packed == set(), "not in the wheel: extend package-data or packages in pyproject.toml"


def test_the_packages_declared_are_the_folders_of_the_tree():
    setuptools = project()["tool"]["setuptools"]
    assert sorted(setuptools["packages"]) == sorted([*package_folders(), *(f"agentgym.{name}" for name in SHIPPED)])
    mapped = setuptools["package-dir"]
    for package, folder in package_folders().items():
        home = max((name for name in mapped if f"{package}.".startswith(f"{name}.")), key=len)
        assert str(folder) == "/".join([mapped[home], *package.removeprefix(home).split(".")[1:]])


def test_the_package_is_marked_as_typed(wheel):
    assert "agentgym/py.typed" in wheel.namelist()


def test_the_metadata_says_what_pyproject_says(wheel):
    told = Parser().parsestr(info(wheel, "METADATA"))
    import agentgym

    assert told["Name"] == project()["project"]["name"]
    assert told["Version"] == agentgym.__version__
    assert told["License-Expression"] == "Apache-2.0"
    assert set(told.get_all("Provides-Extra", [])) == set(project()["project"]["optional-dependencies"])
    assert info(wheel, "licenses/LICENSE").split()[:2] == ["Apache", "License"]


def test_the_entry_points_are_those_of_pyproject(wheel):
    read = configparser.ConfigParser(delimiters=("=",))
    read.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    read.read_string(info(wheel, "entry_points.txt"))
    written = {**project()["project"]["entry-points"], "console_scripts": project()["project"]["scripts"]}
    assert {section: dict(read[section]) for section in read.sections()} == written


def test_a_recipe_of_the_wheel_is_found_by_its_name(wheel, tmp_path):
    """As `pip install` leaves it: no checkout lies around the package."""
    wheel.extractall(tmp_path / "site")
    code = "from agentgym.training import Recipe; print(Recipe.load('quickstart').name)"
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); {code}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "quickstart\n", done.stderr
