"""--import: the user's own code, which registers environments, task sets, rewards and policies."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentgym.errors import AgentGymError


class UserCodeError(AgentGymError, ImportError):
    """Code given to --import cannot be imported."""


def import_user_code(names: list[str] | None) -> list[str]:
    """Import each module, or .py file by its path. Raises: UserCodeError with the failure and its location."""
    for name in names or []:
        try:
            if name.endswith(".py"):
                _import_file(Path(name))
            elif "/" in name:
                raise UserCodeError(
                    f"--import {name} is not a module. Give its dotted name, or the path of a .py file."
                )
            else:
                if "" not in sys.path and str(Path.cwd()) not in sys.path:
                    sys.path.insert(0, str(Path.cwd()))
                if getattr(importlib.import_module(name), "__file__", "") is None:
                    raise UserCodeError(f"--import {name}: this folder has no __init__.py. Give one of its .py files.")
        except AgentGymError:
            raise
        except Exception as error:
            raise UserCodeError(_fault(name, error)) from error
    return names or []


def _fault(name: str, error: Exception) -> str:
    """Return the message for a failed import, with its location."""
    from agentgym.rollout.failures import raised_at

    words = f"--import {name}: {type(error).__name__}: {str(error).rstrip('.')}"
    if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
        return f"{words}. Give a module that Python finds from here, or the path of a .py file."
    location = "" if isinstance(error, SyntaxError) else raised_at(error)
    return f"{words}{location and f' at {location}'}. Correct the file; --debug shows the traceback."


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise UserCodeError(f"--import {path}: this file does not exist. Check the path.")
    path, name = path.resolve(), path.stem
    if name in sys.modules:
        if getattr(sys.modules[name], "__file__", None) == str(path):
            return
        raise UserCodeError(f"--import {path}: another module already has the name {name!r}. Rename the file.")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserCodeError(f"--import {path} is not a Python file that can be loaded. Give one that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # lets classes of the module be pickled, and their type hints be resolved
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


Import = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE|FILE.py",
        callback=import_user_code,
        is_eager=True,
        help="Import this first: it registers environments, task sets or rewards of your own. Repeatable.",
    ),
]
"""The --import option shared by all commands."""
