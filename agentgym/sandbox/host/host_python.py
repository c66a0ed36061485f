"""What a sandbox gets of this machine's Python: its variables, and the packages to preload."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from agentgym.errors import SandboxUnavailable

_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")
PYTHON_VARIABLES = {
    "HOME": "/work",
    "TMPDIR": "/tmp",
    "USER": "agent",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    **{f"{library}_NUM_THREADS": "1" for library in _THREADS},
}
ROOT_VARIABLES = {"HOME": "/root", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
"""The variables of a sandbox with a writable root, beside those of its image."""


def python_environment(*, packages: bool) -> dict[str, str]:
    """Return the environment variables in a sandbox that runs the host's programs; none come from the host.

    `packages`: whether the sandbox has modules to preload under /packages.
    """
    interpreter = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    paths = dict.fromkeys([os.path.dirname(interpreter), "/usr/local/bin", "/usr/bin", "/bin"])
    environment = {"PATH": ":".join(paths), **PYTHON_VARIABLES}
    return {**environment, "PYTHONPATH": "/packages"} if packages else environment


def package_folders() -> list[str]:
    """Return the folders of third-party packages. They are hidden, because they may hold tasks and solutions."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = {"base": sys.base_prefix, "platbase": sys.base_prefix}
    folders = {sysconfig.get_path(name, vars=base) for name in ("purelib", "platlib")}
    return sorted(folders | {f"/usr/local/lib/{version}/{kind}-packages" for kind in ("site", "dist")})


def entries_of(modules: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return top-level files and folders of the distributions that provide these modules, and of their requirements.

    Returns: pairs of the path on the host and the name among the sandbox's packages; nothing for modules of the
        standard library.
    Raises: SandboxUnavailable if a module is not installed, or is agentgym itself.
    """
    names = {module.split(".")[0] for module in modules} - sys.stdlib_module_names
    if not names:
        return []
    if "agentgym" in names:
        raise SandboxUnavailable(
            "SandboxSpec.preload names agentgym, which would show the agent tasks and their truth. Leave it out."
        )
    holders = importlib.metadata.packages_distributions()
    entries: dict[str, str] = {}
    pending: list[str] = []
    for name in sorted(names):
        if name in holders:
            pending += holders[name]
            continue
        module_spec = find_spec(name)
        if module_spec is None or module_spec.origin is None:
            raise SandboxUnavailable(
                f"SandboxSpec.preload names {name!r}, which is not installed on this machine. Install it, or leave it "
                "out."
            )
        path = Path(module_spec.origin)
        path = path.parent if path.name.startswith("__init__.") else path
        entries[path.name] = str(path)
    visited: set[str] = set()
    while pending:
        distribution_name = pending.pop()
        key = re.sub(r"[-_.]+", "-", distribution_name).lower()
        if key in visited:
            continue
        visited.add(key)
        try:
            distribution = importlib.metadata.distribution(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            continue  # an optional requirement that is not installed
        for requirement in distribution.requires or ():
            if "extra ==" not in requirement:
                pending += re.findall(r"^[A-Za-z0-9._-]+", requirement)
        for file in distribution.files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__"):
                entries[top] = str(Path(str(distribution.locate_file(top))).resolve())
    return sorted((path, name) for name, path in entries.items())
