"""`pip install -e`: a script beside the clone imports the package, though the clone's folder has the same name."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile

import pytest
from source_tree import ROOT

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "editable_backend"
backend-path = [".build"]
[project]
name = "demo-core"
version = "1"
[tool.setuptools]
packages = ["demo", "demo.more"]
[tool.setuptools.package-dir]
"demo" = "demo"
"demo.more" = "more"
[project.entry-points.demo]
first = "demo:NAME"
[tool.agentgym.checkout]
packages = ["workshop"]
[tool.agentgym.checkout.entry-points.demo]
"second one" = "workshop:NAME"
"""
BUILD = (
    "import sys; sys.path.insert(0, '.build'); import editable_backend; editable_backend.build_editable(sys.argv[1])"
)


@pytest.fixture(scope="module")
def beside_the_clone(tmp_path_factory):
    """A folder with a clone `demo` of a project laid out like ours, and a folder `site` where it is installed."""
    folder = tmp_path_factory.mktemp("parent")
    clone = folder / "demo"
    shutil.copytree(ROOT / ".build", clone / ".build", ignore=shutil.ignore_patterns("__pycache__"))
    (clone / "pyproject.toml").write_text(PROJECT)
    for package in ("demo", "more", "workshop"):
        (clone / package).mkdir()
        (clone / package / "__init__.py").write_text(f"NAME = {package!r}\n")
    command = [sys.executable, "-W", "ignore", "-c", BUILD, str(folder)]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert opened.testzip() is None
        opened.extractall(folder / "site")
        recorded = opened.read("demo_core-1.dist-info/RECORD").decode()
        (finder,) = [info for info in opened.infolist() if info.filename.endswith("_finder.py")]
    assert recorded.count(f"{finder.filename},") == 1
    assert f",{finder.file_size}\n" in recorded
    return folder


def imported(folder, cwd) -> str:
    code = f"import site; site.addsitedir({str(folder / 'site')!r}); from demo import NAME; import demo.more; "
    command = [sys.executable, "-S", "-c", f"{code}print(NAME, demo.more.NAME, demo.__file__)"]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    return done.stdout.strip() or done.stderr


def test_the_clones_folder_does_not_hide_the_package(beside_the_clone, tmp_path):
    expected = f"demo more {beside_the_clone / 'demo/demo/__init__.py'}"
    for cwd in (beside_the_clone, beside_the_clone / "demo", tmp_path):
        assert imported(beside_the_clone, cwd) == expected


def test_a_package_on_the_path_still_comes_first(beside_the_clone, tmp_path):
    (tmp_path / "demo" / "more").mkdir(parents=True)
    (tmp_path / "demo" / "__init__.py").write_text("NAME = 'another'\n")
    (tmp_path / "demo" / "more" / "__init__.py").write_text("NAME = 'copy'\n")
    assert imported(beside_the_clone, tmp_path) == f"another copy {tmp_path / 'demo/__init__.py'}"


def test_what_a_checkout_adds_is_installed_with_it(beside_the_clone, tmp_path):
    code = (
        f"import site; site.addsitedir({str(beside_the_clone / 'site')!r}); "
        "from importlib.metadata import entry_points; "
        "print(sorted((point.name, point.load()) for point in entry_points(group='demo')))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "[('first', 'demo'), ('second one', 'workshop')]", done.stderr
