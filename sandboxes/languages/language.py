"""The definition of a language: how to declare, compile and call a function in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from .signature import Signature
from .value_types import ValueType

MAX_EXACT = 2**53
"""The largest integer that a language with only floating-point numbers represents exactly."""


@dataclass(frozen=True, slots=True)
class Language:
    """One language.

    Attributes:
        title: its name in a prompt.
        file: the submission's file.
        needs: programs that the sandbox's image must have.
        run: the command that serves calls, for `sh`. Calls come on descriptor 3, results go to 4; a language that can
            use only the standard streams sets `standard_streams` and uses 0 and 1.
        stub: the declaration of the function to be written, with the types that it needs.
        harmless: a function that returns its one argument, an int.
        driver: files that do not depend on the function. `prepare` compiles them, once.
        files: files that depend on the function, such as a main program.
        build: the command that compiles the submission; empty if nothing is compiled.
        packaged: converts the submission to the text of its file.
        max_int: the largest int, in absolute value, that the language can hold.
        prepare_cpu_s: processor time that `prepare` may take.
    """

    title: str
    file: str
    needs: Sequence[str]
    run: str
    stub: Callable[[Signature], str]
    harmless: str
    driver: Sequence[str] = ()
    prepare: Sequence[str] = ()
    files: Callable[[Signature], Mapping[str, str]] = field(default=lambda signature: {})
    build: Sequence[str] = ()
    packaged: Callable[[str], str] = str
    standard_streams: bool = False
    max_int: int = 2**63

    def driver_files(self) -> dict[str, bytes]:
        """Return the driver's files by name."""
        folder = files("agentgym.sandboxes.languages").joinpath("drivers")
        return {name: folder.joinpath(name).read_bytes() for name in self.driver}


def type_writer(
    scalars: Mapping[str, str], list_of: str, map_of: str, optional_of: str, boxed: Mapping[str, str] | None = None
) -> Callable[[ValueType], str]:
    """Return a function that writes types in a language, from patterns such as "Vec<{0}>".

    `boxed`: the names that scalars have inside another type, where these differ.
    """

    def write(kind: ValueType) -> str:
        if kind.kind in scalars:
            return scalars[kind.kind]
        inner = [(boxed or {}).get(part.kind) or write(part) for part in kind.inner]
        return {"list": list_of, "map": map_of, "optional": optional_of}[kind.kind].format(*inner)

    return write
