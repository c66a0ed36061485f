"""Stands in for tau2, as far as its domains need it, and for loguru. What the domains call is named as there."""

from __future__ import annotations

import enum
import hashlib
import json
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from . import models
from .models import BaseModel

MODULES = (
    "loguru",
    "tau2.data_model.message",
    "tau2.data_model.tasks",
    "tau2.environment.db",
    "tau2.environment.environment",
    "tau2.environment.tool",
    "tau2.environment.toolkit",
    "tau2.utils",
    "tau2.utils.io_utils",
    "tau2.utils.pydantic_utils",
    "tau2.utils.utils",
)
"""What is found here in place of the published modules."""
DATA_DIR = Path(__file__).parent.parent / "data"
__path__ = [str(Path(__file__).parent.parent / "tau2" / "utils")]
"""Where the other modules of `tau2.utils` are, which are the clone's own."""
Function = TypeVar("Function", bound=Callable[..., Any])
M = TypeVar("M", bound=BaseModel)


def install() -> None:
    """Let the domains import what is here."""
    sys.modules["pydantic"] = models
    sys.modules.update(dict.fromkeys(MODULES, sys.modules[__name__]))


class PublishedTask(BaseModel):
    """Named in the domains' functions, and not made here."""


class BaseModelNoExtra(BaseModel):
    """A model that takes no other names than its fields."""

    model_config = models.ConfigDict(extra="forbid")


class DB(BaseModelNoExtra):
    """The data of a domain, for the agent's tools or the customer's."""

    @classmethod
    def load(cls: type[M], path: str | Path) -> M:
        return cls.model_validate(load_file(path))

    def get_hash(self) -> str:
        return get_dict_hash(self.model_dump())


class ToolType(enum.StrEnum):
    """What a tool is for."""

    READ = "read"
    WRITE = "write"
    THINK = "think"
    GENERIC = "generic"


def is_tool(tool_type: ToolType = ToolType.READ, mutates_state: bool | None = None) -> Callable[[Function], Function]:
    """Mark a method as a tool."""

    def mark(function: Function) -> Function:
        function.__dict__["tau2_tool"] = ToolType(tool_type)
        return function

    return mark


class ToolKitBase:
    """Tools over data."""

    def __init__(self, db: Any = None) -> None:
        self.db = db

    @property
    def tools(self) -> dict[str, Callable[..., Any]]:
        """The tools by their names, those of the class itself first, in the order in which they are written."""
        names = [
            name
            for kind in type(self).__mro__
            for name, method in vars(kind).items()
            if isinstance(getattr(method, "__dict__", {}).get("tau2_tool"), ToolType)
        ]
        return {name: getattr(self, name) for name in dict.fromkeys(names)}

    def use_tool(self, tool_name: str, **arguments: Any) -> Any:
        """Call a tool. Raises: ValueError if there is none of this name, and what the tool raises."""
        if tool_name not in self.tools:
            raise ValueError(f"Tool '{tool_name}' not found.")
        return self.tools[tool_name](**arguments)

    def has_tool(self, tool_name: str) -> bool:
        return tool_name in self.tools

    def update_db(self, update_data: Mapping[str, Any] | None = None) -> None:
        self.db = update_pydantic_model_with_dict(self.db, update_data or {})

    def get_db_hash(self) -> str:
        return get_dict_hash(self.db.model_dump())


class GenericToolKit(ToolKitBase):
    """Named by domains that have their tools from it, which are not here."""

    def __init_subclass__(cls) -> None:
        raise NotImplementedError(f"{cls.__name__} uses tau2's GenericToolKit, which is not supported in the sandbox")


class DomainEnvironment:
    """The tools of the agent and of the customer, and the policy."""

    def __init__(
        self,
        domain_name: str,
        policy: str,
        tools: ToolKitBase | None = None,
        user_tools: ToolKitBase | None = None,
        solo_mode: bool = False,
    ) -> None:
        self.domain_name, self.policy, self.tools, self.user_tools = domain_name, policy, tools, user_tools
        self.solo_mode = solo_mode
        self.sync_tools()

    def sync_tools(self) -> None:
        """Bring what agent and customer have in common into line. Domains replace it."""

    def set_solo_mode(self, solo_mode: bool) -> None:
        self.solo_mode = solo_mode


Task, Environment = PublishedTask, DomainEnvironment


class _Logger:
    """Takes every line, and keeps none."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


logger = _Logger()


def load_file(path: str | Path, **options: Any) -> Any:
    """Return what is in a file. Raises: NotImplementedError for a format that is not known here."""
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    if path.suffix == ".toml":
        return tomllib.loads(text)
    if path.suffix in (".md", ".txt"):
        return text
    raise NotImplementedError(f"{path.name}: files of the type {path.suffix} are not supported in the sandbox")


def get_dict_hash(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


def get_pydantic_hash(model: BaseModel) -> str:
    return get_dict_hash(model.model_dump())


def update_pydantic_model_with_dict(model_instance: M, update_data: Mapping[str, Any]) -> M:
    """Return a model with other values: dictionaries are merged, other values replaced."""
    return type(model_instance).model_validate(_merged(model_instance.model_dump(), models.plain(dict(update_data))))


def _merged(values: dict[Any, Any], others: Mapping[Any, Any]) -> dict[Any, Any]:
    merged = dict(values)
    for key, other in others.items():
        held = merged.get(key)
        merged[key] = _merged(held, other) if isinstance(held, dict) and isinstance(other, dict) else other
    return merged


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(
        f"tau2's {name} is not supported in the sandbox, which has only what tau2-bench's own domains use"
    )
