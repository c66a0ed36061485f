"""A task's function: its signature, the allowed languages, and calls with their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .catalogue import LANGUAGES
from .language import Language
from .signature import Signature


@dataclass(frozen=True, slots=True)
class Case:
    """One call of the function, and its expected result. `tolerance`: relative; None if the call sets none."""

    arguments: list[Any]
    value: Any
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class FunctionTask:
    """A function to write in one of several languages.

    Attributes:
        signature: its name, arguments and result.
        languages: names of `LANGUAGES`, the default first.
    """

    signature: Signature
    languages: tuple[str, ...]

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> FunctionTask:
        """Read `parameters["function"]` and `parameters["languages"]`. Raises: ValueError naming the fault."""
        try:
            signature = Signature.of(parameters.get("function"))
        except ValueError as error:
            raise ValueError(f"parameters['function'] is not valid: {error}") from None
        names = parameters.get("languages", ())
        if not isinstance(names, list | tuple) or not names or not all(name in LANGUAGES for name in names):
            raise ValueError(f"parameters['languages'] is {names!r:.120}. Give some of {', '.join(LANGUAGES)}")
        return cls(signature, tuple(names))

    def language(self, name: str = "") -> Language:
        """Return a language by name, by default the first. Raises: ValueError naming the allowed languages."""
        if name and name not in self.languages:
            raise ValueError(f"{name!r:.40} is not a language of this task: use {' or '.join(self.languages)}")
        return LANGUAGES[name or self.languages[0]]

    def cases(self, data: Any) -> list[Case]:
        """Read a list of {"arguments", "value"}, with "tolerance" if a call sets its own.

        Raises: ValueError for a value that some language cannot represent.
        """
        if not isinstance(data, list | tuple):
            raise ValueError(f"{data!r:.120} is not a list of calls")
        cases = []
        for number, case in enumerate(data):
            if not isinstance(case, Mapping) or not {"arguments", "value"} <= case.keys():
                raise ValueError(f"call {number} must have arguments and value, but it is {case!r:.120}")
            try:
                self.signature.check_arguments(case["arguments"])
                self.signature.returns.check(case["value"])
                self._check_ints([case["arguments"], case["value"]])
            except ValueError as error:
                raise ValueError(f"call {number}: {error}") from None
            tolerance = case.get("tolerance")
            if tolerance is not None and not (isinstance(tolerance, int | float) and 0 <= tolerance < 1):
                raise ValueError(f"call {number}: its tolerance must be at least 0 and below 1, not {tolerance!r:.40}")
            cases.append(Case(list(case["arguments"]), case["value"], tolerance))
        return cases

    def _check_ints(self, value: Any) -> None:
        if isinstance(value, Mapping):
            value = [*value.keys(), *value.values()]
        if isinstance(value, list | tuple):
            for part in value:
                self._check_ints(part)
        elif isinstance(value, int):
            for name in self.languages:
                if abs(value) > LANGUAGES[name].max_int:
                    limit, title = LANGUAGES[name].max_int, LANGUAGES[name].title
                    raise ValueError(f"{value} is outside the integers of {title}, from {-limit} to {limit}")
