"""The classes that a user's code extends or calls back into: which methods they have, and what each is for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from research.reference.entries import one_line, table

INTRODUCTION = """\
What you may override, and how each thing is registered. Each has a page that shows it in use: an
[environment](../how-to/environment.md), a [reward](../how-to/reward.md), an [estimator](../how-to/estimator.md), an
[objective](../how-to/objective.md), a [policy](../how-to/policy.md), a [sandbox backend](../how-to/backend.md).
Register your own with `agentgym.register(name, what, kind=...)`, or by an entry point of the group that is named
below."""


def lines() -> list[str]:
    """The page, without its title."""
    from agentgym import Environment, Policy, Reward, TaskSet
    from agentgym.policy import CallFormat
    from agentgym.sandbox import Backend, Sandbox
    from agentgym.tools import ToolOptions

    page = [INTRODUCTION]
    for cls, kind in (
        (Environment, "environments"),
        (Reward, "rewards"),
        (TaskSet, "task_sets"),
        (Policy, "policies"),
        (CallFormat, "call_formats"),
        (Backend, "backends"),
        (Sandbox, None),
    ):
        group = f" Kind `{kind}`; entry points `agentgym.{kind}`." if kind else ""
        page += ["", f"## `{cls.__name__}`", "", one_line(_first_paragraph(cls)) + group, ""]
        page += table(["member", "meaning"], [[_spelling(cls, name), _meaning(cls, name)] for name in _members(cls)])
    page += [
        "",
        "## `@tool`",
        "",
        "The options of the decorator `agentgym.tool`, for a method or function that the agent may call.",
        "",
    ]
    fields = inspect.signature(ToolOptions).parameters.values()
    from research.reference.entries import attributes_of

    _, texts = attributes_of(ToolOptions, [field.name for field in fields])
    rows = [[f"`{f.name}`", f"`{f.default!r}`", texts.get(f.name, "")] for f in fields]
    return page + table(["option", "default", "meaning"], rows)


def _members(cls: type) -> list[str]:
    """Public members that the class defines, without aliases of former names."""
    return [
        name
        for name, value in vars(cls).items()
        if not name.startswith("_") and _documented(value) and not _is_alias(value)
    ]


def _documented(value: Any) -> bool:
    return isinstance(value, (property, classmethod, staticmethod)) or callable(value)


def _is_alias(value: Any) -> bool:
    return type(value).__module__ == "agentgym.deprecation"


def _function(cls: type, name: str) -> Callable[..., Any]:
    value = vars(cls)[name]
    function = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
    unwrapped: Callable[..., Any] = inspect.unwrap(function)
    return unwrapped


def _spelling(cls: type, name: str) -> str:
    if isinstance(vars(cls)[name], property):
        return f"`{name}`"
    parameters = [
        p for p in inspect.signature(_function(cls, name)).parameters.values() if p.name not in ("self", "cls")
    ]
    words: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words and not any(w.startswith("*") for w in words):
            words.append("*")
        star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        words.append(f"{star}{parameter.name}{default}")
    is_async = inspect.iscoroutinefunction(_function(cls, name))
    return f"`{'await ' if is_async else ''}{name}({', '.join(words)})`"


def _meaning(cls: type, name: str) -> str:
    """The docstring's paragraphs before "Args:", and what it returns and raises."""
    text = inspect.getdoc(_function(cls, name)) or ""
    return one_line(text.partition("\nArgs:")[0])


def _first_paragraph(cls: type) -> str:
    return (inspect.getdoc(cls) or "").partition("\n\n")[0]
