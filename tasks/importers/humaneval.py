"""Read HumanEval and HumanEvalFix from files that the user has; the data is never part of this package.

Sources: Chen et al. 2021, arXiv:2107.03374 (HumanEval); Muennighoff et al. 2023, arXiv:2308.07124 (HumanEvalFix).
"""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Callable
from pathlib import Path

from agentgym import Call, Message, Split, Task, TaskError, TaskSet

from .items import read_items


def load_humaneval(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The problems of a HumanEval file as tasks of `agentgym/code-v1`, held out by default.

    The agent may try the docstring's examples; the published check judges. The code before the function in the prompt
    (imports, helper functions) is also run before the submission.

    Args:
        path: JSON lines, perhaps gzipped.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
    Raises: TaskError naming the file, the item and its fault.
    """
    return _load(path, "code/humaneval-v1", split, _completion)


def load_humanevalfix(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The problems of HumanEvalFix (the Python file of HumanEvalPack) as tasks of `agentgym/code-v1`.

    The agent is shown a function with a bug, and must submit it without the bug. Args and Raises: as for
    `load_humaneval`.
    """
    return _load(path, "code/humanevalfix-v1", split, _repair)


def _completion(item: dict[str, str]) -> tuple[str, str, str]:
    """Return the prompt, the gold solution and the check."""
    prompt_text = f"Complete this Python function and submit all of it:\n{item['prompt'].strip()}"
    check = f"{item['test']}\ncheck({item['entry_point']})\n"
    return prompt_text, item["prompt"] + item["canonical_solution"], check


def _repair(item: dict[str, str]) -> tuple[str, str, str]:
    wrong = f"{item['declaration'].strip()}\n{item['buggy_solution'].rstrip()}"
    words = "\n".join(line for line in item["docstring"].strip().splitlines())
    prompt_text = (
        f"This Python function has a bug:\n{wrong}\n\nIt should do this:\n{words}\nFind the bug, mend it, and "
        f"submit the "
        "whole function."
    )
    return prompt_text, item["prompt"] + item["canonical_solution"], item["test"]


def _load(
    path: str | Path, name: str, split: Split, parts: Callable[[dict[str, str]], tuple[str, str, str]]
) -> TaskSet:
    path = Path(path)
    tasks = []
    for number, item in enumerate(read_items(path)):
        where = f"{path}, item {number}"
        try:
            prompt_text, gold, check = parts(item)
            entry, prompt, task_id = item["entry_point"], item["prompt"], item["task_id"]
        except KeyError as error:
            raise TaskError(f"{where}: the field {error.args[0]!r} is missing.") from error
        except (TypeError, AttributeError) as error:
            raise TaskError(f"{where}: a field is not text: {error}.") from error
        setup = _before(prompt, entry, where)
        tasks.append(
            Task(
                id=str(task_id),
                environment="agentgym/code-v1",
                prompt=prompt_text,
                parameters={"tests": _examples(prompt, entry), "setup": setup},
                truth={"check": check, "entry_point": entry, "setup": setup, "reference": gold},
                split=split,
                tags=(name.partition("/")[2].rpartition("-")[0],),
            )
        )
    return TaskSet(name, {split: tasks}, oracle=submit_reference)


def submit_reference(task: Task) -> list[Message]:
    """Return the message that submits the published program."""
    return [Message("assistant", "", (Call("submit", {"code": task.truth["reference"]}),))]


def _before(prompt: str, entry: str, where: str) -> str:
    """Return the code before the requested function: imports and helper functions."""
    definitions = list(re.finditer(rf"^def {re.escape(entry)}\b", prompt, re.MULTILINE))
    if not definitions:
        raise TaskError(
            f"{where}: the prompt does not define {entry!r} as a Python function. Import Python files only: of "
            "HumanEvalPack, the file for python, and not those for js, cpp, java, go or rust."
        )
    return prompt[: definitions[-1].start()].strip() + "\n"


def _examples(prompt: str, entry: str) -> list[str]:
    """Return the doctests of the prompt whose result is a literal, as assertions."""
    tests = []
    try:
        parsed = doctest.DocTestParser().get_examples(prompt[prompt.rfind(f"def {entry}") :])
    except ValueError:  # a docstring without valid doctests
        return []
    for example in parsed:
        try:
            ast.literal_eval(example.want.strip())
            ast.parse(example.source.strip(), mode="eval")
        except (ValueError, SyntaxError):
            continue
        tests.append(f"assert {example.source.strip()} == {example.want.strip()}")
    return tests
