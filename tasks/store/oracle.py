"""Scripted players of the store's questions: the oracle answers them, the imperfect oracle queries a wrong column.

Both know the schema and the tools, and copy every value out of a tool result.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from agentgym import Call, Message, Task, seed_of

from .templates import BY_NAME, QuestionTemplate

Script = Callable[[Sequence[Message]], Message]
COLUMNS = {
    "customers": ("phone", "email", "city"),
    "suppliers": ("phone", "email", "city"),
    "employees": ("phone", "email", "hired"),
    "products": ("sku", "price", "category_id"),
    "orders": ("placed", "customer_id", "employee_id"),
    "order_lines": ("quantity", "unit_price"),
}
"""The columns that the imperfect oracle may query, by table."""


def oracle(task: Task) -> Script:
    """Solve the task through its public tools, from the prompt alone. The truth is not read.

    The script is called once per turn with the conversation so far, and keeps no state.
    """
    template, name = _template_and_name(task)
    return _player(template.steps, name)


def answer(task: Task) -> Message:
    """Return the message that gives the right answer, made from the truth."""
    return Message("assistant", "", (Call("answer", {"text": task.truth["answer"]}),))


def imperfect_oracle(task: Task) -> Script:
    """Play like the oracle, but ask for another column in the last query. The answers are wrong."""
    template, name = _template_and_name(task)
    *before, last = template.steps
    column, table = re.fullmatch(r"SELECT (.+?) FROM (\w+) WHERE .*", last).groups()  # type: ignore[union-attr]
    other_columns = [c for c in COLUMNS[table] if c != column]
    wrong = random.Random(seed_of("novice", task.id)).choice(other_columns)
    return _player((*before, last.replace(column, wrong, 1)), name)


def _template_and_name(task: Task) -> tuple[QuestionTemplate, str]:
    template = next(BY_NAME[tag] for tag in task.tags if tag in BY_NAME)
    name = template.named_in(task.prompt)
    if name is None:
        raise ValueError(f"{task.id}: the prompt {task.prompt!r} does not come from the template {template.name}.")
    return template, name


def _player(steps: Sequence[str], name: str) -> Script:
    """Send one query per turn with the earlier results filled in, then answer with the last result."""

    def script(messages: Sequence[Message]) -> Message:
        values = [message.text.strip() for message in messages if message.role == "tool"]
        if len(values) < len(steps):
            query = steps[len(values)].format(*values, name=name)
            return Message("assistant", "", (Call("query", {"sql": query}),))
        return Message("assistant", "", (Call("answer", {"text": values[-1]}),))

    return script
