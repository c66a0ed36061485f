"""Read the single-turn files of the Berkeley Function-Calling Leaderboard, which the user has.

Source: Patil et al. 2025 (ICML, "The Berkeley Function Calling Leaderboard (BFCL)"), Apache-2.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym import Call, JudgeError, Message, Split, Task, TaskError, TaskSet, load

from .items import field, read_items, report_left_out, text_of
from .written_values import write_value

NAME, ENVIRONMENT, ANSWERS = "calls/bfcl-v1", "agentgym/function-calls-v1", "possible_answer"
LEFT_OUT = ""
"""If this is among the accepted values of an argument, the argument may be left out."""
LISTS = ("array", "tuple", "Array", "ArrayList")
REFUSAL = "None of these functions does that."
SYNTAX = {"java": "Java 8 SDK", "javascript": "JavaScript", "": "Python 3"}
"""Name of a language in the sentence that the published harness appends to a function's description."""
LANGUAGES = {"java": "Java", "javascript": "JavaScript"}
WRITTEN_TYPES = {
    **dict.fromkeys(("byte", "short", "integer", "long", "Bigint"), "integer"),
    **dict.fromkeys(("float", "double"), "float"),
    **dict.fromkeys(("boolean", "Boolean"), "boolean"),
    **dict.fromkeys(("Array", "ArrayList", "array"), "array"),
    **dict.fromkeys(("HashMap", "dict"), "dict"),
    **dict.fromkeys(("String", "char"), "string"),
    "any": "any",
}
"""Types of Java and JavaScript in the reward's words."""
SCHEMA_TYPES = {
    "integer": "integer",
    "float": "number",
    "number": "number",
    "boolean": "boolean",
    "array": "array",
    "tuple": "array",
    "dict": "object",
    "object": "object",
}
"""JSON Schema's name of each type of BFCL; all other types are `string`, as published."""
_COPIED = ("description", "enum", "default", "minimum", "maximum", "minItems", "maxItems")


def load_bfcl(path: str | Path, *, split: Split = "held_out", answers: str | Path | None = None) -> TaskSet:
    """The items of a file, or of all files of a folder, as tasks of `agentgym/function-calls-v1`.

    The categories `simple`, `multiple`, `parallel`, `parallel_multiple`, `irrelevance`, `relevance` and their `live_`
    forms are read. In `simple_java` and `simple_javascript` all arguments are texts in that language. An item's id
    names its category. Items of other categories (multi-turn) are left out, and a LeftOutWarning names them. Dots in
    names of functions become `_`, because most call formats allow no dots.

    Args:
        path: a file of JSON lines such as `BFCL_v4_multiple.json`, or the folder with these files.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
        answers: the folder of the accepted calls, in files named as the files of questions; by default
            `possible_answer` beside the file. Items for which no call is right have no accepted calls.
    Raises: TaskError naming the file, the item and its fault, or saying that no item can be read.
    """
    path = Path(path)
    files = sorted(path.glob("BFCL_*.json")) if path.is_dir() else [path]
    if not files:
        raise TaskError(
            f"The folder {path} contains no BFCL_*.json. Give the folder of the questions, or one of its files."
        )
    tasks: list[Task] = []
    left_out: dict[str, str] = {}
    for file in files:
        if path.is_dir() and (reason := _why_not(file.stem)):
            left_out[file.name] = reason
            continue
        folder = Path(answers) if answers is not None else file.parent / ANSWERS
        accepted: Mapping[str, Any] | None = None
        for number, item in enumerate(read_items(file)):
            where = f"{file}, item {number}"
            name = text_of(item, where, "id")
            category = name.rpartition("_")[0]
            if reason := _why_not(category):
                left_out[name] = reason
                continue
            if "relevance" not in category and accepted is None:
                accepted = accepted_of(folder / file.name)
            task = _task(item, where, name, category, accepted or {}, split)
            if _can_be_solved(task, where):
                tasks.append(task)
            else:
                left_out[name] = "no call fits what is accepted"
    report_left_out(path, left_out, len(tasks))
    return TaskSet(NAME, {split: tasks}, oracle=oracle)


def oracle(task: Task) -> list[Message]:
    """Call with the first accepted value of every required argument; answer in words if no call is right."""
    truth = task.truth
    if truth["kind"] == "no_call":
        return [Message("assistant", REFUSAL)]
    if truth["kind"] == "some_call":
        calls = [Call(task.parameters["tools"][0]["function"]["name"], {}, "call_0")]
    else:
        rows = enumerate(truth["calls"])
        calls = [Call(row["name"], _gold(row), f"call_{number}") for number, row in rows]
    return [Message("assistant", "", tuple(calls))]


def _can_be_solved(task: Task, where: str) -> bool:
    """Return whether an agent can make the published calls: a few have unknown arguments, or arguments without any
    accepted value.

    Raises: TaskError if the reward cannot read the accepted calls.
    """
    if task.truth["kind"] != "calls":
        return True
    try:
        return bool(load("rewards", "bfcl").accepts(task, oracle(task)[0].calls))
    except JudgeError as error:
        raise TaskError(f"{where}: {error}") from error


def _why_not(category: str) -> str:
    """Return why a category cannot be read; empty if it can."""
    kinds = ("simple", "multiple", "parallel", "irrelevance", "relevance")
    if "multi_turn" in category or not any(kind in category for kind in kinds):
        return f"the category {category!r} is not of one turn"
    return ""


