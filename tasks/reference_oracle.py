"""The oracle of tasks that ask for code. It tries the reference solution on the visible tests, then submits it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym import Call, Message, Task

Script = Callable[[Sequence[Message]], Message]


def oracle(task: Task) -> Script:
    """Play two turns: `test` the reference from the truth, and `submit` it if every visible test passed."""
    code = {"code": task.truth["reference"]}

    def script(messages: Sequence[Message]) -> Message:
        results = [message.text for message in messages if message.role == "tool"]
        if not results:
            return Message("assistant", "", (Call("test", code),))
        if "All" not in results[-1]:
            return Message("assistant", f"The reference solution fails: {results[-1]}")
        return Message("assistant", "", (Call("submit", code),))

    return script
