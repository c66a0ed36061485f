"""Small libraries in JavaScript and C, each with its tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class SourceLanguage:
    """A programming language of the libraries.

    Attributes:
        name: the name, as in the names of its task set and folder. `runner`: the test runner, as for
            `agentgym/swe-edit-v1`.
        names: the names of the libraries. `unseen`: the names of those in the held-out split.
        of_library: the files of each library, with {name} for its name. `shared`: files of all libraries. `tests`:
            patterns of test files.
        source: the path of the file that gets the bug.
    """

    name: str
    runner: str
    names: tuple[str, ...]
    unseen: tuple[str, ...]
    of_library: tuple[str, ...]
    shared: tuple[str, ...]
    tests: tuple[str, ...]
    source: str


LANGUAGES = {
    language.name: language
    for language in (
        SourceLanguage(
            *("javascript", "node", ("ring", "text", "intervals", "matrix"), ("query", "cache")),
            *(("{name}.js", "{name}.test.js"), (), ("*.test.js",), "{name}.js"),
        ),
        SourceLanguage(
            *("c", "ctest", ("list", "dates", "words", "bits"), ("heap", "fractions")),
            *(("{name}.c", "{name}.h", "test_{name}.c"), ("CMakeLists.txt", "check.h")),
            *(("test_*.c", "check.h"), "{name}.c"),
        ),
    )
}


@dataclass(frozen=True)
class SmallLibrary:
    """One library: its files by path."""

    language: SourceLanguage
    name: str
    files: Mapping[str, str]

    @property
    def path(self) -> str:
        """Return the file with the bug."""
        return self.language.source.format(name=self.name)

    @cached_property
    def tests(self) -> dict[str, str]:
        """Return the code of each test, by its id, in file order."""
        text = next(text for path, text in self.files.items() if "test" in path)
        if self.language.name == "c":
            pairs = re.findall(r"^TEST\((\w+)\) \{\n(.*?)^\}", text, re.M | re.S)
        else:
            pairs = re.findall(r"^test\('(.+?)', \(\) => \{\n(.*?)^\}\);", text, re.M | re.S)
        return {name: re.sub(r"^(    |  )", "", body, flags=re.M).rstrip() for name, body in pairs}


@cache
def libraries(language: SourceLanguage) -> tuple[SmallLibrary, ...]:
    """Return all libraries of a language, held-out ones last."""
    folder = files(__name__).joinpath(language.name)

    def library(name: str) -> SmallLibrary:
        paths = [*(path.format(name=name) for path in language.of_library), *language.shared]
        texts = {path: folder.joinpath(path).read_text(encoding="utf-8") for path in paths}
        return SmallLibrary(language, name, texts)

    return tuple(library(name) for name in (*language.names, *language.unseen))
