"""A user's own code, as --import finds it: an environment, a reward and a task set with an oracle."""

from agentgym import Call, Message, Task, TaskSet, register
from agentgym.testing import Counter, TargetReached

COUNTER = "acme/counter-v1"


class Counting(Counter):
    """Count to the number that is asked for."""

    reward = "acme_target"


def oracle(task):
    def script(messages):
        if len(messages) > 1:
            return Message("assistant", "", (Call("submit"),))
        return Message("assistant", "Adding.", (Call("add", {"amount": task.truth}),))

    return script


def tasks():
    """Counting tasks, even and odd."""

    def rows(split, span):
        return [
            Task(f"{split}-{i}", COUNTER, f"Count to {i}.", truth=i, split=split, tags=(("even", "odd")[i % 2],))
            for i in span
        ]

    splits = {"train": rows("train", range(1, 9)), "held_out": rows("held_out", range(20, 30))}
    return TaskSet("acme/counts-v1", splits, oracle=oracle)


register("acme_target", TargetReached, kind="rewards")
register(COUNTER, Counting)
register("acme/counts-v1", tasks, kind="task_sets")
