"""The signature of a function: its name, its arguments by name and type, and the type of its result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .value_types import ValueType

_NAME = re.compile(r"_?[A-Za-z][A-Za-z0-9_]{0,60}\Z")
_RESERVED = frozenset(
    """abstract as assert async auto await bool boolean break byte case catch chan char class const continue crate
    debugger def default defer delete do double dyn else enum export extends extern fallthrough false final finally
    float fn for func function go goto if impl implements import in inline instanceof int interface let long loop main
    map match mod move mut namespace native new nil null operator override package private protected pub public range
    ref register return select self short signed sizeof static string struct super switch template this throw throws
    trait true try type typedef typeof union unsafe unsigned use using var virtual void volatile where while with
    yield""".split()  # noqa: SIM905 - one word a line would be a screen and a half
)


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's arguments and result.

    Attributes:
        name: the function's name; not a reserved word of any language.
        arguments: name and type of each argument.
        returns: the type of the result.
    """

    name: str
    arguments: tuple[tuple[str, ValueType], ...]
    returns: ValueType

    @classmethod
    def of(cls, data: Any) -> Signature:
        """Read {"name", "arguments": [[name, type], ...], "returns": type}. Raises: ValueError naming the fault."""
        if not isinstance(data, Mapping) or not {"name", "arguments", "returns"} <= data.keys():
            raise ValueError(f"{data!r:.120} is not a signature: give name, arguments and returns")
        pairs = data["arguments"]
        if not isinstance(pairs, Sequence) or not all(
            isinstance(pair, Sequence) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
        ):
            raise ValueError(f"the arguments must be a list of [name, type], not {pairs!r:.120}")
        arguments = tuple((name, ValueType.parse(kind)) for name, kind in pairs)
        for name in (data["name"], *(name for name, _ in arguments)):
            if not isinstance(name, str) or not _NAME.match(name) or name in _RESERVED:
                raise ValueError(
                    f"{name!r:.80} is not a valid name in every language: use letters, digits and _, such as 'count_x'"
                )
        return cls(data["name"], arguments, ValueType.parse(data["returns"]))

    @property
    def kinds(self) -> list[ValueType]:
        """Return the types of the arguments."""
        return [kind for _, kind in self.arguments]

    def all_types(self) -> list[ValueType]:
        """Return each type that occurs, once, after the types nested in it."""
        return list(dict.fromkeys(part for kind in (*self.kinds, self.returns) for part in kind.parts()))

    def check_arguments(self, values: Any) -> None:
        """Raise ValueError unless these are arguments for one call."""
        if not isinstance(values, list | tuple) or len(values) != len(self.arguments):
            raise ValueError(f"{values!r:.120} does not have the {len(self.arguments)} arguments of {self.name}")
        for (name, kind), value in zip(self.arguments, values, strict=True):
            try:
                kind.check(value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
