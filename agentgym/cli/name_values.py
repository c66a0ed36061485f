"""Options of registered things (policies, importers) on the command line: `--policy-option extra.top_k=20`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass, replace
from difflib import get_close_matches
from typing import Any

from agentgym.errors import AgentGymError


class NameValueError(AgentGymError, ValueError):
    """An option that its receiver does not have, or that is not written NAME=VALUE."""


def options_for(
    factory: Callable[..., object], pairs: Sequence[str], option: str, receiver: str, *, positional: int = 0
) -> dict[str, Any]:
    """Read NAME=VALUE pairs as keyword arguments of `factory`.

    true, false, null, numbers, lists and quoted text are read as in JSON, anything else as text. A dot reaches into an
    option that is a dictionary or a dataclass: `extra.top_k=20`, `retry_policy.unreached_s=60`.

    Args:
        option: how the command line spells the option, for errors. `receiver`: what `factory` makes, for errors.
        positional: how many arguments the command itself passes by position; they are not options.
    Raises: NameValueError for a pair without "=", and for a name that the factory does not take.
    """
    parameters = inspect.signature(factory).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = [name for name, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    known = named[positional:]
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        name, dot, field = key.strip().partition(".")
        if not equals or name in named[:positional] or (name not in known and not takes_any):
            close = get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]!r}? " if equals and close else ""
            raise NameValueError(
                f"{option} {pair} is not valid. {hint}{receiver} has the options {', '.join(known)}; write one as "
                "NAME=VALUE."
            )
        if not dot:
            options[name] = _value(text)
            continue
        default = parameters[name].default if name in parameters else None
        current = options.get(name, {} if default in (None, inspect.Parameter.empty) else default)
        options[name] = _with_field(current, field, _value(text), f"{option} {pair}")
    return options


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _with_field(current: Any, field: str, value: Any, spelling: str) -> Any:
    """Return a copy of a dictionary or dataclass with one field, possibly nested, set to another value."""
    if is_dataclass(current) and not isinstance(current, type):
        known = list(inspect.signature(type(current)).parameters)
        if field not in known:
            raise NameValueError(f"{spelling}: unknown field. The fields are: {', '.join(known)}.")
        try:
            return replace(current, **{field: value})
        except (TypeError, ValueError) as error:
            raise NameValueError(f"{spelling} is not valid: {error}") from error
    if not isinstance(current, dict):
        raise NameValueError(f"{spelling}: the option before the dot is {current!r}, which has no fields.")
    first, dot, rest = field.partition(".")
    return current | {first: _with_field(current.get(first, {}), rest, value, spelling) if dot else value}
