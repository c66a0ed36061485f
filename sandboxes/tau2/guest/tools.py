"""A domain of tau2-bench as one object, whose methods `guest_functions.py` calls."""

from __future__ import annotations

import datetime
import importlib
import inspect
import json
from collections.abc import Mapping, Sequence
from types import MethodType
from typing import Any

from . import framework
from .models import BaseModel
from .schemas import tool_schema


class Tau2Tools:
    """The agent's tools by name, the customer's tools as `user.NAME`, and methods that only the host calls.

    `host.describe` returns the text of the domain's policy and the tools' schemas, `host.run` makes the calls of a
    solution that tau2 publishes, and `host.check` evaluates a task's assertions.
    """

    def __init__(self) -> None:
        self._environment: Any = None
        self._options: list[str] = []

    def _load_scenario(self, scenario: Mapping[str, Any], long_context: bool = False) -> None:
        """Open `{"domain": "retail", "initial": {...}, "options": {...}}`, and establish the task's initial state.

        The options are those of the domain's function `get_environment`; a list is given to it as a set.

        Raises: ValueError if the initial state cannot be reached; the domain's own errors.
        """
        framework.install()
        module = importlib.import_module(f"tau2.domains.{scenario['domain']}.environment")
        options = {
            name: set(value) if isinstance(value, list) else value
            for name, value in (scenario.get("options") or {}).items()
        }
        self._options = sorted(options.keys() & inspect.signature(module.get_environment).parameters)
        self._environment = module.get_environment(**{name: options[name] for name in self._options})
        self._begin(scenario.get("initial") or {})
        for prefix, kit in (("", self._environment.tools), ("user.", self._environment.user_tools)):
            for name in kit.get_tools() if kit is not None else ():
                setattr(self, prefix + name, MethodType(_caller("user" if prefix else "assistant", name), self))
        for name, method in (("describe", _describe), ("run", _run), ("check", _check)):
            setattr(self, f"host.{name}", MethodType(method, self))

    def _begin(self, initial: Mapping[str, Any]) -> None:
        """Establish the initial state as tau2 does: set the data, call the task's functions, repeat earlier calls.

        Raises: ValueError if an earlier call now has another result.
        """
        data = initial.get("initialization_data") or {}
        kits = [kit for kit in (self._environment.tools, self._environment.user_tools) if kit is not None]
        is_shared = len(kits) == 2 and kits[0].db is kits[1].db
        for party, key in (("assistant", "agent_data"), ("user", "user_data")):
            if data.get(key) is not None:
                self._kit(party).update_db(data[key])
                for kit in kits if is_shared else ():
                    kit.db = self._kit(party).db
        for call in initial.get("initialization_actions") or ():
            self._function(call)
        for call in initial.get("calls", ()):
            text = self._respond(call["requestor"], call["name"], call["arguments"])
            if _parsed(text) != _parsed(call["result"]):
                raise ValueError(f"{call['name']} returned {text:.200}, but {call['result']:.200} was expected")
        self._environment.sync_tools()

    def _state(self) -> str:
        """Return hashes of the data, as tau2 computes them."""
        kits = (self._environment.tools, self._environment.user_tools)
        return json.dumps([kit.get_db_hash() if kit is not None and kit.db is not None else None for kit in kits])

    def _kit(self, party: str) -> Any:
        kit = {"assistant": self._environment.tools, "user": self._environment.user_tools}[party]
        if kit is None:
            raise ValueError(f"the domain has no tools of the {party}")
        return kit

    def _function(self, call: Mapping[str, Any]) -> Any:
        """Call any method of a toolkit. Raises: the method's own errors."""
        value = getattr(self._kit(call["env_type"]), call["func_name"])(**call["arguments"])
        self._environment.sync_tools()
        return value

    def _respond(self, party: str, name: str, arguments: Mapping[str, Any]) -> str:
        """Return the result of a tool as text, or its error."""
        try:
            value = self._kit(party).use_tool(name, **arguments)
            self._environment.sync_tools()
        except Exception as error:  # noqa: BLE001  as tau2 shows it
            value = f"Error: {error}"
        return text_of(value)


def _caller(party: str, tool: str) -> Any:
    def call(tools: Tau2Tools, /, **arguments: Any) -> str:
        return tools._respond(party, tool, arguments)

    return call


def _describe(tools: Tau2Tools) -> str:
    """Return the text of the domain's policy, the schemas of the agent's tools and of the customer's, and the names of
    the options that the domain takes.
    """
    environment = tools._environment
    schemas = [
        [tool_schema(name, function) for name, function in kit.get_tools().items()] if kit is not None else []
        for kit in (environment.tools, environment.user_tools)
    ]
    described = {"policy": environment.policy, "tools": schemas[0], "user_tools": schemas[1]}
    return json.dumps({**described, "options": tools._options})


def _run(tools: Tau2Tools, actions: Sequence[Mapping[str, Any]]) -> str:
    """Make the calls of a published solution as tau2's judge does: without synchronising, and ignoring failed calls."""
    for action in actions:
        try:
            tools._kit(action["requestor"]).use_tool(action["name"], **action["arguments"])
        except Exception:  # noqa: BLE001
            continue
    return ""


def _check(tools: Tau2Tools, checks: Sequence[Mapping[str, Any]]) -> str:
    """Return the value of each assertion: true, false, or null if it returns neither or fails."""
    values = []
    for check in checks:
        try:
            value = tools._function(check)
        except Exception:  # noqa: BLE001  the agent may have left data that an assertion does not expect
            value = None
        values.append(value if isinstance(value, bool) else None)
    return json.dumps(values)


def text_of(value: Any) -> str:
    """Return a tool's value as tau2 writes it. Raises: ValueError for a value that tau2 cannot write."""
    return value if isinstance(value, str) else json.dumps(_written(value), default=str)


def _written(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return [_written(item) for item in value]
    if isinstance(value, dict):
        return {key: _written(item) for key, item in value.items()}
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise ValueError(f"Unsupported type: {type(value)}")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
