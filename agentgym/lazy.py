"""Public names that a package imports when they are first used, so that importing the package is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package that imports its public names on first use. Its `dir()` lists them from the start.

    Args:
        package: the package's own `__name__`.
        homes: name to the module that defines it, relative to the package: `{"Recipe": "recipe"}`. A name that differs
            there follows a colon: `{"load_vision_policy": "vision:load"}`.
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = homes[name].partition(":")
        value = getattr(import_module(f".{module}", package), attribute or name)
        setattr(sys.modules[package], name, value)  # asked for once only
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    sys.modules[package].__dict__["__dir__"] = __dir__
    return __getattr__
