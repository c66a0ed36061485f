"""Replaces the parts of tau2 and loguru that tau2's domains use. Names are those of the original packages."""

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
from .knowledge import RetrievalPipeline as RetrievalPipeline
from .models import BaseModel

MODULES = (
    "loguru",
    "tau2.data_model.message",
    "tau2.data_model.tasks",
    "tau2.environment.db",
    "tau2.environment.environment",
    "tau2.environment.tool",
    "tau2.environment.toolkit",
    "tau2.knowledge.embeddings_cache",
    "tau2.knowledge.pipeline",
    "tau2.utils",
    "tau2.utils.io_utils",
    "tau2.utils.pydantic_utils",
    "tau2.utils.utils",
)
"""Replacements for the published modules, by their names."""
DATA_DIR = Path(__file__).parent.parent / "data"
__path__ = [str(Path(__file__).parent.parent / "tau2" / "utils")]
"""The folder with the other modules of `tau2.utils`, which are the clone's own."""
Function = TypeVar("Function", bound=Callable[..., Any])
M = TypeVar("M", bound=BaseModel)


def install() -> None:
    """Make these replacements importable for the domains."""
    sys.modules["pydantic"] = models
    sys.modules.update(dict.fromkeys(MODULES, sys.modules[__name__]))


class PublishedTask(BaseModel):
    """A task as published. The domains' type annotations name it; it is never created here."""


class BaseModelNoExtra(BaseModel):
    """A model that accepts no names other than its fields."""

    model_config = models.ConfigDict(extra="forbid")


class DB(BaseModelNoExtra):
    """The data of a domain, for the agent's tools or the customer's."""

    @classmethod
    def load(cls: type[M], path: str | Path) -> M:
        return cls.model_validate(load_file(path))

    def get_hash(self) -> str:
        return get_dict_hash(self.model_dump())


TOOL_ATTR, MUTATES_STATE_ATTR, DISCOVERABLE_ATTR = "tau2_tool", "tau2_mutates_state", "tau2_discoverable"
"""Attributes of methods that are tools. An agent is not told of a discoverable one, but reads of it in documents."""
ToolKitType = type


class ToolType(enum.StrEnum):
    """The purpose of a tool."""

    READ = "read"
    WRITE = "write"
    THINK = "think"
    GENERIC = "generic"


def is_tool(tool_type: ToolType = ToolType.READ, mutates_state: bool | None = None) -> Callable[[Function], Function]:
    """Mark a method as a tool. Unless told otherwise, a tool of the type WRITE changes the data, and no other does."""
    changes = tool_type == ToolType.WRITE if mutates_state is None else mutates_state

    def mark(function: Function) -> Function:
        function.__dict__.update({TOOL_ATTR: ToolType(tool_type), MUTATES_STATE_ATTR: changes})
        return function

    return mark


def is_discoverable_tool(
    tool_type: ToolType = ToolType.READ, mutates_state: bool | None = None
) -> Callable[[Function], Function]:
    """Mark a method as a tool that the agent is not told of."""

    def mark(function: Function) -> Function:
        function.__dict__[DISCOVERABLE_ATTR] = True
        return is_tool(tool_type, mutates_state)(function)

    return mark


class ToolKitBase:
    """The base of a domain's tools, which read and change its data."""

    def __init__(self, db: Any = None) -> None:
        self.db = db

    @property
    def tools(self) -> dict[str, Callable[..., Any]]:
        """Return the tools by name, those of the class itself first, in the order of the source."""
        names = [
            name
            for kind in type(self).__mro__
            for name, method in vars(kind).items()
            if isinstance(getattr(method, "__dict__", {}).get(TOOL_ATTR), ToolType)
        ]
        return {name: getattr(self, name) for name in dict.fromkeys(names)}

    def get_tools(self) -> dict[str, Callable[..., Any]]:
        """Return the tools that an agent or a customer is told of, by name."""
        return {name: tool for name, tool in self.tools.items() if not getattr(tool, DISCOVERABLE_ATTR, False)}

    def get_discoverable_tools(self) -> dict[str, Callable[..., Any]]:
        return {name: tool for name, tool in self.tools.items() if getattr(tool, DISCOVERABLE_ATTR, False)}

    def has_discoverable_tool(self, tool_name: str) -> bool:
        return tool_name in self.get_discoverable_tools()

    def use_tool(self, tool_name: str, **arguments: Any) -> Any:
        """Call a tool. Raises: ValueError if there is no such tool, and the tool's own errors."""
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
    """A placeholder for tau2's base class, whose tools are not available here."""

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
        """Synchronize the data that agent and customer share. Domains override this."""

    def set_solo_mode(self, solo_mode: bool) -> None:
        self.solo_mode = solo_mode


Task, Environment = PublishedTask, DomainEnvironment


class _Logger:
    """A logger that discards every line."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


logger = _Logger()


def get_cached_docs() -> None:
    """Return no documents, so that a domain reads its own."""


def set_cached_docs(docs: Any) -> None:
    """Discard documents: each process reads them once."""


def load_file(path: str | Path, **options: Any) -> Any:
    """Return a file's data. Raises: NotImplementedError for an unsupported format."""
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
    """Return a copy of a model with new values: dictionaries are merged, other values replaced."""
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
