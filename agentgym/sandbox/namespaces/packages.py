"""Finds the files of this Python installation that preloaded modules need: a sandbox sees no others."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from agentgym.errors import SandboxUnavailable


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
