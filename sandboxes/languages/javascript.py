"""JavaScript on node: every value is sent with its runtime type."""

from __future__ import annotations

from .language import MAX_EXACT, Language, type_writer
from .signature import Signature

_write = type_writer(
    {"int": "number", "float": "number", "bool": "boolean", "string": "string"},
    list_of="Array<{0}>",
    map_of="Map<{0}, {1}>",
    optional_of="{0}|null",
)


def _stub(signature: Signature) -> str:
    documented = "".join(f" * @param {{{_write(kind)}}} {name}\n" for name, kind in signature.arguments)
    names = ", ".join(name for name, _ in signature.arguments)
    return (
        f"/**\n{documented} * @returns {{{_write(signature.returns)}}}\n */\n"
        f"function {signature.name}({names}) {{\n    // ...\n}}\n"
    )


JAVASCRIPT = Language(
    title="JavaScript (node)",
    file="solution.js",
    needs=("node",),
    run="node driver.js {name}",
    stub=_stub,
    harmless="function same(x) { return x; }\n",
    driver=("driver.js",),
    build=("node", "--check", "solution.js"),
    max_int=MAX_EXACT,
)
