"""How fast the text worlds step: the oracle's calls through `Environment.call`, resets counted.

`python benchmarks/environments_text.py` prints the table; benchmarks/environments.py calls `measure`. FrozenLake is
compared with Gymnasium's in the same run, with one step per call.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence

from environments_row import Row

from agentgym import Environment, Task
from agentgym.messages import Call, Message
from agentgym.registry import load, load_task_set, names

TASKS = 40


def measure(budget_s: float) -> list[Row]:
    """Return a row for each environment. `budget_s`: CPU-seconds for all of them together."""
    environments = [name for name in names("environments") if name.startswith("agentgym/text-")]
    share = budget_s / (len(environments) + 2)
    rows = []
    for name in environments:
        kind = load("environments", name)
        tasks = load_task_set(name.replace("agentgym/text-", "text/"))["train"][:TASKS]
        rows.append(Row(name, asyncio.run(_rate(kind, [(task, _calls(kind, task)) for task in tasks], share)), "", 0.0))
    lake = load("environments", "agentgym/text-frozen-lake-v1")
    task = lake.generate(0, 0, size=8, holes=20, length=10)
    steps = [{"U": "up", "D": "down", "L": "left", "R": "right"}[letter] for letter in task.truth["solution"]]
    ours = asyncio.run(_rate(lake, [(task, [Call("move", {"steps": [step]}) for step in steps])], share))
    theirs = _gymnasium_rate(share)
    rows.append(Row(f"{lake.id}, one step a call", ours, "gymnasium FrozenLake8x8-v1 step", ours / theirs))
    return rows


async def _rate(kind: Callable[[], Environment], plays: Sequence[tuple[Task, Sequence[Call]]], cpu_s: float) -> float:
    """Return calls per CPU-second over whole episodes, one after the other."""
    done, began = 0, time.process_time()
    for task, calls in itertools.cycle(plays):
        environment = kind()
        await environment.reset(task.public(), seed=0)
        for call in calls:
            await environment.call(call)
        await environment.close()
        done += len(calls)
        if time.process_time() - began > cpu_s:
            break
    return done / (time.process_time() - began)


def _calls(kind: type, task: Task) -> list[Call]:
    """Return the oracle's calls, found by playing the oracle once."""
    return asyncio.run(_calls_of_oracle(kind, task))


async def _calls_of_oracle(kind: type, task: Task) -> list[Call]:
    environment, script, calls = kind(), kind.oracle(task), []
    messages = list(await environment.reset(task.public(), seed=0))
    while not environment.ended:
        message = script(messages)
        results = [await environment.call(call) for call in message.calls]
        calls += message.calls
        messages += [message, *(Message("tool", result.content) for result in results)]
    return calls


def _gymnasium_rate(cpu_s: float) -> float:
    """Return steps per CPU-second of gymnasium.make's FrozenLake, with its wrappers, including resets."""
    import gymnasium

    env = gymnasium.make("FrozenLake8x8-v1", is_slippery=False)
    env.reset(seed=0)
    done, began = 0, time.process_time()
    while time.process_time() - began < cpu_s:
        for action in (2, 1, 2, 1, 2, 1, 0, 3, 2, 1):
            _, _, terminated, truncated, _ = env.step(action)
            done += 1
            if terminated or truncated:
                env.reset()
    env.close()
    return done / (time.process_time() - began)


if __name__ == "__main__":
    for row in measure(10.0):
        beside = f"   {row.ratio:.2f} x {row.against}" if row.against else ""
        print(f"{row.name:<48}{row.per_cpu_second:>12,.0f} steps / CPU-s{beside}")
