"""Load registered parts from a line of text with a name and options, such as `topr(max_ratio=1.0)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from agentgym import registry
from agentgym.credit.composition import ComposedPart, parse_composition
from agentgym.credit.options import check_options
from agentgym.errors import CreditError


def parse_part(text: str) -> ComposedPart:
    """Read a name and its options. Raises: CreditError naming the part that cannot be read."""
    part, *wrappers = parse_composition(text)
    if wrappers:
        raise CreditError(
            f"{text!r} is not valid: {part.name} cannot be wrapped. Write one name, with its options in brackets."
        )
    return part


def load_part(kind: registry.Kind, name: str, options: Mapping[str, Any]) -> Callable[..., Any]:
    """Load the function or class that is registered under a name, with its options filled in.

    Raises: UnknownNameError; CreditError for an option that it does not accept, or a required option that is missing.
        For a reward, the returned function raises the CreditError when it is called.
    """
    if kind == "rewards":  # its constructor takes only options, and checks them
        return partial(registry.load_reward, name, **options)
    registered = registry.load(kind, name)
    signature = vars(registered).get("__init__", registered) if isinstance(registered, type) else registered
    singular = kind.removesuffix("es") if kind == "searches" else kind.removesuffix("s")
    check_options(name, signature, options, kind=singular.replace("_", " "))
    needed = [
        parameter.name
        for parameter in inspect.signature(signature).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
    ]
    if missing := [option for option in needed if option not in options]:
        written = ", ".join(f"{option}=..." for option in missing)
        raise CreditError(f"{name!r} needs the option {missing[0]!r}. Write it as {name}({written}).")
    return partial(registered, **options)


def load_named_part(kind: registry.Kind, text: str) -> Callable[..., Any]:
    """Load the part that a line of text names, such as `topr(max_ratio=1.0)`, with its options filled in.

    Raises: UnknownNameError; CreditError for a text that cannot be read, or an option that the part does not accept.
    """
    part = parse_part(text)
    return load_part(kind, part.name, part.options)
