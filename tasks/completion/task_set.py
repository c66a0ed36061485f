"""The task set `code/completion-v1`: complete the functions of `code/functions-v1` from signature and docstring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from agentgym import Call, Message, Task, TaskSet, load_task_set

NAME, MATERIAL = "code/completion-v1", "code/functions-v1"


@cache
def task_set() -> TaskSet:
    """Python functions whose bodies are to be written a few lines at a time.

    Splits, strata and difficulty are those of `code/functions-v1`.
    """
    material = load_task_set(MATERIAL)
    return TaskSet(NAME, {split: [_task(task) for task in material[split]] for split in TaskSet.SPLITS}, oracle=oracle)


def oracle(task: Task) -> Callable[[Sequence[Message]], Message]:
    """Write one line per turn, then `finish`."""
    lines = task.truth["completion"].splitlines()

    def script(messages: Sequence[Message]) -> Message:
        done = sum(message.role == "tool" for message in messages)
        call = Call("write", {"text": lines[done]}) if done < len(lines) else Call("finish", {})
        return Message("assistant", "", (call,))

    return script


def _task(task: Task) -> Task:
    head, _, body = task.truth["reference"].partition("\n")
    words = task.prompt.partition("; it takes ")[2]
    before = f'{head}\n    """Take {words}"""\n'
    return replace(
        task,
        environment="agentgym/code-complete-v1",
        prompt=f"Complete this Python function:\n{before}",
        parameters={"before": before},
        truth={"tests": task.truth["tests"], "completion": body},
    )
