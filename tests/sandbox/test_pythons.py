"""The guest runs on every Python from 3.9 on: a real image of each one on this machine keeps the whole contract."""

from __future__ import annotations

import ast
import dataclasses
import os
import shutil
import sys
from pathlib import Path

import pytest
from rootfs import assemble

import agentgym.sandbox.guest
from agentgym.sandbox.namespaces import NamespacesBackend
from agentgym.testing.backends import SPEC, check_backend

GUEST = Path(agentgym.sandbox.guest.__file__).parent


def interpreter(minor: int) -> str | None:
    """A Python of this version: the system's, or one that pyenv keeps."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    path = shutil.which(f"python3.{minor}", path="/usr/bin:/usr/local/bin")
    return path or next((str(path) for path in sorted(versions.glob(f"3.{minor}.*/bin/python3.{minor}"))), None)


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("minor", range(9, 15))
async def test_an_image_with_this_python_keeps_the_contract(minor, tmp_path, monkeypatch):
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
        await check_backend(backend, attacks=False)
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
