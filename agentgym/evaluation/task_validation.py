"""Check each task once: its gold solution must be rewarded, and doing nothing must not."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from agentgym.errors import AgentGymError
from agentgym.registry import load, load_reward
from agentgym.reward.contract import Reward
from agentgym.storage.journal import Journal
from agentgym.task.definition import Task


async def task_faults(
    tasks: Sequence[Task],
    journal: Path,
    *,
    at_once: int = 2,
    progress: Callable[[int, int, int], None] = lambda done, total, faulty: None,
) -> dict[str, str]:
    """Return, by task id, why the environments' rewards cannot judge tasks fairly; nothing for the other tasks.

    Results are written to the journal at once, and reused while the task is unchanged. A task that this host failed to
    check counts as faulty this time, and is checked again next time.

    Args:
        journal: the file of a `Journal`, created if missing.
        at_once: how many tasks to check concurrently.
        progress: called with the numbers of checked tasks, of all tasks, and of faulty tasks so far.
    """
    known = Journal(journal)
    faults: dict[str, str] = {}
    done = 0
    gate = asyncio.Semaphore(max(at_once, 1))
    rewards: dict[str, Reward] = {}

    async def look(task: Task) -> None:
        nonlocal done
        key = hashlib.sha256(json.dumps(task.to_json(), sort_keys=True).encode()).hexdigest()
        if key in known:
            fault = known[key]["fault"]
        else:
            async with gate:
                name = load("environments", task.environment).reward
                reward = rewards.setdefault(name, load_reward(name))
                try:
                    answer = reward.task_fault(task)
                    fault = str(await answer) if inspect.isawaitable(answer) else str(answer)
                except AgentGymError as error:  # one task's failure must not stop the others
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
