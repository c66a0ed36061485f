"""Read the domains of tau-bench from a clone that the user has: tools, data, policy, and tasks with hidden goals.

Source: Yao et al. 2024, arXiv:2406.12045; MIT.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym import Call, Message, Split, Task, TaskError, TaskSet, load

from .items import report_left_out

NAME, ENVIRONMENT = "service/tau-bench-v1", "agentgym/tau-v1"
ENVS, LAST_TOOLS = "tau_bench/envs", frozenset({"transfer_to_human_agents"})
SPLITS: Mapping[str, Split] = {"tasks_test": "held_out", "tasks_dev": "validation", "tasks_train": "train"}
"""The split of each file of tasks."""


def load_tau_bench(path: str | Path) -> TaskSet:
    """The tasks of a clone, or of one of its domains, as tasks of `agentgym/tau-v1`.

    `tasks_test.py` becomes held_out, `tasks_dev.py` validation and `tasks_train.py` train. The files are read, not run,
    except for a domain's tools: the published actions are made once, in a process of this host, to find the resulting
    data.

    Args:
        path: the clone, or a folder of it such as `tau_bench/envs/retail`.
    Raises: TaskError naming the file, the task and its fault, or saying that the folder contains no domain.
    """
    path = Path(path).absolute()
    folders = [path] if (path / "tasks_test.py").is_file() else sorted((path / ENVS).glob("*/"))
    domains = [folder for folder in folders if (folder / "tasks_test.py").is_file()]
    if not domains:
        raise TaskError(
            f"{path} contains no domain of tau-bench, {ENVS}/*/tasks_test.py. Give the folder of its clone."
        )
    splits: dict[str, list[Task]] = {split: [] for split in SPLITS.values()}
    split_of: dict[str, Split] = {}
    left_out: dict[str, str] = {}
    with load("environments", ENVIRONMENT).local_functions() as functions:
        for domain in domains:
            shared = _shared(domain, functions)
            for stem, split in SPLITS.items():
                file = domain / f"{stem}.py"
                for number, item in enumerate(_items(file) if file.is_file() else ()):
                    name = f"{domain.name}/{stem.removeprefix('tasks_')}/{number:03d}"
                    try:
                        task = _task(name, item, shared, functions, split)
                        if split_of.setdefault(task.content_key(), split) != split:
                            raise TaskError(f"the same task is also in {split_of[task.content_key()]}")
                        splits[split].append(task)
                    except (KeyError, TypeError, ValueError) as error:
                        if isinstance(error, TaskError):
                            left_out[name] = str(error)
                            continue
                        raise TaskError(
                            f"{file}, task {number}: this is not a task of tau-bench: {error!r:.200}."
                        ) from error
    report_left_out(path, left_out, sum(map(len, splits.values())))
    return TaskSet(NAME, splits, oracle=oracle)


def oracle(task: Task) -> list[Message]:
    """Return the published actions, and then a message with all required texts."""
    says = Message("assistant", " ".join(["It is done.", *task.truth["outputs"]]))
    messages = [
        Message("assistant", "", (Call(name, arguments, f"call_{number}"),))
        for number, (name, arguments) in enumerate(json.loads(task.truth["actions"]))
    ]
    return [*messages, says]


def _shared(domain: Path, functions: Any) -> dict[str, Any]:
    """Return the parameters of all tasks of a domain. Raises: TaskError."""
    parameters: dict[str, Any] = {"source": str(domain.parent), "domain": domain.name}
    wiki = domain / "wiki.md"
    try:
        (turn,) = functions.play(parameters, [[("describe_tools", [], {})]])
        tools = json.loads(turn["texts"][0])
        return {**parameters, "tools": tools, "wiki": wiki.read_text(encoding="utf-8-sig")}
    except (ValueError, OSError) as error:
        raise TaskError(f"{domain}: its tools or its wiki.md cannot be read: {error}.") from error


def _task(name: str, item: Mapping[str, Any], shared: Mapping[str, Any], functions: Any, split: Split) -> Task:
    """Make a task of an item. Raises: TaskError for an action without a tool; KeyError, TypeError, ValueError."""
    actions = [(str(action["name"]), dict(action["kwargs"])) for action in item["actions"]]
    known = {tool["name"] for tool in shared["tools"]}
    if unknown := next((action for action, _ in actions if action not in known), None):
        raise TaskError(f"it uses the tool {unknown!r}, which does not exist")
    calls: list[Any] = [(action, [], arguments) for action, arguments in actions if action not in LAST_TOOLS]
    (turn,) = functions.play(shared, [calls])
    return Task(
        id=name,
        environment=ENVIRONMENT,
        prompt=str(item["instruction"]),
        parameters=dict(shared),
        truth={
            "state": turn["state"],
            "outputs": [str(output) for output in item.get("outputs", ())],
            "actions": json.dumps(actions),
        },
        split=split,
        tags=(shared["domain"],),
        difficulty=float(len(actions)),
    )


def _items(file: Path) -> list[dict[str, Any]]:
    """Return the tasks in a Python file, without running the file. Raises: TaskError."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8-sig"))
        lists = [each.value for each in tree.body if isinstance(each, ast.Assign) and isinstance(each.value, ast.List)]
        return [_plain(element) for each in lists for element in each.elts]
    except (OSError, SyntaxError, ValueError) as error:
        raise TaskError(f"{file} cannot be read as tasks of tau-bench: {error!s:.200}.") from error


def _plain(node: ast.expr) -> Any:
    """Return `Task(...)` and `Action(...)` as dictionaries, and literals. Raises: ValueError for anything else."""
    if isinstance(node, ast.Call):
        return {str(keyword.arg): _plain(keyword.value) for keyword in node.keywords}
    if isinstance(node, ast.List):
        return [_plain(element) for element in node.elts]
    return ast.literal_eval(node)
