"""Commands of pip, with build tools of today or, if a build fails with these, with older ones."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

OLD_BUILD_TOOLS = ("setuptools<69", "wheel<0.43", "cython<3", "markupsafe<2.1")
"""What builds packages of the years before 2023."""
_BUILD_FAILED = re.compile(r"subprocess-exited-with-error|Failed to build|Failed building|metadata-generation-failed")

_BUILD_FOLDER = re.compile(r"/pip-[\w-]+/([\w.-]+)_[0-9a-f]{32}/")
"""Where pip unpacks what it builds, in a traceback."""


def run_pip(command: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Run a command of pip; if it fails, once more with build tools as old packages expect them.

    Returns: what was wrong, with the tools of today and with the older ones; empty if a try went well.
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
    """Return what pip says was wrong, and in the build of which package, on one line of about 400 characters."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR|error|\w*(Error|Exception)): ", line)]
    building = ", ".join(dict.fromkeys(_BUILD_FOLDER.findall(output)))
    return f"{building and f'in the build of {building}: '}{' '.join(dict.fromkeys(errors or lines))[-400:]}"
