"""C++: the driver deduces how to read the arguments from the submission's own declaration."""

from __future__ import annotations

from collections.abc import Mapping

from .language import Language, type_writer
from .signature import Signature
from .value_types import ValueType

_write = type_writer(
    {"int": "long long", "float": "double", "bool": "bool", "string": "std::string"},
    list_of="std::vector<{0}>",
    map_of="std::map<{0}, {1}>",
    optional_of="std::optional<{0}>",
)


def _argument(name: str, kind: ValueType) -> str:
    spelling = _write(kind)
    return f"{spelling} {name}" if kind.kind in ("int", "float", "bool") else f"const {spelling} &{name}"


def _stub(signature: Signature) -> str:
    arguments = ", ".join(_argument(name, kind) for name, kind in signature.arguments)
    return (
        "#include <map>\n#include <optional>\n#include <string>\n#include <vector>\n\n"
        f"{_write(signature.returns)} {signature.name}({arguments}) {{\n    // ...\n}}\n"
    )


C_LIBRARY = frozenset(
    """
    abs acos acosh asin asinh atan atan2 atanh atof atoi atol atoll bsearch calloc cbrt ceil clock cos cosh ctime
    difftime div erf exit exp exp2 expm1 fabs fdim floor fma fmax fmin fmod free frexp gamma getenv getline gets hypot
    index isalnum isalpha isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit j0 j1 jn labs
    ldexp ldiv lgamma llabs log log10 log1p log2 malloc memchr memcmp memcpy memmove memset modf nan pow printf putchar
    puts qsort raise rand random realloc remainder remove rename rindex rint round scanf signal sin sinh sprintf sqrt
    srand stpcpy strcat strchr strcmp strcoll strcpy strcspn strdup strerror strlen strncat strncmp strncpy strpbrk
    strrchr strsep strspn strstr strtod strtok strtol swab system tan tanh tgamma time tolower toupper trunc y0 y1 yn
    """.split()  # noqa: SIM905 - a list of words is read as words
)
"""Functions of the C library. A submission's function with such a name is an overload, so its address is ambiguous."""


def _files(signature: Signature) -> Mapping[str, str]:
    name, rename = signature.name, ""
    if name in C_LIBRARY:
        rename = f"#include <bits/stdc++.h>\n#define {name} agentgym_{name}\n"
        name = f"agentgym_{name}"
    return {
        "main.cpp": f'#include "wire.hpp"\n{rename}#include "solution.cpp"\n'
        f"signed main() {{ return agentgym_wire::serve(&::{name}); }}\n"
    }


CPP = Language(
    title="C++17",
    file="solution.cpp",
    needs=("g++",),
    run="./main",
    stub=_stub,
    harmless="long long same(long long x) { return x; }\n",
    driver=("wire.hpp",),
    files=_files,
    build=("g++", "-O1", "-std=c++17", "-o", "main", "main.cpp"),
)
