"""How packages are imported: public names on first use, and optional parts with the command that installs them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentgym.errors import MissingExtraError
from agentgym.moved import moved_name

PACKAGE = "agentgym-core"


def install_command(extra: str) -> str:
    """Return the command that installs an extra, for an error message.

    If agentgym runs from a checkout, the command names its folder, so that it works from anywhere and the install
    stays editable.
    """
    checkout = Path(__file__).resolve().parents[1]
    if (checkout / "pyproject.toml").is_file() and (checkout / "sandboxes").is_dir():
        return f"pip install -e '{checkout}[{extra}]'"
    return f"pip install '{PACKAGE}[{extra}]'"


def check_package(package: str, extra: str, purpose: str) -> None:
    """Raise MissingExtraError, with the command that installs it, if a package cannot be imported."""
    if find_spec(package) is None:
        raise MissingExtraError(
            f"{purpose} needs the package {package}, which is not installed. Run: {install_command(extra)}"
        )


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that imports its public names on first use. Its `dir()` lists them from the
    start.

    A name that has moved to another package is found there, with a warning: see moved.py.

    Args:
        package: the package's own `__name__`.
        homes: name to the module that defines it, relative to the package: `{"Recipe": "recipe"}`. If the name there
            differs, it follows a colon: `{"load_vision_policy": "vision:load"}`.
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            return moved_name(package, name)
        module, _, attribute = homes[name].partition(":")
        value = getattr(import_module(f".{module}", package), attribute or name)
        setattr(sys.modules[package], name, value)  # asked for once only
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    sys.modules[package].__dict__["__dir__"] = __dir__
    return __getattr__
