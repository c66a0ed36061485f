"""Runs inside the sandbox: objects whose methods an agent calls, and digests of their state.

Standard library only. Each line on standard input is a request, answered by one line: `{"open": {...}}` makes the
objects, `{"call": name, "arguments": {...}, "positional": [...]}` calls a method, `{"state": true}` asks for a digest
of all public attributes, or of the result of the method `_state`. Results are text, as BFCL writes them. The objects'
printed output is dropped.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

MAX_MISSING = 8
MISSING = "is not installed in the sandbox"
UNCOMPARED = "parent"
"""In BFCL's file system each folder refers to its parent; BFCL's own comparison leaves this attribute out."""


class MissingModule(ModuleType):
    """Stands in for a package that is not installed: using it raises an error that says so."""

    def __getattr__(self, name: str) -> Any:
        raise ImportError(f"{self.__name__} {MISSING}")


class Functions:
    """The methods of a few objects, by name."""

    def __init__(self, folder: str, classes: dict[str, str], config: dict[str, Any], long_context: bool) -> None:
        if folder not in sys.path:
            sys.path.insert(0, folder)
        importlib.invalidate_caches()
        self._objects = {
            name: self._instance_of(name, module, config, long_context) for name, module in classes.items()
        }
        self._methods: dict[str, Callable[..., Any]] = {}
        for instance in self._objects.values():
            for name, method in inspect.getmembers(instance, predicate=inspect.ismethod):
                if not name.startswith("_"):
                    self._methods[name] = method

    def call(self, name: str, positional: list[Any], arguments: dict[str, Any]) -> str:
        """Return the result of a method as text, or its error."""
        try:
            if name not in self._methods:
                raise NameError(f"name {name!r} is not defined")
            return _text_of(self._methods[name](*positional, **arguments))
        except Exception as error:  # noqa: BLE001  whatever a function raises is its result
            return f"Error during execution: {error}"

    def state(self) -> str:
        """Return a digest of the public attributes; equal states have equal digests."""
        values = {
            name: instance._state() if hasattr(instance, "_state") else _public(instance, ())
            for name, instance in self._objects.items()
        }
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def _instance_of(self, name: str, module: str, config: dict[str, Any], long_context: bool) -> Any:
        for _ in range(MAX_MISSING):
            try:
                instance = getattr(importlib.import_module(module), name)()
                break
            except ModuleNotFoundError as error:
                if error.name is None or error.name in module:
                    raise
                sys.modules[error.name] = MissingModule(error.name)
        else:
            raise ImportError(f"{module} needs more than {MAX_MISSING} packages that are not installed")
        if hasattr(instance, "_load_scenario"):
            instance._load_scenario(copy.deepcopy(config.get(name, {})), long_context=long_context)
        return instance


def _text_of(value: Any) -> str:
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            return str(value)
    return value if isinstance(value, str) else str(value)


def _public(value: Any, holders: tuple[int, ...]) -> Any:
    """Return a value as JSON: values equal in Python are equal in JSON. `holders`: ids of the values around it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return int(value) if value == value and abs(value) < 2**53 and value == int(value) else repr(value)
    if id(value) in holders:
        return ["above"]
    holders = (*holders, id(value))
    if isinstance(value, dict):
        pairs = [[_public(key, holders), _public(item, holders)] for key, item in value.items()]
        return ["dict", *sorted(pairs, key=json.dumps)]
    if isinstance(value, list | tuple):
        return [type(value).__name__, *(_public(item, holders) for item in value)]
    if isinstance(value, set | frozenset):
        return ["set", *sorted((_public(item, holders) for item in value), key=json.dumps)]
    if not hasattr(value, "__dict__"):
        return repr(value)
    attributes = sorted(name for name in vars(value) if not name.startswith("_") and name != UNCOMPARED)
    return [type(value).__name__, *([name, _public(getattr(value, name), holders)] for name in attributes)]


def serve(lines: Any, channel: int) -> None:
    """Answer requests until they end."""
    functions: Functions | None = None
    for line in lines:
        request = json.loads(line)
        reply: dict[str, Any]
        if "open" in request:
            try:
                functions, reply = Functions(**request["open"]), {}
            except Exception as error:  # noqa: BLE001  the sources are not this program's
                reply = {"error": f"{type(error).__name__}: {error}"}
        elif functions is None:
            reply = {"error": "nothing is open"}
        elif "call" in request:
            reply = {"result": functions.call(request["call"], request.get("positional", []), request["arguments"])}
        else:
            reply = {"state": functions.state()}
        data = json.dumps(reply).encode() + b"\n"
        while data:
            data = data[os.write(channel, data) :]


if __name__ == "__main__":
    CHANNEL = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    serve(sys.stdin, CHANNEL)
