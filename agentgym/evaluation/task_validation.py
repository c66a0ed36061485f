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
        journal: a file of JSON lines, made if there is none.
        at_once: tasks looked at side by side.
        progress: told how many tasks of how many are done, and how many of these have a fault.
    """
    known = _read(journal)
    faults: dict[str, str] = {}
    done = 0
    gate = asyncio.Semaphore(max(at_once, 1))
    rewards: dict[str, Reward] = {}

    async def look(task: Task) -> None:
        nonlocal done
        key = hashlib.sha256(json.dumps(task_to_json(task), sort_keys=True).encode()).hexdigest()
        fault = known.get(key)
        if fault is None:
            async with gate:
                name = load("environments", task.environment).reward
                reward = rewards.setdefault(name, load_reward(name))
                try:
                    answer = reward.task_fault(task)
                    fault = str(await answer) if inspect.isawaitable(answer) else str(answer)
                except AgentGymError as error:  # one task's trouble stops no other
                    fault = f"could not be judged here: {error}"
                else:
                    with journal.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({"key": key, "id": task.id, "fault": fault}) + "\n")
        if fault:
            faults[task.id] = fault
        done += 1
        progress(done, len(tasks), len(faults))

    journal.parent.mkdir(parents=True, exist_ok=True)
    async with asyncio.TaskGroup() as group:
        for task in tasks:
            group.create_task(look(task))
    return faults


def _read(journal: Path) -> dict[str, str]:
    known: dict[str, str] = {}
    if journal.is_file():
        for line in journal.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
                known[row["key"]] = row["fault"]
            except (ValueError, KeyError, TypeError):
                continue  # cut short when the process was killed: looked at once more
    return known
