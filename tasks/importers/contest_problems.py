"""Problems of programming contests as tasks: programs that read and print, and functions that are called.

A program becomes a task of `agentgym/code-program-v1`, a function one of `agentgym/code-v1`. Both are in Python.
"""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym import Split, Task, TaskError, TaskSet

from .humaneval import submit_reference
from .items import LeftOut, report_left_out

MAX_TESTS, MAX_OUTPUT, MAX_CALLS = 64_000_000, 1_000_000, 4_000_000
"""Characters of all tests of a problem, of one output, and of all calls of a function."""
MAX_FUNCTION_S = 60
PROGRAM = {"file": "main.py", "run": ["python3", "main.py"]}
MODULES = "typing string bisect collections functools heapq itertools math"
SETUP = (
    "".join(f"from {name} import *\n" for name in MODULES.split())
    + "from builtins import *\nimport "
    + (", ".join([*MODULES.split(), "copy", "datetime", "fractions", "json", "operator", "random", "re", "sys"]) + "\n")
)
"""What the published harnesses import before a function; solutions rely on it."""
SEVERAL = re.compile(
    r"\b(if|when|in case)\b[^.]{0,60}\b(multiple|several|many|more than one|various|different)\b(?! as)[^.]{0,80}"
    r"(\.\s*|,\s*|\s)(you (can|may|should) )?(then )?"
    r"(print|output|find|return|choose|give|report|you|any|it is allowed)"
    r"|\b(print|output|return|report)(s|ed|ing)? any\b(?! of the following)"
    r"|\bany (of (them|these|those)\b|(other )?(valid|correct|suitable|acceptable|optimal|possible|such) "
    r"(answer|solution|output|one|way|order|sequence|array|string|permutation))"
    r"|\b(print|output|return|answer)(s|ed)?\b[^.]{0,80}\bin (any|arbitrary) order"
    r"|(answers?|solutions?) (is|are) not unique",
    re.IGNORECASE,
)
"""How statements say that several outputs are right. Of 1,000 test problems of TACO, whose authors say which need a
checker, it finds 113 of 137, and 30 of the others."""
ANY_CASE = re.compile(
    r"\b(any|either|each|every) (letter )?case\b|\bin (any|arbitrary) (lower|upper|register)"
    r"|(upper|lower)([- ]?case)? or (upper|lower)|case[- ]insensitive",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ContestProblem:
    """A problem of a contest.

    Attributes:
        statement: the text of the problem.
        tests: pairs of input and output, which judge: texts or, for a function, arguments and the right values, one of
            which must be returned.
        examples: pairs of the same form that the agent may try.
        limit_s: processor seconds of a test. tolerance: of numbers that a program prints.
        function: the name of the function; empty for a program. starter: the code to begin with.
        solutions: right programs, the first of which in today's Python is the reference.
        ignore_case: whether the words of an output are compared without regard to case.
    """

    statement: str
    tests: Sequence[tuple[Any, Any]]
    limit_s: float
    tolerance: float
    examples: Sequence[tuple[Any, Any]] = ()
    function: str = ""
    starter: str = ""
    solutions: Sequence[str] = ()
    ignore_case: bool = False
    tags: tuple[str, ...] = ()


def load_problems(
    path: Path,
    name: str,
    split: Split,
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    read: Callable[[Mapping[str, Any]], ContestProblem],
) -> TaskSet:
    """Return a task for each row, given with its id. A LeftOutWarning names the other rows with reasons.

    Args:
        read: returns a row's problem. Raises LeftOut; a missing field or a value of another kind leaves it out, too.
    Raises: TaskError if no row becomes a task.
    """
    tasks: list[Task] = []
    reasons: dict[str, str] = {}
    for row_id, row in rows:
        try:
            tasks.append(_task(f"{name.partition('/')[2].rpartition('-')[0]}/{row_id}", read(row), split))
        except LeftOut as error:
            reasons[row_id] = str(error)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
            reasons[row_id] = f"it is not in the published form: {type(error).__name__}: {error}"[:300]
    report_left_out(path, reasons, len(tasks), stacklevel=4)
    solved = all(task.truth["reference"] for task in tasks)
    return TaskSet(name, {split: tasks}, oracle=submit_reference if solved else _submit_if_known)


def pairs(inputs: Any, outputs: Any) -> list[tuple[Any, Any]]:
    """Return inputs with their outputs; a text may be given as a list of its lines. Raises: LeftOut."""
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise LeftOut("it does not have one output for each input")
    return list(zip(inputs, outputs, strict=True))


def _submit_if_known(task: Task) -> Any:
    if not task.truth["reference"]:
        raise TaskError(f"{task.id}: the file has no solution of it")
    return submit_reference(task)


def _task(task_id: str, problem: ContestProblem, split: Split) -> Task:
    """Return a problem's task. Raises: LeftOut."""
    if not problem.statement.strip():
        raise LeftOut("it has no statement")
    if not problem.tests:
        raise LeftOut("it has no tests")
    if SEVERAL.search(problem.statement):
        raise LeftOut("several outputs are right, and the file has no checker")
    reference = next((code for code in problem.solutions if _is_python(code)), "")
    if problem.solutions and not reference:
        raise LeftOut("none of its solutions is in Python 3")
    make = _function if problem.function else _program
    environment, prompt, parameters, truth = make(problem)
    return Task(
        id=task_id,
        environment=environment,
        prompt=prompt,
        parameters=parameters,
        truth={**truth, "reference": reference},
        split=split,
        tags=(task_id.partition("/")[0], *problem.tags),
    )


def _program(problem: ContestProblem) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    runs, examples = (
        [{"stdin": _text(stdin), "stdout": _text(stdout)} for stdin, stdout in tests]
        for tests in (problem.tests, problem.examples)
    )
    if any(len(run["stdout"]) > MAX_OUTPUT for run in runs):
        raise LeftOut(f"an output has more than {MAX_OUTPUT:,} characters")
    if sum(len(run["stdin"]) + len(run["stdout"]) for run in runs) > MAX_TESTS:
        raise LeftOut(f"its tests have more than {MAX_TESTS:,} characters")
    prompt = f"Write a Python program that reads standard input and prints the answer.\n\n{problem.statement.strip()}"
    truth = {
        "runs": runs,
        "cpu_s": math.ceil(problem.limit_s),
        "tolerance": problem.tolerance,
        "ignore_case": problem.ignore_case or bool(ANY_CASE.search(problem.statement)),
    }
    return "agentgym/code-program-v1", prompt, {"program": PROGRAM, "examples": examples}, truth


def _function(problem: ContestProblem) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """Return the parts of a task in which tuples count as lists, as the published harnesses have it."""
    if not problem.function.isidentifier():
        raise LeftOut("the name of its function is not one of Python")
    method = re.search(r"^class Solution\b", problem.starter or "".join(problem.solutions[:1]), re.MULTILINE)
    function = f"Solution().{problem.function}" if method else problem.function
    tests, examples = (
        [
            f"assert (list(r) if isinstance((r := {function}({', '.join(map(repr, arguments))})), tuple) else r)"
            + (f" == {values[0]!r}" if len(values) == 1 else f" in {tuple(values)!r}")
            for arguments, values in cases
        ]
        for cases in (problem.tests, problem.examples)
    )
    if sum(map(len, tests)) > MAX_CALLS:
        raise LeftOut(f"its calls have more than {MAX_CALLS:,} characters")
    prompt = f"Write this in Python, and submit all of it:\n{problem.starter.strip() or f'def {problem.function}'}\n\n"
    cpu_s = min(math.ceil(problem.limit_s * len(tests)), MAX_FUNCTION_S)
    truth = {"tests": tests, "setup": SETUP, "cpu_s": cpu_s}
    return "agentgym/code-v1", prompt + problem.statement.strip(), {"tests": examples, "setup": SETUP}, truth


def _text(value: Any) -> str:
    """Return a test's text. Raises: LeftOut for any other value."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        value = "\n".join(value)
    if not isinstance(value, str):
        raise LeftOut("a test's input or output is not text")
    return value


def _is_python(code: Any) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return isinstance(code, str) and bool(ast.parse(code).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def read_json(text: Any) -> Any:
    """Return the value of a column with JSON as text; an empty column is None. Raises: LeftOut."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text) if text.strip() else None
    except (ValueError, RecursionError) as error:
        raise LeftOut(f"a column is not JSON: {error}"[:200]) from error
