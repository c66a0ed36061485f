"""Rust: the types in the submission's own declaration determine how arguments are read."""

from __future__ import annotations

from collections.abc import Mapping

from .language import Language, type_writer
from .signature import Signature

_write = type_writer(
    {"int": "i64", "float": "f64", "bool": "bool", "string": "String"},
    list_of="Vec<{0}>",
    map_of="HashMap<{0}, {1}>",
    optional_of="Option<{0}>",
)


def _stub(signature: Signature) -> str:
    arguments = ", ".join(f"{name}: {_write(kind)}" for name, kind in signature.arguments)
    has_map = any(kind.kind == "map" for kind in signature.all_types())
    imports = "use std::collections::HashMap;\n\n" if has_map else ""
    return f"{imports}fn {signature.name}({arguments}) -> {_write(signature.returns)} {{\n    // ...\n}}\n"


def _files(signature: Signature) -> Mapping[str, str]:
    names = [f"argument{n}" for n in range(len(signature.kinds))]
    reads = "".join(f"            let {name} = wire::Value::read(words);\n" for name in names)
    call = f"{signature.name}({', '.join(names)})"
    return {
        "main.rs": 'mod solution {\n    include!("solution.rs");\n    pub fn serve_calls() {\n'
        f"        ::wire::serve(|words| {{\n{reads.replace('wire::', '::wire::')}"
        f"            ::wire::Value::words(&{call})\n        }});\n    }}\n}}\n"
        "fn main() {\n    solution::serve_calls();\n}\n"
    }


_RUSTC = ("rustc", "--edition", "2021", "-C", "opt-level=1", "-A", "warnings")

RUST = Language(
    title="Rust",
    file="solution.rs",
    needs=("rustc", "cc"),
    run="./main",
    stub=_stub,
    harmless="fn same(x: i64) -> i64 { x }\n",
    driver=("wire.rs",),
    prepare=(*_RUSTC, "--crate-type", "rlib", "wire.rs"),
    files=_files,
    build=(*_RUSTC, "-o", "main", "main.rs", "--extern", "wire=libwire.rlib"),
)
