"""Read BigCodeBench from a file that the user has; the data is never part of this package.

Source: Zhuo et al. 2024, arXiv:2406.15877.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym import Split, Task, TaskError, TaskSet, load

from .items import LeftOut, read_rows, report_left_out, text_of
from .swebench import COMPILED_MIB, ENVIRONMENT, submit_gold
from .swebench_patches import patch_of

NAME = "code/bigcodebench-v1"
SOLUTION, TESTS = "solution.py", "test_solution.py"
FILES = {"README.md": f"Complete the function in {SOLUTION}.\n"}
"""The same for all tasks, so that they share the sandbox with the packages, to which each task's patch is applied."""
UNWRITTEN = "    raise NotImplementedError\n"
PACKAGES = {
    "Crypto": "pycryptodome",
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "mpl_toolkits": "matplotlib",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""The packages of modules that have another name."""


def load_bigcodebench(path: str | Path, *, split: Split = "held_out", packages: str = "") -> TaskSet:
    """The problems of BigCodeBench as tasks of `agentgym/swe-v1`, held out by default.

    The agent completes the function in solution.py; the published unit tests, which it does not see, judge as those
    of a repository do. Problems whose code or tests import what is not installed are left out, and named.

    Args:
        path: JSON lines, perhaps gzipped, or Parquet; with the columns of the published set or of its repository.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
        packages: what pip installs for all tasks, such as "pandas==2.0.3 matplotlib==3.7.5"; needs a package index
            once. Without it, tasks have Python's standard library.
    Raises: TaskError naming the file, the item and its fault, or a package that cannot be installed.
    """
    path = Path(path)
    given = load("environments", ENVIRONMENT).environment_of("", requirements=packages.split()) if packages else {}
    installed = {re.sub(r"[-_.]+", "-", pin.partition("==")[0]).lower() for pin in given.get("requirements", ())}
    parameters = {**given, **COMPILED_MIB} if packages else {}
    tasks: list[Task] = []
    reasons: dict[str, str] = {}
    for number, row in enumerate(read_rows(path)):
        where = f"{path}, item {number}"
        name = text_of(row, where, "task_id")
        try:
            tasks.append(_task(name, row, where, parameters, installed, split))
        except LeftOut as error:
            reasons[name] = str(error)
    report_left_out(path, reasons, len(tasks))
    return TaskSet(NAME, {split: tasks}, oracle=submit_gold)


def _task(
    name: str, row: Mapping[str, Any], where: str, parameters: Mapping[str, Any], installed: set[str], split: Split
) -> Task:
    """Return the task of a row. Raises: LeftOut; TaskError for a row of another form."""
    prompt, function, tests = (
        text_of(row, where, *names) for names in (("complete_prompt", "prompt"), ("entry_point",), ("test",))
    )
    body = row.get("canonical_solution")
    if not isinstance(body, str) or not body.strip():
        raise TaskError(f"{where}: the field 'canonical_solution' is not text.")
    before, after = prompt + "\n" + UNWRITTEN, prompt + "\n" + body.strip("\n") + "\n"
    source = f"from solution import *\nfrom solution import {function}\n\n{tests}\n"
    missing = _modules(f"{after}\n{tests}") - {*sys.stdlib_module_names}
    if absent := sorted(
        each for each in missing if PACKAGES.get(each, each).replace("_", "-").lower() not in installed
    ):
        raise LeftOut(f"it needs {', '.join(absent)}")
    return Task(
        id=name,
        environment=ENVIRONMENT,
        prompt=f"Complete the function `{function}` in {SOLUTION}, as its docstring says.\n\n{prompt}",
        parameters={"files": FILES, "patch": patch_of(SOLUTION, None, before), **parameters},
        truth={
            "fail_to_pass": _test_ids(source),
            "pass_to_pass": [],
            "tests": [TESTS],
            "test_patch": patch_of(TESTS, None, source),
            "gold": patch_of(SOLUTION, before, after),
        },
        split=split,
        tags=("bigcodebench",),
    )


def _modules(source: str) -> set[str]:
    """Return the modules that code imports, by their first names. Raises: LeftOut if it is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise LeftOut("its code is not Python") from error
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def _test_ids(source: str) -> Sequence[str]:
    """Return pytest's ids of the unit tests. Raises: LeftOut if there are none."""
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    ids = {
        f"{TESTS}::{each.name}::{node.name}": None
        for each in classes
        for node in each.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")
    }
    if not ids:
        raise LeftOut("it has no unit tests")
    return list(ids)
