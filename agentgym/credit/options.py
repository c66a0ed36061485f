"""Options of estimators and wrappers: the keyword-only parameters of their functions, checked with pydantic."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from agentgym.errors import CreditError

Baseline = Literal["loo", "mean"]
Scale = Literal["none", "std"]
Ddof = Annotated[int, Ge(0), Le(1)]


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return every option of an estimator's function with its default value."""
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def check_options(
    owner: str, function: Callable[..., Any], options: Mapping[str, Any], *, kind: str = "estimator"
) -> None:
    """Check option names and values against the signature of the function.

    Raises: CreditError naming the option, its value and what was expected.
    """
    if not options:
        return
    accepted = defaults_of(function)
    for name in options:
        if name not in accepted:
            raise CreditError(
                f"The {kind} {owner!r} has no option {name!r}.{did_you_mean(name, accepted)} "
                f"It accepts {', '.join(accepted) or 'none'}."
            )
    from pydantic import ValidationError  # costs 0.2 s to import, so only if an option is set

    try:
        _options_model(function)(**options)
    except ValidationError as error:
        problem = error.errors()[0]
        name, expected = str(problem["loc"][0]), problem["msg"].removeprefix("Input should be ")
        raise CreditError(f"The option {name!r} of {owner!r} is {options[name]!r}: expected {expected}.") from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the most similar known name, after a space; empty if none is similar."""
    close = get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


@cache
def _options_model(function: Callable[..., Any]) -> Any:
    """Return a pydantic model with one strict field per option, only for checks: values are passed on unchanged."""
    from pydantic import ConfigDict, create_model

    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {name: (hints.get(name, Any), default) for name, default in defaults_of(function).items()}
    return create_model("Options", __config__=ConfigDict(strict=True, allow_inf_nan=False), **fields)
