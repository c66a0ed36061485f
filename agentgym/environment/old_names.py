"""Members of Environment under their names in 0.2, which users may call or override for one more release."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentgym.deprecation import warn_renamed
from agentgym.environment.contexts import ContextChange, HasContexts
from agentgym.environment.sandboxes import EnvironmentSandboxes
from agentgym.environment.state import Outlook
from agentgym.messages import Message
from agentgym.sandbox import Sandbox, Usage


class OldNames:
    """The base class of Environment until the next release; it holds the old names."""

    async def hopeless(self: Any) -> str | None:
        warn_renamed("Environment.hopeless()", "Environment.outlook()")
        outlook = await self.outlook()
        return None if outlook is None else outlook.hopeless

    async def turns_needed(self: Any) -> int | None:
        warn_renamed("Environment.turns_needed()", "Environment.outlook()")
        outlook = await self.outlook()
        return None if outlook is None else outlook.turns_needed

    async def empty_sandbox(self: Any) -> Sandbox:
        warn_renamed("Environment.empty_sandbox()", "Environment.default_sandbox(empty=True)")
        sandbox: Sandbox = await self.default_sandbox(empty=True)
        return sandbox

    def remove_tools(self: Any, *names: str) -> None:
        warn_renamed("Environment.remove_tools", "an assignment to `self.tools` without them")
        if unknown := [name for name in names if name not in self.tools]:
            raise KeyError(f"{type(self).__qualname__} has no tools {unknown}. It has: {', '.join(self.tools)}.")
        environment: Any = self
        environment.tools = {name: tool for name, tool in self.tools.items() if name not in names}

    _context_change: ContextChange | None = None
    changes_context = HasContexts.changes_context
    take_context_change = HasContexts.take_context_change

    def begin_context(self: Any, opening: Sequence[Message], *, nested: bool = False) -> None:
        warn_renamed("Environment.begin_context", "HasContexts.begin_context", advice=_DERIVE)
        HasContexts.begin_context(self, opening, nested=nested)

    def end_context(self: Any, results: Mapping[str, str]) -> None:
        warn_renamed("Environment.end_context", "HasContexts.end_context", advice=_DERIVE)
        HasContexts.end_context(self, results)

    @property
    def unwrapped(self: Any) -> Any:
        warn_renamed("Environment.unwrapped", "agentgym.environment.EnvironmentWrapper.unwrap(environment)")
        environment = self
        while getattr(environment, "is_transparent", False):
            environment = environment._environment
        return environment

    @property
    def image_digests(self: Any) -> list[str]:
        warn_renamed("Environment.image_digests", "Environment.sandboxes.image_digests")
        digests: list[str] = self.sandboxes.image_digests
        return digests

    async def usage(self: Any) -> Usage:
        warn_renamed("Environment.usage()", "Environment.sandboxes.usage()")
        used: Usage = await self.sandboxes.usage()
        return used

    _own_usage: Any = None

    def _make_sandboxes(self) -> EnvironmentSandboxes:
        return EnvironmentSandboxes() if self._own_usage is None else _ToldUsage(self._own_usage)


_DERIVE = "Derive the class from HasContexts first, and then from Environment."


def adopt_old_overrides(cls: type) -> None:
    """Keep a subclass working that overrides `hopeless`, `turns_needed`, `usage` or `private_texts`."""
    own = vars(cls)
    old = [name for name in ("hopeless", "turns_needed") if inspect.iscoroutinefunction(own.get(name))]
    if old and "outlook" not in own:
        warn_renamed(f"{cls.__name__}.{' and '.join(old)}()", f"{cls.__name__}.outlook()", stacklevel=2)
        _compose_outlook(cls, {name: own[name] for name in old})
    if inspect.iscoroutinefunction(own.get("usage")):
        warn_renamed(f"{cls.__name__}.usage()", "EnvironmentSandboxes.usage()", stacklevel=2)
        cls._own_usage = own["usage"]  # type: ignore[attr-defined]
    if inspect.isfunction(own.get("private_texts")):
        warn_renamed(f"{cls.__name__}.private_texts()", "an attribute, which `reset` sets", stacklevel=2)
        cls.private_texts = property(own["private_texts"])  # type: ignore[attr-defined]


def _compose_outlook(cls: Any, methods: Mapping[str, Any]) -> None:
    inherited = cls.outlook

    async def outlook(self: Any) -> Outlook:
        known = await inherited(self) or Outlook()
        return replace(known, **{name: await method(self) for name, method in methods.items()})

    cls.outlook = outlook


class _ToldUsage(EnvironmentSandboxes):
    """The sandboxes of an environment that overrides the old method `usage`."""

    were_opened = True

    def __init__(self, usage: Callable[[], Awaitable[Usage]]) -> None:
        super().__init__()
        self._told_usage = usage

    async def usage(self) -> Usage:
        return await self._told_usage()
