"""Which strategy finds a hidden number in few questions? An environment, a reward, a task set, and two agents compared.

python examples/two_strategies.py
"""

from __future__ import annotations

import asyncio
import random

from agentgym import Call, Environment, Message, Reward, Task, TaskSet, register, tool
from agentgym.episode.budgets import Budgets
from agentgym.evaluation import evaluate
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.task import seed_of


class HiddenNumber(Environment):
    """A number from 1 to 100 is hidden. In memory: nothing here needs isolation."""

    reward = "acme_found"

    async def reset(self, task, *, seed):
        self.number = task.parameters["number"]
        return task.opening()

    @tool
    def ask(self, number: int) -> str:
        """Hear whether the hidden number is lower, higher, or this one."""
        return "lower" if self.number < number else "higher" if self.number > number else "this one"

    @tool(final=True)
    def answer(self, number: int) -> str:
        """Say which number is hidden."""
        return "Noted."


class Found(Reward):
    """`success` for the right number."""

    def outcome(self, episode):
        said = [call.arguments for turn in episode.turns for call in turn.calls if call.name == "answer"]
        return {"success": float(said == [{"number": episode.task.truth}])}


def make_task(split: str, index: int) -> Task:
    number = random.Random(seed_of("acme/numbers-v1", split, index)).randint(1, 100)
    return Task(
        f"{split}-{index}",
        "acme/hidden-number-v1",
        f"Which number from 1 to 100 is hidden? (Game {split} {index})",
        parameters={"number": number},
        truth=number,
        split=split,
        tags=("low" if number <= 50 else "high",),
    )


def agent(next_guess):
    """An agent that asks `next_guess(low, high)` until it knows."""

    def script(messages):
        low, high, asked = 1, 100, None
        for message in messages:
            if message.role == "assistant":
                asked = message.calls[0].arguments["number"]
            elif message.role == "tool":
                low = asked + 1 if message.text == "higher" else asked if message.text == "this one" else low
                high = asked - 1 if message.text == "lower" else asked if message.text == "this one" else high
        name = "answer" if low == high else "ask"
        return Message("assistant", "", (Call(name, {"number": next_guess(low, high)}),))

    return ScriptedPolicy(script)


async def main() -> None:
    register("acme/hidden-number-v1", HiddenNumber)
    register("acme_found", Found, kind="rewards")
    tasks = TaskSet("acme/numbers-v1", {"held_out": [make_task("held_out", i) for i in range(100)]})
    budget = Budgets(max_turns=8)
    one_by_one = await evaluate(agent(lambda low, high: low), tasks, label="one by one", budgets=budget)
    halving = await evaluate(agent(lambda low, high: (low + high) // 2), tasks, label="halving", budgets=budget)
    print(one_by_one.summary())
    print(halving.summary())
    print(halving.compared_to(one_by_one))


if __name__ == "__main__":
    asyncio.run(main())
