"""Runs inside the sandbox: the tools of a domain of tau-bench, as methods of one object over the domain's data."""

from __future__ import annotations

import copy
import importlib
import json
from types import MethodType
from typing import Any


class TauTools:
    """The tools of a domain. Each takes the data, and changes it."""

    def __init__(self) -> None:
        self._data: Any = None
        self._tools: dict[str, Any] = {}

    def _load_scenario(self, scenario: dict[str, Any], long_context: bool = False) -> None:
        """Load the tools and the data of `{"package": "tau_bench.envs.retail"}`."""
        package = scenario["package"]
        data = importlib.import_module(f"{package}.data")
        self._data = data.load_data() if hasattr(data, "load_data") else copy.deepcopy(data.data)
        for tool in importlib.import_module(f"{package}.tools").ALL_TOOLS:
            name = tool.get_info()["function"]["name"]
            self._tools[name] = tool
            setattr(self, name, MethodType(_caller(tool), self))

    def describe_tools(self) -> str:
        """Return the schemas of the tools, as JSON."""
        return json.dumps([tool.get_info()["function"] for tool in self._tools.values()])

    def _state(self) -> str:
        """Return the data as text; data that tau-bench calls equal gives equal texts."""
        return str(_hashable(self._data))


def _caller(tool: Any) -> Any:
    def call(tools: TauTools, **arguments: Any) -> Any:
        try:
            return tool.invoke(data=tools._data, **arguments)
        except Exception as error:  # noqa: BLE001  as tau-bench shows it
            return f"Error: {error}"

    return call


def _hashable(item: Any) -> Any:
    if isinstance(item, dict):
        return tuple((key, _hashable(value)) for key, value in sorted(item.items()))
    if isinstance(item, list):
        return tuple(map(_hashable, item))
    return tuple(sorted(map(_hashable, item))) if isinstance(item, set) else item
