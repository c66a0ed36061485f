"""Optional parts, and the command that installs them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from agentgym.errors import MissingExtraError

PACKAGE = "agentgym-core"


def install_command(extra: str) -> str:
    """Return the command that installs an extra, for an error message.

    If agentgym runs from a checkout, the command names its folder, so that it works from anywhere and the install
    stays editable. If it was installed from a wheel that still exists, the command names the wheel: an index may not
    have it.
    """
    checkout = Path(__file__).resolve().parents[1]
    if (checkout / "pyproject.toml").is_file() and (checkout / "sandboxes").is_dir():
        return f"pip install -e '{checkout}[{extra}]'"
    return f"pip install '{_wheel() or PACKAGE}[{extra}]'"


def _wheel() -> Path | None:
    """Return the wheel that agentgym was installed from; None if it was another source, or the wheel is gone."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    try:
        source = json.loads(distribution(PACKAGE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    path = Path(unquote(urlsplit(source.get("url", "")).path))
    return path if path.suffix == ".whl" and path.is_file() else None


def check_package(package: str, extra: str, purpose: str) -> None:
    """Raise MissingExtraError, with the command that installs it, if a package cannot be imported."""
    parent = package.rpartition(".")[0]  # of a part of a namespace, which find_spec imports
    if (parent and find_spec(parent) is None) or find_spec(package) is None:
        raise MissingExtraError(
            f"{purpose} needs the package {package}, which is not installed. Run: {install_command(extra)}"
        )
