"""The scripted solver of the store's questions: it knows the schema, and copies every value out of a tool result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym.messages import Call, Message
from agentgym.task import Task

from .templates import BY_NAME

Script = Callable[[Sequence[Message]], Message]


def oracle(task: Task) -> Script:
    """A script that plays the task through its public tools. It reads the prompt, never the truth.

    The script is called once a turn with the conversation so far, and keeps no state of its own.
    """
    template = next(BY_NAME[tag] for tag in task.tags if tag in BY_NAME)
    name = template.named_in(task.prompt)
    if name is None:
        raise ValueError(f"{task.id}: the prompt {task.prompt!r} was not written by the template {template.name}.")

    def script(messages: Sequence[Message]) -> Message:
        values = [message.text.strip() for message in messages if message.role == "tool"]
        if len(values) < template.hops:
            query = template.steps[len(values)].format(*values, name=name)
            return Message("assistant", "", (Call("query", {"sql": query}),))
        return Message("assistant", "", (Call("answer", {"text": values[-1]}),))

    return script