def accepted_of(file: Path) -> dict[str, Any]:
    """Return the accepted calls by item id."""
    if not file.is_file():
        raise TaskError(f"The file of accepted calls, {file}, does not exist. Give its folder as the option answers.")
    rows = {}
    for number, row in enumerate(read_items(file)):
        rows[text_of(row, f"{file}, item {number}", "id")] = field(row, f"{file}, item {number}", "ground_truth")
    return rows


def _task(
    item: Mapping[str, Any], where: str, name: str, category: str, accepted: Mapping[str, Any], split: Split
) -> Task:
    functions = item.get("function")
    if not isinstance(functions, list):
        raise TaskError(f"{where}: the field function must be a list.")
    language = next((each for each in ("javascript", "java") if each in category), "")
    try:
        if "relevance" in category:
            truth: dict[str, Any] = {"kind": "no_call" if "irrelevance" in category else "some_call"}
        elif name not in accepted:
            raise TaskError(f"{where}: {ANSWERS} has no row with the id {name!r}.")
        else:
            truth = {"kind": "calls", "calls": [_call(row, functions, language) for row in accepted[name]]}
        tools = [{"type": "function", "function": function_of(function, language)} for function in functions]
        turns = item["question"]
        messages = tuple(Message(each["role"], each["content"]) for each in turns[0])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, TaskError):
            raise
        raise TaskError(f"{where}: this is not an item of BFCL: {error!r:.200}.") from error
    if len(turns) != 1:
        raise TaskError(f"{where}: the question has {len(turns)} turns, but a question of {category} has one.")
    alone = len(messages) == 1 and messages[0].role == "user"
    return Task(
        id=name,
        environment=ENVIRONMENT,
        prompt=messages[0].text if alone else "",
        messages=() if alone else messages,
        parameters={"tools": tools},
        truth=truth,
        split=split,
        tags=(category,),
    )


def _name(published: str) -> str:
    return published.replace(".", "_")


def _call(row: Mapping[str, Any], functions: list[Any], language: str) -> dict[str, Any]:
    """Return an accepted call with its function's declared types, in the form of the reward `bfcl`."""
    ((name, accepted),) = row.items()
    parameters = next((each["parameters"] for each in functions if each["name"] == name), None)
    if parameters is None:
        raise ValueError(f"no function {name!r} is declared")
    types = {key: [value["type"], _items(value)] for key, value in parameters["properties"].items()}
    written = {}
    if language:
        written = {"language": language, "written": types}
        types = {
            key: [WRITTEN_TYPES[kind], None if items is None else WRITTEN_TYPES[items]]
            for key, (kind, items) in types.items()
        }
    for argument, values in accepted.items():
        if not isinstance(values, list):
            raise ValueError(f"the accepted values of {argument} must be a list")
    call = {"name": _name(name), "required": parameters["required"], "types": types, "accepted": accepted}
    return call | written


def _items(schema: Mapping[str, Any]) -> str | None:
    kind: str | None = schema["items"]["type"] if schema["type"] in LISTS else None
    return kind


def function_of(given: Mapping[str, Any], language: str = "") -> dict[str, Any]:
    """Return a function in JSON Schema, as shown to an agent. `language`: that of its arguments, if they are texts."""
    description = f"{given['description']} Note that the provided function is in {SYNTAX[language]} syntax."
    parameters = given["parameters"]
    if language:
        properties = {name: _written(value, language) for name, value in parameters["properties"].items()}
        parameters = {**parameters, "properties": properties}
    return {"name": _name(given["name"]), "description": description, "parameters": _schema(parameters)}


def _written(given: Mapping[str, Any], language: str) -> dict[str, Any]:
    """Return an argument that is a text in a language; its description says the type, in the published words."""
    kind, name = given["type"], LANGUAGES[language]
    note = f"This is {name} {kind} type parameter in string representation."
    if kind == "any":
        note = f"This parameter can be of any type of {name} object in string representation."
    if kind in LISTS:
        note += f" The list elements are of type {given['items']['type']}; they are not in string representation."
    if kind == "dict" and "properties" in given:
        note += " The dictionary entries have the following schema; they are not in string representation. "
        note += json.dumps(given["properties"])
    return {"type": "string", "description": f"{given['description']} {note}"}


def _schema(given: Mapping[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": SCHEMA_TYPES.get(given.get("type", ""), "string")}
    schema |= {key: given[key] for key in _COPIED if key in given}
    if schema["type"] == "object" and isinstance(given.get("properties"), dict):
        schema["properties"] = {name: _schema(value) for name, value in given["properties"].items()}
        if isinstance(given.get("required"), list):
            schema["required"] = given["required"]
    if schema["type"] == "array" and isinstance(given.get("items"), dict):
        schema["items"] = _schema(given["items"])
    return schema


def _gold(row: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {}
    for name, accepted in row["accepted"].items():
        if LEFT_OUT not in accepted or name in row["required"]:
            kind, items = row["types"].get(name, ("any", None))
            value = next((each for each in accepted if each != LEFT_OUT), LEFT_OUT)
            if kind == "dict":
                value = _gold_dict(value)
            elif items == "dict" and isinstance(value, list):
                value = [_gold_dict(each) for each in value]
            arguments[name] = value
    if language := row.get("language"):
        types = {name: (kind, items) for name, (kind, items) in row["written"].items()}
        return {name: write_value(value, *types[name], language) for name, value in arguments.items()}
    return arguments


def _gold_dict(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: accepted[0] for key, accepted in value.items() if LEFT_OUT not in accepted}
