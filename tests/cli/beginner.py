"""Code of somebody who is new to agentgym, one mistake in each environment, for --import."""

from agentgym import Call, Environment, Message, Reward, Task, TaskSet, register, tool


class Right(Environment):
    """A shop without a mistake."""

    reward = "beginner_reward"

    @tool(inline=True)
    def look(self, shelf: str) -> str:
        """Look at a shelf."""
        return f"{shelf} is empty."


class BrokenTool(Right):
    """Its tool divides by zero."""

    @tool(inline=True)
    def look(self, shelf: str) -> str:
        """Look at a shelf."""
        return str(len(shelf) / 0)


class NoReturn(Right):
    """Its `reset` forgets to return the opening."""

    async def reset(self, task, *, seed):
        task.opening()


class NoVerdict(Right):
    """Its reward returns None."""

    reward = "beginner_none"


class Solved(Reward):
    """Pays each episode."""

    def outcome(self, episode):
        return {"success": 1.0}


class ReturnsNone(Reward):
    """Forgets its return."""

    def outcome(self, episode):
        {"success": 1.0}  # noqa: B018  the mistake


def oracle(task):
    def script(messages):
        if len(messages) > 1:
            return Message("assistant", "It is empty.")
        return Message("assistant", "", (Call("look", {"shelf": "top"}),))

    return script


def task_set(name):
    def rows(split):
        return [Task(f"{split}-{i}", f"beginner/{name}-v1", f"{split} {i}", split=split) for i in range(3)]

    return TaskSet(f"beginner/{name}-set-v1", {split: rows(split) for split in ("train", "held_out")}, oracle=oracle)


register("beginner_reward", Solved, kind="rewards")
register("beginner_none", ReturnsNone, kind="rewards")
for name, environment in (("right", Right), ("tool", BrokenTool), ("return", NoReturn), ("none", NoVerdict)):
    register(f"beginner/{name}-v1", environment)
    register(f"beginner/{name}-set-v1", task_set(name), kind="task_sets")
