"""Read HumanEval-X from files that the user has: one file per language, C++, Go, Java, JavaScript or Rust. No data is
shipped.

Source: Zheng et al. 2023, arXiv:2303.17568. Written for the published fields (task_id, prompt, declaration,
canonical_solution, test, example_test); tested on our own rows in this form, because we do not have the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym import Split, TaskError, TaskSet

from .function_rows import FunctionRow, load_rows
from .items import LeftOut

CRATES = {"rand": r"\brand::|\bRng\b", "regex": r"\bRegex\b|\bregex::", "md5": r"\bmd5::"}
"""The crates that the published Rust files import beside Rust's own library, with patterns of their use."""
LANGUAGE_OF_ID = {"CPP": "cpp", "Go": "go", "Java": "java", "JavaScript": "javascript", "Rust": "rust"}
FIELDS = ("task_id", "prompt", "canonical_solution", "test")


def load_humanevalx(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The problems of a HumanEval-X file as tasks of `agentgym/code-function-v1`, held out by default.

    The published test programs are not run, because a submission could stop or patch them. Each of their
    comparisons of a call with a plain value becomes a call of `hidden_calls`. A problem whose test does anything else,
    such as a loop over random inputs, is left out, and a warning names it with the reason. The agent may try the
    comparisons of `example_test`.

    Args:
        path: JSON lines of one language or several, perhaps gzipped. For Python, use the importer humaneval.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
    Raises: TaskError naming the file, the item and its fault.
    """
    return load_rows(Path(path), "code/humanevalx-v1", split, _row)


def _row(item: Mapping[str, Any], where: str) -> FunctionRow:
    for field in FIELDS:
        if not isinstance(item.get(field), str):
            raise TaskError(f"{where}: the field {field!r} is {'not text' if field in item else 'missing'}.")
    prefix, _, number = item["task_id"].partition("/")
    if prefix not in LANGUAGE_OF_ID:
        hint = "; the importer humaneval reads Python" if prefix in ("Python", "HumanEval") else ""
        raise LeftOut(f"{prefix} is not one of the languages {', '.join(LANGUAGE_OF_ID)}{hint}")
    language = LANGUAGE_OF_ID[prefix]
    if language == "rust":
        item = _without_crates(item)
    examples = item.get("example_test")
    return FunctionRow(
        f"humanevalx/{language}/{number}",
        language,
        item["prompt"],
        item["test"],
        examples if isinstance(examples, str) else "",
        item["prompt"] + item["canonical_solution"],
    )


def _without_crates(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row of Rust without the imports of crates, which every published file has and few use.

    Raises: LeftOut if the solution needs a crate, because the judge has only Rust's standard library.
    """
    for crate, use in CRATES.items():
        if re.search(use, item["canonical_solution"]):
            raise LeftOut(f"its solution needs the crate {crate}, but the judge has only Rust's standard library")
    imports = re.compile(rf"^[ \t]*use (?:{'|'.join(CRATES)})\b[^;]*;[ \t]*\n?", re.MULTILINE)
    return {**item, "prompt": imports.sub("", item["prompt"])}
