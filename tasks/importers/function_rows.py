"""Tasks of `agentgym/code-function-v1` from rows with a declaration and a test program in one language."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym import Call, Message, Split, Task, TaskSet
from agentgym.sandboxes.languages import LANGUAGES, FunctionTask, Signature

from .assertions import Assertion, assertions_of
from .declarations import NoDeclaration, declared, has_short_floats, kinds_of_values
from .items import LeftOut, read_items, report_left_out
from .literals import NoLiteral

EXACT, SHORT_FLOATS = 1e-9, 1e-6


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """Contents of a row.

    Attributes:
        id: the task's id. language: a name of `agentgym.sandboxes.languages.LANGUAGES`.
        prompt: comment and declaration, up to the beginning of the body.
        test: the program that checks the function; `example_test`: a program that the agent may see.
        reference: a right solution, if the data set has one.
    """

    id: str
    language: str
    prompt: str
    test: str
    example_test: str = ""
    reference: str = ""


def load_rows(path: Path, name: str, split: Split, read: Callable[[Mapping[str, Any], str], FunctionRow]) -> TaskSet:
    """Return a task for each row whose test can be turned into calls. A warning lists the other rows with reasons.

    Args:
        read: called with a row and its location. Raises LeftOut, or TaskError for a row that is not from this data set.
    Raises: TaskError, also if no row becomes a task.
    """
    tasks: list[Task] = []
    reasons: dict[str, str] = {}
    for number, item in enumerate(read_items(path)):
        where = f"item {number}"
        try:
            row = read(item, f"{path}, {where}")
            where = f"{where} ({row.id})"
            tasks.append(_task(row, name, split))
        except (LeftOut, NoLiteral, NoDeclaration) as error:
            reasons[where] = str(error)
    report_left_out(path, reasons, len(tasks), stacklevel=4)
    return TaskSet(name, {split: tasks}, answer=_answer if all(task.truth["reference"] for task in tasks) else None)


def _task(row: FunctionRow, name: str, split: Split) -> Task:
    """Make a task of a row. Raises: LeftOut, NoLiteral or NoDeclaration saying why the row cannot be a task."""
    function, names, kinds = declared(row.language, row.prompt)
    hidden = assertions_of(row.language, row.test, function)
    examples = _examples(row, function)
    if kinds is None:
        kinds = kinds_of_values([[*each.arguments, each.value] for each in (*hidden, *examples)])
    if any(len(each.arguments) != len(names) for each in (*hidden, *examples)) or len(kinds) != len(names) + 1:
        raise LeftOut(f"its calls do not have the {len(names)} arguments that it declares")
    if row.language == "javascript" and any("map[" in kind for kind in kinds[:-1]):
        raise LeftOut("it takes objects, but the judge passes Maps")
    parameters: dict[str, Any] = {
        "function": {
            "name": function,
            "arguments": [[_name(name, n), kind] for n, (name, kind) in enumerate(zip(names, kinds, strict=False))],
            "returns": kinds[-1],
        },
        "languages": [row.language],
        "declared": True,
        "examples": _calls(examples),
    }
    tolerance = _tolerance(row, hidden)
    calls = _calls(hidden, tolerance)
    try:
        task = FunctionTask.of(parameters)
        for cases in (calls, parameters["examples"]):
            task.cases(cases)
    except ValueError as error:
        raise LeftOut(re.sub(r"^call \d+: ", "", str(error))) from None
    title = LANGUAGES[row.language].title
    return Task(
        id=row.id,
        environment="agentgym/code-function-v1",
        prompt=f"Complete this function in {title} and submit all of the file:\n{row.prompt.strip()}",
        parameters=parameters,
        truth={"calls": calls, "tolerance": tolerance, "reference": row.reference},
        split=split,
        tags=(name.partition("/")[2].rpartition("-")[0], row.language),
    )


def _examples(row: FunctionRow, function: str) -> list[Assertion]:
    """Return the examples that can be converted. All others are omitted, which does no harm: examples do not judge."""
    try:
        return assertions_of(row.language, row.example_test, function)
    except NoLiteral:
        return []


def _calls(assertions: Sequence[Assertion], tolerance: float = math.inf) -> list[dict[str, Any]]:
    """Return the calls of a task. A call whose test allows more than the task's `tolerance` states its own."""
    calls = [{"arguments": _plain(each.arguments), "value": _plain(each.value)} for each in assertions]
    for call, each in zip(calls, assertions, strict=True):
        if (own := _allowed(each)) > tolerance:
            call["tolerance"] = own
    return calls


def _plain(value: Any) -> Any:
    """Return a value in JSON-compatible form: a map with numeric keys becomes a list of pairs."""
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(item) for key, item in value.items()}
        return [[key, _plain(item)] for key, item in value.items()]
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _tolerance(row: FunctionRow, assertions: list[Assertion]) -> float:
    """Return the relative tolerance of the task: the largest that all tests allow, at least EXACT (32-bit floats:
    SHORT_FLOATS).
    """
    allowed = [_allowed(each) for each in assertions if isinstance(each.value, int | float)]
    return max(SHORT_FLOATS if has_short_floats(row.prompt) else EXACT, min(allowed, default=0.0))


def _allowed(assertion: Assertion) -> float:
    """Return the relative tolerance of one comparison, never more than the test allows."""
    value = assertion.value
    return assertion.tolerance / max(1.0, abs(value)) if isinstance(value, int | float) else 0.0


def _name(name: str, number: int) -> str:
    """Return an argument's name, or another name if a language reserves it: arguments are passed by position."""
    try:
        return str(Signature.of({"name": name, "arguments": [], "returns": "int"}).name)
    except ValueError:
        return f"argument{number}"


def _answer(task: Task) -> Message:
    return Message("assistant", "", (Call("submit", {"code": task.truth["reference"]}),))
