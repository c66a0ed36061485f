"""Whether tasks are as they should be: the gold solution is paid, and nothing is not. Each task is looked at once."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from agentgym.errors import AgentGymError
from agentgym.registry import load, load_reward
from agentgym.reward import Reward
from agentgym.storage.journal import Journal
from agentgym.task import Task, task_to_json


async def task_faults(
    tasks: Sequence[Task],
    journal: Path,
    *,
    at_once: int = 2,
    progress: Callable[[int, int, int], None] = lambda done, total, faulty: None,
) -> dict[str, str]:
    """Why tasks cannot be judged fairly, by task id, as the rewards of their environments say.

    What was found out of a task is written to the journal at once, and not asked a second time while the task is the
    same. What could not be found out for trouble of this host is a fault this time, and is tried anew the next.

    Args:
        journal: the file of a `Journal`, made if there is none.
        at_once: tasks looked at side by side.
        progress: told how many tasks of how many are done, and how many of these have a fault.
    """
    known = Journal(journal)
    faults: dict[str, str] = {}
    done = 0
    gate = asyncio.Semaphore(max(at_once, 1))
    rewards: dict[str, Reward] = {}

    async def look(task: Task) -> None:
        nonlocal done
        key = hashlib.sha256(json.dumps(task_to_json(task), sort_keys=True).encode()).hexdigest()
        if key in known:
            fault = known[key]["fault"]
        else:
            async with gate:
                name = load("environments", task.environment).reward
                reward = rewards.setdefault(name, load_reward(name))
                try:
                    answer = reward.task_fault(task)
                    fault = str(await answer) if inspect.isawaitable(answer) else str(answer)
                except AgentGymError as error:  # one task's trouble stops no other
                    fault = f"could not be judged here: {error}"
                else:
                    known.write(key, {"id": task.id, "fault": fault})
        if fault:
            faults[task.id] = fault
        done += 1
        progress(done, len(tasks), len(faults))

    async with asyncio.TaskGroup() as group:
        for task in tasks:
            group.create_task(look(task))
    return faults
