"""Runs pip commands with current build tools or, if a build fails, with older ones."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

OLD_BUILD_TOOLS = ("setuptools<69", "wheel<0.43", "cython<3", "markupsafe<2.1")
"""Build tools for packages from before 2023."""
_BUILD_FAILED = re.compile(r"subprocess-exited-with-error|Failed to build|Failed building|metadata-generation-failed")

_BUILD_FOLDER = re.compile(r"/pip-[\w-]+/([\w.-]+)_[0-9a-f]{32}/")
"""The folder in which pip builds, as it appears in a traceback."""


def run_pip(command: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Run a pip command; if it fails, run it once more with build tools that old packages expect.

    Returns: the errors with current tools and with older ones; empty if a try succeeded.
    """
    own = {**os.environ, **(variables or {})}
    first = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    if first.returncode == 0:
        return ""
    if not _BUILD_FAILED.search(first.stderr):
        return _errors(first.stderr)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(OLD_BUILD_TOOLS))
        file.flush()
        own |= {"PIP_CONSTRAINT": file.name, "PIP_BUILD_CONSTRAINT": file.name}
        second = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    if second.returncode == 0:
        return ""
    return f"{_errors(first.stderr)} With {', '.join(OLD_BUILD_TOOLS)}: {_errors(second.stderr)}"


def _errors(output: str) -> str:
    """Return pip's error, with the package whose build failed, on one line of about 400 characters."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR|error|\w*(Error|Exception)): ", line)]
    building = ", ".join(dict.fromkeys(_BUILD_FOLDER.findall(output)))
    return f"{building and f'in the build of {building}: '}{' '.join(dict.fromkeys(errors or lines))[-400:]}"
