"""A small sound environment, which the tests of the kit break in one place at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence

from agentgym import Call, Checkpoint, Environment, Message, Reward, Task, ToolError, Trajectory, tool
from agentgym.errors import ConformanceError
from agentgym.reward import Components
from agentgym.testing import check_environment


class Shelf(Environment):
    """Boxes with numbers, in an order drawn from the seed; answer with their sum. In memory, nothing to isolate."""

    def __init__(self) -> None:
        self.boxes: list[int] = []
        self.notes: list[str] = []

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.boxes = list(task.parameters["boxes"])
        random.Random(seed).shuffle(self.boxes)
        return [Message("system", "Open boxes, then answer."), *task.opening()]

    @tool(inline=True)
    def open_box(self, box: int) -> int:
        """Look into a box."""
        if not 0 <= box < len(self.boxes):
            raise ToolError(f"There is no box {box}; there are boxes 0 to {len(self.boxes) - 1}.")
        return self.boxes[box]

    @tool(inline=True)
    def note(self, text: str = "") -> str:
        """Write a note and read all notes."""
        self.notes.append(text[:100])
        return "\n".join(self.notes)

    @tool(final=True, inline=True)
    def answer(self, total: int) -> str:
        """Give the sum of all boxes."""
        return f"You answered {total}."

    async def state_key(self) -> str | None:
        return repr((self.boxes, self.notes))

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({"boxes": list(self.boxes), "notes": list(self.notes)})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self.boxes, self.notes = list(checkpoint.data["boxes"]), list(checkpoint.data["notes"])


class SumIsRight(Reward):
    """`success` where the answer is the truth."""

    def outcome(self, episode: Trajectory) -> Components:
        answers = [
            c.arguments["total"] for t in episode.turns for c, r in zip(t.calls, t.results, strict=True) if r.final
        ]
        return {"success": float(bool(answers) and answers[0] == episode.task.truth)}


def shelf_tasks() -> list[Task]:
    tasks = []
    for number in range(6):
        rng = random.Random(number)
        boxes = [rng.randint(1_000, 9_000) for _ in range(3)]
        prompt = f"What is the sum of the {len(boxes)} boxes on shelf {number}?"
        task = Task(f"shelf-{number}", "test/shelf-v1", prompt=prompt, parameters={"boxes": boxes}, truth=sum(boxes))
        tasks.append(task)
    return tasks


def shelf_oracle(task: Task):
    """Opens the three boxes and adds up what it sees."""

    def script(messages: Sequence[Message]) -> Message:
        seen = [int(message.text) for message in messages if message.role == "tool"]
        if len(seen) < 3:
            return Message("assistant", "", (Call("open_box", {"box": len(seen)}),))
        return Message("assistant", "", (Call("answer", {"total": sum(seen)}),))

    return script


async def findings_of(environment, reward: Reward | None = None, oracle=shelf_oracle, **options) -> list[str]:
    """What the kit finds wrong; an empty list if nothing."""
    try:
        await check_environment(
            environment, options.pop("tasks", None) or shelf_tasks(), oracle, reward=reward or SumIsRight(), **options
        )
    except ConformanceError as error:
        return error.findings
    return []
