"""The guest runs on every Python from 3.9 on: a real image of each one on this machine keeps the whole contract."""

from __future__ import annotations

import ast
import dataclasses
import os
import shutil
import sys
from pathlib import Path

import pytest
from by_day import cases
from rootfs import assemble
from specs import checks_about

import agentgym.sandbox.guest
from agentgym.errors import SandboxUnavailable
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.sandbox.rootfs.python_image import make_python_image
from agentgym.testing import check_backend
from agentgym.testing.backends.testbed import SPEC

GUEST = Path(agentgym.sandbox.guest.__file__).parent


def interpreter(minor: int) -> str | None:
    """A Python of this version: the system's, or one that pyenv keeps."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    path = shutil.which(f"python3.{minor}", path="/usr/bin:/usr/local/bin")
    return path or next((str(path) for path in sorted(versions.glob(f"3.{minor}.*/bin/python3.{minor}"))), None)


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("minor", cases(range(9, 15), by_day=(13, 14)))
async def test_an_image_with_this_python_keeps_what_the_interpreter_could_break(minor, tmp_path, monkeypatch):
    """The oldest Python and the newest run the guest's code; what the kernel isolates is the same under each."""
    program = interpreter(minor)
    if program is None:
        pytest.skip(f"no Python 3.{minor} on this machine")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    image = assemble(tmp_path / "rootfs", program)

    class OfImage(NamespacesBackend):
        async def create(self, spec, *, snapshot=None):
            name = str(image) if spec.image == "host" else spec.image
            return await super().create(dataclasses.replace(spec, image=name), snapshot=snapshot)

    backend = OfImage()
    try:
        sandbox = await backend.create(SPEC)
        assert (await sandbox.run_python("import sys; print(sys.version_info[:2])")).text == f"(3, {minor})\n"
        assert (await sandbox.exec(["python3", "-c", "print(__import__('sys').version_info[1])"])).text == f"{minor}\n"
        await sandbox.close()
        await check_backend(backend, only=checks_about("Commands", "Python", "Channels", "Snapshots"))
    finally:
        await backend.close()


@pytest.mark.parametrize("path", sorted(GUEST.glob("*.py")), ids=lambda path: path.name)
def test_guest_code_is_python_3_9_and_imports_the_standard_library_alone(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.needs_namespaces
async def test_an_image_of_an_installed_interpreter_has_it_with_git_and_a_shell(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    minor, program = next(((n, path) for n in (9, 10, 12, 13) if (path := interpreter(n))), (0, ""))
    if not program:
        pytest.skip("no other Python on this machine")
    assert make_python_image(f"3.{minor}", Path(program)) == make_python_image(f"3.{minor}")  # the second is at hand
    backend = NamespacesBackend()
    try:
        sandbox = await backend.create(dataclasses.replace(SPEC, image=f"python3.{minor}"))
        result = await sandbox.exec(
            ["sh", "-c", "python --version && git init -q . && python3 -c 'import ssl, sqlite3'"]
        )
        assert (result.exit_code, result.text[:9]) == (0, f"Python 3.{minor}"[:9]), result.stderr
        await sandbox.close()
    finally:
        await backend.close()


@pytest.mark.parametrize(
    ("python", "path", "message"),
    [
        ("3.6", None, "Python 3.6 is too old for a sandbox. Choose 3.9"),
        ("3.99", None, "none was found here. Install one .*`uv python install 3.99`"),
        ("3.99", Path(sys.executable), r"\S+ is 3\.\d+\. Install one"),
        ("3", None, "is not a Python version. Give two numbers"),
    ],
)
def test_a_python_that_cannot_be_had_is_named_with_the_way_to_get_it(python, path, message, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match=message):
        make_python_image(python, path)
