"""Java: a static method of the class Solution, found by reflection."""

from __future__ import annotations

from .language import Language, type_writer
from .signature import Signature

_write = type_writer(
    {"int": "long", "float": "double", "bool": "boolean", "string": "String"},
    list_of="List<{0}>",
    map_of="Map<{0}, {1}>",
    optional_of="Optional<{0}>",
    boxed={"int": "Long", "float": "Double", "bool": "Boolean"},
)
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xmx256m")


def _stub(signature: Signature) -> str:
    arguments = ", ".join(f"{_write(kind)} {name}" for name, kind in signature.arguments)
    return (
        "import java.util.*;\n\nclass Solution {\n"
        f"    static {_write(signature.returns)} {signature.name}({arguments}) {{\n        // ...\n    }}\n}}\n"
    )


_COMPILE = ("javac", *(f"-J{option}" for option in _JVM), "-proc:none", "-nowarn")

JAVA = Language(
    title="Java",
    file="Solution.java",
    needs=("javac", "java"),
    run=f"java {' '.join(_JVM)} -Xss32m -cp . AgentgymDriver {{name}}",
    stub=_stub,
    harmless="class Solution { static long same(long x) { return x; } }\n",
    driver=("AgentgymDriver.java",),
    prepare=(*_COMPILE, "AgentgymDriver.java"),
    build=(*_COMPILE, "Solution.java"),
    standard_streams=True,
)
