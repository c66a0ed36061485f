"""Read MultiPL-E (HumanEval and MBPP in other languages) from files that the user has. No data is shipped.

Source: Cassano et al. 2023, arXiv:2208.08227. Written for the published fields (name, language, prompt, tests; the
others are not needed); tested on our own rows in this form, because we do not have the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym import Split, TaskError, TaskSet

from .function_rows import FunctionRow, load_rows
from .items import LeftOut

LANGUAGE_OF_CODE = {
    "cpp": "cpp",
    "go": "go",
    "go_test.go": "go",
    "java": "java",
    "js": "javascript",
    "rs": "rust",
}
_GO_PACKAGE = re.compile(r"\A\s*package\s+\w+\s*(?:import\s*(?:\([^)]*\)|\"[^\"]*\")\s*)?")
"""The package of the published test, and its imports, which no submission needs."""


def load_multiple(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The problems of a MultiPL-E file in C++, Go, Java, JavaScript or Rust as tasks of `agentgym/code-function-v1`.

    The published test programs are not run, because a submission could stop or patch them. Each of their
    comparisons of a call with a plain value becomes a call of `hidden_calls`. A problem with types that have no
    counterpart here, such as tuples, is left out, and a warning names it with the reason. MultiPL-E has no solutions,
    so the set has no oracle.

    Args:
        path: JSON lines of one language or several, perhaps gzipped.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
    Raises: TaskError naming the file, the item and its fault; also if no row is in one of these languages.
    """
    return load_rows(Path(path), "code/multiple-v1", split, _row)


def _row(item: Mapping[str, Any], where: str) -> FunctionRow:
    for field in ("name", "language", "prompt", "tests"):
        if not isinstance(item.get(field), str):
            raise TaskError(f"{where}: the field {field!r} is {'not text' if field in item else 'missing'}.")
    code = item["language"]
    if code not in LANGUAGE_OF_CODE:
        raise LeftOut(f"{code} is not one of the languages {', '.join(LANGUAGE_OF_CODE)}")
    language = LANGUAGE_OF_CODE[code]
    prompt = item["prompt"]
    if language == "go":
        prompt = _GO_PACKAGE.sub("package main\n\n", prompt)
    if language == "java":  # use the class our driver expects; drop a library of the published tests
        prompt = re.sub(r"import org\.javatuples\.\*;\s*", "", prompt)
        prompt = re.sub(r"\bclass\s+Problem\b", "class Solution", prompt)
    return FunctionRow(f"multiple/{language}/{item['name']}", language, prompt, item["tests"])
