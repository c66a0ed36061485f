"""Read the multi-turn files of the Berkeley Function-Calling Leaderboard, with the functions of its package.

Source: Patil et al. 2025 (ICML, "The Berkeley Function Calling Leaderboard (BFCL)"), Apache-2.0.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym import Call, Message, Split, Task, TaskError, TaskSet, Tool, load
from agentgym.tools import WrongArguments

from .bfcl import ANSWERS, accepted_of, function_of
from .items import read_items, report_left_out, text_of

NAME, ENVIRONMENT = "calls/bfcl-turns-v1", "agentgym/function-turns-v1"
PACKAGE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
SOURCE, DOCS = "../eval_checker/multi_turn_eval/func_source_code", "multi_turn_func_doc"
MODULES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""For each class of the package, the module that has it, which is also the name of the file that describes its
functions.
"""
PublishedCall = tuple[str, list[Any], dict[str, Any]]
"""A call: its name, positional arguments, and arguments by name."""
MAX_STEPS = 20
"""The number of messages with calls that the leaderboard allows in a turn."""
DONE, MISSING = "Done.", "is not installed in the sandbox"


def load_bfcl_turns(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The items of `BFCL_*_multi_turn_*.json` as tasks of `agentgym/function-turns-v1`.

    The published calls are made once, in a process of this host, to find the required state and results of each turn.
    Items whose calls need a package that sandboxes lack are left out, and a LeftOutWarning names them.

    Args:
        path: such a file, or its folder, `bfcl_eval/data` of the package `bfcl-eval`. The package must be complete: the
            accepted calls, the descriptions of the functions and their source are read too.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
    Raises: TaskError naming the file, the item and its fault, or saying that no item can be read.
    """
    path = Path(path).absolute()
    paths = sorted(path.glob("BFCL_*_multi_turn_*.json")) if path.is_dir() else [path]
    if not paths:
        raise TaskError(
            f"The folder {path} contains no BFCL_*_multi_turn_*.json. Give bfcl_eval/data, or one of its files."
        )
    source = (paths[0].parent / SOURCE).resolve()
    if not source.is_dir():
        raise TaskError(
            f"The folder {source}, which should contain the functions, does not exist. Give a file inside the package "
            "bfcl-eval."
        )
    tasks: list[Task] = []
    left_out: dict[str, str] = {}
    with load("environments", ENVIRONMENT).local_functions() as player:
        for file in paths:
            accepted = accepted_of(file.parent / ANSWERS / file.name)
            for number, item in enumerate(read_items(file)):
                where = f"{file}, item {number}"
                name = text_of(item, where, "id")
                if name not in accepted:
                    raise TaskError(f"{where}: {ANSWERS} has no row with the id {name!r}.")
                try:
                    task = _task(item, name, accepted[name], source, file.parent / DOCS, player, split)
                except (KeyError, TypeError, ValueError, AttributeError, IndexError, SyntaxError) as error:
                    if isinstance(error, TaskError):
                        raise
                    raise TaskError(
                        f"{where}: this is not an item of BFCL with several turns: {error!r:.200}."
                    ) from error
                if isinstance(task, Task):
                    tasks.append(task)
                else:
                    left_out[name] = task
    report_left_out(path, left_out, len(tasks))
    return TaskSet(NAME, {split: tasks}, oracle=oracle)


def oracle(task: Task) -> list[Message]:
    """Return the published calls, one per message if there are not too many, and a message at the end of each turn."""
    messages: list[Message] = []
    for calls in json.loads(task.truth["calls"]):
        size = max(-(-len(calls) // MAX_STEPS), 1)
        for first in range(0, len(calls), size):
            some = enumerate(calls[first : first + size])
            own = tuple(Call(name, arguments, f"call_{len(messages)}_{n}") for n, (name, arguments) in some)
            messages.append(Message("assistant", "", own))
        messages.append(Message("assistant", DONE))
    return messages


def _task(
    item: Mapping[str, Any], name: str, accepted: Sequence[Any], source: Path, docs: Path, player: Any, split: Split
) -> Task | str:
    """Return the task of an item, or the reason for leaving it out."""
    category = name.rpartition("_")[0]
    tools = {tool["name"]: tool for kind in item["involved_classes"] for tool in _described(docs, kind)}
    added = {turn: [tools.pop(each) for each in names] for turn, names in item.get("missed_function", {}).items()}
    texts = [[message["content"] for message in turn] for turn in item["question"]]
    if len(texts) != len(accepted) or not texts[0] or any(len(turn) > 1 for turn in texts):
        raise ValueError(f"the user has {len(texts)} turns, but there are calls for {len(accepted)}")
    parameters: dict[str, Any] = {
        "source": str(source),
        "package": PACKAGE,
        "classes": {kind: f"{PACKAGE}.{MODULES[kind]}" for kind in item["involved_classes"]},
        "config": item["initial_config"],
        "long_context": "long_context" in category,
        "tools": list(tools.values()),
        "turns": ["".join(turn) for turn in texts[1:]],
        "added": added,
    }
    known = tools | {tool["name"]: tool for each in added.values() for tool in each}
    calls: list[list[PublishedCall]] = [[_parsed(text) for text in turn] for turn in accepted]
    outcomes = player.play(parameters, calls)
    if any(MISSING in result for turn in outcomes for result in turn["texts"]):
        return f"a published call needs a package that {MISSING}"
    named = [[(call[0], _by_name(known, *call)) for call in turn] for turn in calls]
    if not all(_is_valid(known[function], arguments) for turn in named for function, arguments in turn):
        return "a published call has arguments of other types than its function declares"
    turns = [{"state": turn["state"], "results": turn["results"]} for turn in outcomes]
    return Task(
        id=name,
        environment=ENVIRONMENT,
        prompt=texts[0][0],
        parameters=parameters,
        truth={"turns": turns, "calls": json.dumps(named)},
        split=split,
        tags=(category,),
        difficulty=float(len(turns)),
    )


def _described(docs: Path, kind: str) -> list[dict[str, Any]]:
    if kind not in MODULES:
        raise ValueError(f"the class {kind!r} is not known. Classes are: {', '.join(MODULES)}")
    return [function_of(row) for row in read_items(docs / f"{MODULES[kind]}.json")]


def _parsed(text: str) -> PublishedCall:
    """Parse a Python call into name, positional arguments, arguments by name. Raises: ValueError, SyntaxError."""
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"{text!r:.80} is not a call")
    named = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    return call.func.id, [ast.literal_eval(each) for each in call.args], named


def _is_valid(tool: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Return whether an environment accepts the arguments."""
    declared = Tool.from_schema(tool["name"], tool["description"], tool["parameters"], lambda _: "")
    try:
        declared.validate(dict(arguments))
    except WrongArguments:
        return False
    return True


def _by_name(
    tools: Mapping[str, Any], name: str, positional: Sequence[Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    parameters = tools[name]["parameters"]["properties"]
    return {**dict(zip(parameters, positional, strict=False)), **given}
