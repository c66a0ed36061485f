"""Options of estimators: read from the signature of the estimator's function, checked when they are set."""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from agentgym.errors import CreditError


@dataclass(frozen=True, slots=True)
class Between:
    """A number from `low` to `high`; `low` itself only if `closed`."""

    low: float = -math.inf
    high: float = math.inf
    closed: bool = True

    def holds(self, value: float) -> bool:
        above = value >= self.low if self.closed else value > self.low
        return math.isfinite(value) and above and value <= self.high

    def __str__(self) -> str:
        least = ("at least " if self.closed else "above ") + f"{self.low:g}"
        return least + (f" and at most {self.high:g}" if math.isfinite(self.high) else "")


Decay = Annotated[float, Between(0.0, 1.0)]
Weight = Annotated[float, Between(0.0)]
PositiveWeight = Annotated[float, Between(0.0, closed=False)]
Share = Annotated[float, Between(0.0, 1.0)]
Count = Annotated[int, Between(1)]
Number = Annotated[float, Between()]
WholeNumber = Annotated[int, Between(0)]
Baseline = Literal["loo", "mean"]
Scale = Literal["none", "std"]
Ddof = Literal[0, 1]


def options_of(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """The keyword-only parameters of an estimator's function: type hint and default by name."""
    hints = typing.get_type_hints(function, include_extras=True)
    return {
        name: (hints.get(name, Any), parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }


def check_options(
    owner: str, known: Mapping[str, tuple[Any, Any]], given: Mapping[str, Any], *, kind: str = "estimator"
) -> None:
    """Raises: CreditError naming the option at fault, its value and what is accepted."""
    for name, value in given.items():
        if name not in known:
            close = get_close_matches(name, known, n=1)
            raise CreditError(
                f"The {kind} {owner!r} has no option {name!r}."
                + (f" Did you mean {close[0]!r}?" if close else "")
                + f" It accepts {', '.join(known) or 'none'}."
            )
        if wrong := _objection(known[name][0], value):
            raise CreditError(f"The option {name!r} of {owner!r} is {value!r}: expected {wrong}.")


def _objection(hint: Any, value: Any) -> str:
    """What was expected of the value, or an empty string where it fits."""
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        fits = any(value == choice and type(value) is type(choice) for choice in choices)
        return "" if fits else "one of " + ", ".join(map(repr, choices))
    if get_origin(hint) in (Union, UnionType):  # only ever `something | None`
        return "" if value is None else _objection(next(one for one in get_args(hint) if one is not NoneType), value)
    if get_origin(hint) is Mapping:
        wanted = get_args(hint)[1]
        fits = isinstance(value, Mapping) and not any(_objection(wanted, one) for one in value.values())
        return "" if fits else "a table of numbers by name"
    limits = None
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        limits = next((note for note in notes if isinstance(note, Between)), None)
    if hint in (int, float):
        kinds = (int, float) if hint is float else (int,)
        if isinstance(value, bool) or not isinstance(value, kinds):
            return "a number" if hint is float else "a whole number"
        if limits is not None and not limits.holds(value):
            return f"a number {limits}"
        return "" if math.isfinite(value) else "a finite number"
    if hint in (bool, str) and not isinstance(value, hint):
        return f"a {hint.__name__}"
    return ""
