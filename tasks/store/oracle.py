"""Scripted players of the store's questions: the oracle solves them, the imperfect oracle asks for the wrong thing.

Both know the schema and the tools, and copy every value out of a tool result.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from agentgym.messages import Call, Message
from agentgym.task import Task, seed_of

from .templates import BY_NAME, Template

Script = Callable[[Sequence[Message]], Message]
COLUMNS = {
    "customers": ("phone", "email", "city"),
    "suppliers": ("phone", "email", "city"),
    "employees": ("phone", "email", "hired"),
    "products": ("sku", "price", "category_id"),
    "orders": ("placed", "customer_id", "employee_id"),
    "order_lines": ("quantity", "unit_price"),
}
"""What the imperfect oracle may ask of a table."""


def oracle(task: Task) -> Script:
    """A script that solves the task through its public tools. It reads the prompt, never the truth.

    The script is called once a turn with the conversation so far, and keeps no state of its own.
    """
    template, name = _asked(task)
    return _player(template.steps, name)


def answer(task: Task) -> Message:
    """The message that answers the question rightly, from the truth: trainers may ask how likely it is."""
    return Message("assistant", "", (Call("answer", {"text": task.truth["answer"]}),))


def imperfect_oracle(task: Task) -> Script:
    """A script that plays like the oracle, but has not understood the question: its last query asks for another column.

    It shows how the tools are used, not what for; its answers are wrong.
    """
    template, name = _asked(task)
    *before, last = template.steps
    column, table = re.fullmatch(r"SELECT (.+?) FROM (\w+) WHERE .*", last).groups()  # type: ignore[union-attr]
    others = [other for other in COLUMNS[table] if other != column]
    wrong = random.Random(seed_of("novice", task.id)).choice(others)
    return _player((*before, last.replace(column, wrong, 1)), name)


def _asked(task: Task) -> tuple[Template, str]:
    template = next(BY_NAME[tag] for tag in task.tags if tag in BY_NAME)
    name = template.named_in(task.prompt)
    if name is None:
        raise ValueError(f"{task.id}: the prompt {task.prompt!r} was not written by the template {template.name}.")
    return template, name


def _player(steps: Sequence[str], name: str) -> Script:
    """Ask one query a turn, each with the values seen so far filled in, then answer with the last value."""

    def script(messages: Sequence[Message]) -> Message:
        values = [message.text.strip() for message in messages if message.role == "tool"]
        if len(values) < len(steps):
            query = steps[len(values)].format(*values, name=name)
            return Message("assistant", "", (Call("query", {"sql": query}),))
        return Message("assistant", "", (Call("answer", {"text": values[-1]}),))

    return script
