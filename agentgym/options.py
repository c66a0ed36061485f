"""What every class of options is built on: recipe sections, checked dataclasses, and the types of numbers in both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from difflib import get_close_matches
from functools import wraps
from typing import Annotated, Any, TypeVar, dataclass_transform

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

Count = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """A part of a recipe: frozen, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


C = TypeVar("C", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def validated_dataclass(*, kw_only: bool = False) -> Callable[[C], C]:
    """Make a class a frozen dataclass whose constructor checks each value against its annotation.

    Its constructor raises ValueError naming each field that is wrong, its value and what it may be, and TypeError for
    a keyword that is no field. Types of our own are checked by isinstance.
    """

    def decorate(cls: C) -> C:
        checked: Any = dataclass(
            frozen=True, slots=True, kw_only=kw_only, config=ConfigDict(arbitrary_types_allowed=True, extra="forbid")
        )(cls)
        construct = checked.__init__

        @wraps(construct)
        def __init__(self: object, *args: Any, **options: Any) -> None:
            try:
                construct(self, *args, **options)
            except ValidationError as error:
                raise _explained(checked, error) from None

        checked.__init__ = __init__
        return checked  # type: ignore[no-any-return]

    return decorate


def _explained(cls: type, error: ValidationError) -> Exception:
    names = list(cls.__dataclass_fields__)  # type: ignore[attr-defined]
    problems: dict[str, str] = {}
    for item in error.errors(include_url=False):
        name = str(item["loc"][0])
        if item["type"] == "unexpected_keyword_argument":
            near = get_close_matches(name, names, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(names)}."
            return TypeError(f"{cls.__name__} has no field {name!r}. {hint}")
        if item["type"] == "missing":
            problems[name] = f"{cls.__name__}.{name} is missing"
            continue
        reason = item["msg"][0].lower() + item["msg"][1:]
        if name in problems:  # of a union each member says what it wants
            problems[name] += f", or {reason}"
        else:
            problems[name] = f"{cls.__name__}.{name} is {item['input']!r}: {reason}"
    return ValueError("; ".join(problems.values()) + ".")
