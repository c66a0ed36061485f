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


def _files(signature: Signature) -> Mapping[str, str]:
    return {
        "main.cpp": '#include "wire.hpp"\n#include "solution.cpp"\n'
        f"signed main() {{ return agentgym_wire::serve(&::{signature.name}); }}\n"
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
