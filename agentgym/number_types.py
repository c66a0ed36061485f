"""Number types for annotating options; values of such options are checked. `agentgym.options` makes them public."""

from typing import Annotated, Any

from annotated_types import Ge, Gt, Le


class _Strict:
    """Makes pydantic refuse values that it would convert: true and "3" are not numbers, and 3.0 is not an integer."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), "strict": True}


Count = Annotated[int, _Strict(), Gt(0)]
WholeNumber = Annotated[int, _Strict(), Ge(0)]
Share = Annotated[float, _Strict(), Ge(0), Le(1)]
Positive = Annotated[float, _Strict(), Gt(0)]
Weight = Annotated[float, _Strict(), Ge(0)]
