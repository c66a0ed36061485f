"""The user's own modules, which other nodes lack: definitions in them are sent by value."""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

_OWN = Path(__file__).parents[1]
_CONTENT = tuple(
    f"agentgym.{room}" for room in ("sandboxes", "tasks", "rewards", "methods", "bridges", "formats", "testing")
)
_ONE_AT_A_TIME = threading.Lock()
_PYTHON = tuple(Path(sysconfig.get_path(scheme)).resolve() for scheme in ("stdlib", "platstdlib"))
_INSTALLED = {"site-packages", "dist-packages"}  # of this interpreter, the one below a venv, the user, or a .pth file


@contextmanager
def user_code_by_value(cloudpickle: Any) -> Iterator[None]:
    """Pickle functions and classes of the user's modules by value, not by name, inside the block.

    Args:
        cloudpickle: the module that pickles.
    """
    with _ONE_AT_A_TIME:
        # by name, as cloudpickle registers them: one module may have several entries
        modules = {module.__name__: module for module in [*sys.modules.values()] if _is_users(module)}
        for name in {*modules} - {*sys.modules} | cloudpickle.list_registry_pickle_by_value():
            modules.pop(name, None)  # sent by value in any case
        for module in modules.values():
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in modules.values():
                cloudpickle.unregister_pickle_by_value(module)


def _is_users(module: ModuleType) -> bool:
    """Return whether a module belongs neither to Python, nor to agentgym, nor to an installed package."""
    file = getattr(module, "__file__", None)
    if file is None or module.__name__ == "__main__":  # definitions in __main__ are sent by value anyway
        return False
    return _is_users_file(module.__name__, file)


@cache
def _is_users_file(name: str, file: str) -> bool:
    """Return whether a file is the user's. Cached: checking a thousand modules takes longer than a short run."""
    path = Path(file).resolve()
    if name.startswith(_CONTENT) or not _INSTALLED.isdisjoint(path.parts):
        return False
    return not any(path.is_relative_to(folder) for folder in (_OWN, *_PYTHON))
