"""C: lists, maps and optional values are structures that the submission declares as in its stub."""

from __future__ import annotations

from collections.abc import Mapping

from .language import Language
from .signature import Signature
from .value_types import ValueType

_SCALARS = {"int": "int64_t", "float": "double", "bool": "bool", "string": "char *"}
_FIELDS = {
    "list": "{0}*items; size_t length;",
    "map": "{0}*keys; {1}*values; size_t length;",
    "optional": "bool present; {0}value;",
}
_READ = {
    "list": """result.length = wire_read_count('l');
    result.items = wire_memory(result.length * sizeof *result.items);
    for (size_t i = 0; i < result.length; i++) result.items[i] = wire_read_{0}();""",
    "map": """result.length = wire_read_count('m');
    result.keys = wire_memory(result.length * sizeof *result.keys);
    result.values = wire_memory(result.length * sizeof *result.values);
    for (size_t i = 0; i < result.length; i++) {{
        result.keys[i] = wire_read_{0}();
        result.values[i] = wire_read_{1}();
    }}""",
    "optional": """result.present = !wire_read_null();
    if (result.present) result.value = wire_read_{0}();""",
}
_WRITE = {
    "list": """wire_write_count('l', value.length);
    for (size_t i = 0; i < value.length; i++) wire_write_{0}(value.items[i]);""",
    "map": """wire_write_count('m', value.length);
    for (size_t i = 0; i < value.length; i++) {{
        wire_write_{0}(value.keys[i]);
        wire_write_{1}(value.values[i]);
    }}""",
    "optional": """if (value.present) wire_write_{0}(value.value); else wire_write_null();""",
}


def _label(kind: ValueType) -> str:
    """Return a name for a type, such as list_list_int."""
    return "_".join((kind.kind, *map(_label, kind.inner)))


def _spelled(kind: ValueType) -> str:
    """Return the type as it stands before a name in a declaration: followed by a space, unless it ends with a star."""
    spelling = _SCALARS.get(kind.kind, _label(kind))
    return spelling if spelling.endswith("*") else f"{spelling} "


def _declarations(signature: Signature) -> str:
    return "".join(
        f"typedef struct {{ {_FIELDS[kind.kind].format(*map(_spelled, kind.inner))} }} {_label(kind)};\n"
        for kind in signature.all_types()
        if kind.inner
    )


def _prototype(signature: Signature) -> str:
    arguments = ", ".join(f"{_spelled(kind)}{name}" for name, kind in signature.arguments) or "void"
    return f"{_spelled(signature.returns)}{signature.name}({arguments})"


def _types(signature: Signature) -> str:
    return f"#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\n{_declarations(signature)}"


def _stub(signature: Signature) -> str:
    return f"{_types(signature)}\n{_prototype(signature)} {{\n    // ...\n}}\n"


def _files(signature: Signature) -> Mapping[str, str]:
    codecs = "".join(
        f"static {_spelled(kind)}wire_read_{_label(kind)}(void) {{\n    {_label(kind)} result = {{0}};\n"
        f"    {_READ[kind.kind].format(*map(_label, kind.inner))}\n    return result;\n}}\n"
        f"static void wire_write_{_label(kind)}({_spelled(kind)}value) {{\n"
        f"    {_WRITE[kind.kind].format(*map(_label, kind.inner))}\n}}\n"
        for kind in signature.all_types()
        if kind.inner
    )
    reads = "".join(
        f"        {_spelled(kind)}argument{n} = wire_read_{_label(kind)}();\n" for n, kind in enumerate(signature.kinds)
    )
    call = f"{signature.name}({', '.join(f'argument{n}' for n in range(len(signature.kinds)))})"
    main = (
        f'#include "wire.h"\n{_types(signature)}{codecs}{_prototype(signature)};\n'
        f"int main(void) {{\n    while (wire_next()) {{\n{reads}"
        f"        {_spelled(signature.returns)}result = {call};\n        wire_begin();\n"
        f"        wire_write_{_label(signature.returns)}(result);\n        wire_send();\n    }}\n    return 0;\n}}\n"
    )
    return {"main.c": main}


C = Language(
    title="C",
    file="solution.c",
    needs=("gcc",),
    run="./main",
    stub=_stub,
    harmless="#include <stdint.h>\nint64_t same(int64_t x) { return x; }\n",
    driver=("wire.h", "wire.c"),
    prepare=("gcc", "-O1", "-std=gnu17", "-c", "wire.c"),
    files=_files,
    build=("gcc", "-O1", "-std=gnu17", "-o", "main", "solution.c", "main.c", "wire.o", "-lm"),
)
