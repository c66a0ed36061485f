"""Go: a function of the package main; its declaration determines how arguments are read."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .language import Language, type_writer
from .signature import Signature

_write = type_writer(
    {"int": "int", "float": "float64", "bool": "bool", "string": "string"},
    list_of="[]{0}",
    map_of="map[{0}]{1}",
    optional_of="*{0}",
)
_BUILD = "GOCACHE=/work/.cache GOPATH=/work/.go GO111MODULE=off CGO_ENABLED=0 GOFLAGS=-buildvcs=false"

_PACKAGES = "bytes container/heap errors fmt math/bits math/cmplx regexp strconv strings unicode"


def _stub(signature: Signature) -> str:
    arguments = ", ".join(f"{name} {_write(kind)}" for name, kind in signature.arguments)
    return f"package main\n\nfunc {signature.name}({arguments}) {_write(signature.returns)} {{\n\t// ...\n}}\n"


def _packaged(code: str) -> str:
    return code if re.search(r"^package\s+main\b", code, re.MULTILINE) else f"package main\n\n{code}"


def _files(signature: Signature) -> Mapping[str, str]:
    return {"main.go": f"package main\n\nfunc main() {{ judgeServe({signature.name}) }}\n"}


GO = Language(
    title="Go",
    file="solution.go",
    needs=("go",),
    run="./main",
    stub=_stub,
    harmless="package main\n\nfunc same(x int) int { return x }\n",
    driver=("wire.go",),
    prepare=("sh", "-c", f"{_BUILD} go build bufio encoding/hex reflect sort {_PACKAGES}"),
    files=_files,
    build=("sh", "-c", f"{_BUILD} go build -o main solution.go main.go wire.go"),
    packaged=_packaged,
)
