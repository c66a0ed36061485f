"""The command that installs an optional part: another one in a clone than from a package index."""

from __future__ import annotations

from pathlib import Path

PACKAGE = "agentgym-core"


def install_command(extra: str) -> str:
    """What to run to get an extra, for an error message.

    Where agentgym runs from a checkout, the command names its folder, so that it works from anywhere and the install
    stays editable.
    """
    checkout = Path(__file__).resolve().parents[1]
    if (checkout / "pyproject.toml").is_file() and (checkout / "sandboxes").is_dir():
        return f"pip install -e '{checkout}[{extra}]'"
    return f"pip install '{PACKAGE}[{extra}]'"
