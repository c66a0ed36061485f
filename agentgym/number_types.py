"""Types of numbers in options, checked wherever they are annotated. `agentgym.options` makes them public."""

from typing import Annotated

from annotated_types import Ge, Gt, Le

Count = Annotated[int, Gt(0)]
Share = Annotated[float, Ge(0), Le(1)]
Rate = Annotated[float, Gt(0)]
Seconds = Annotated[float, Gt(0)]
