"""Check that tasks' environments accept the constructor options in a config."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from agentgym.environment.contract import Environment
from agentgym.errors import AgentGymError
from agentgym.registry import load, prototype
from agentgym.rollout.config import RolloutConfig
from agentgym.task.definition import Task


class EnvironmentOptionError(AgentGymError, ValueError):
    """An environment does not have an option, or rejects its value."""


def check_environment_options(tasks: Iterable[Task], config: RolloutConfig) -> None:
    """Load the environment of each task, and make it once with the config's options for it, if there are any.

    Raises: UnknownNameError; EnvironmentOptionError naming the environment, the option and the accepted options.
    """
    seen: set[tuple[object, str | None]] = set()
    for task in tasks:
        environment = config.environment_for(task)
        if (environment, task.source) not in seen:
            seen.add((environment, task.source))
            check_options(environment, config.options_for(task))


def check_options(environment: str | Callable[..., Environment], options: Mapping[str, Any]) -> None:
    """Make an environment with options. Raises: as `check_environment_options`."""
    factory = load("environments", environment) if isinstance(environment, str) else environment
    if not options:
        return
    name = environment if isinstance(environment, str) else getattr(environment, "__qualname__", repr(environment))
    parameters = inspect.signature(factory).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    known = [p.name for p in parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    if unknown := [option for option in options if option not in known and not takes_any]:
        close = get_close_matches(unknown[0], known, n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        raise EnvironmentOptionError(
            f"{name} has no option {unknown[0]!r}. {hint}Its options are: {', '.join(known) or 'none'}."
        )
    try:
        prototype(environment, **options)
    except Exception as error:
        given = ", ".join(f"{option}={value!r:.60}" for option, value in options.items())
        raise EnvironmentOptionError(f"{name} cannot be created with {given}: {error}") from error
