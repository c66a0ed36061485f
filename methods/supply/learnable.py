"""Draw the tasks whose outcome is least certain: those that are solved sometimes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import Task, TaskError, Trajectory
from agentgym.options import Share
from agentgym.training.samplers import make_random_stream


class Learnable:
    """Draws tasks in proportion to p (1 - p), where p is the share of a task's recent episodes that solved it.

    A group whose episodes all succeed, or all fail, teaches nothing. A task that was never played counts as solved half
    of the time, so every task is tried. No task is drawn twice in a step.

    Args:
        tasks: to draw from.
        seed: together with the step it seeds the draw.
        uniform: the share of draws that ignore p, so that a forgotten task is noticed.
        memory: weight of earlier success after each group of the task; the newest group has weight 1.
    Raises: TaskError without tasks.
    Source: learnability p (1 - p), Foster and Foerster 2025, arXiv:2502.12272; the running estimate is our own.
    """

    def __init__(self, tasks: Sequence[Task], seed: int = 0, *, uniform: Share = 0.2, memory: Share = 0.5) -> None:
        if not len(tasks):
            raise TaskError("The sampler was given no tasks. Give it at least one.")
        self._tasks = {task.id: task for task in tasks}
        self._seed, self._uniform, self._memory = seed, uniform, memory
        self._success: dict[str, float] = {}

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Draw the tasks of a step, repeating tasks only if there are fewer than `count`."""
        rng = make_random_stream("learnable", self._seed, step, further)
        chosen: list[Task] = []
        while len(chosen) < count:
            left = {name: self._weight(name) for name in self._tasks}
            for _ in range(min(count - len(chosen), len(left))):
                name = self._draw_one(rng, left)
                chosen.append(self._tasks[name])
                del left[name]
        return chosen

    def _draw_one(self, rng: random.Random, weights: Mapping[str, float]) -> str:
        names = list(weights)
        if rng.random() < self._uniform or not any(weights.values()):
            return rng.choice(names)
        return rng.choices(names, list(weights.values()))[0]

    def _weight(self, name: str) -> float:
        success = self._success.get(name, 0.5)
        return success * (1 - success)

    def update(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """Update with the results of groups. Returns: metrics."""
        for group in groups:
            judged = [t.success for t in group if t.valid and t.success is not None]
            if judged:
                name, rate = group[0].task.id, sum(judged) / len(judged)
                before = self._success.get(name, rate)
                self._success[name] = (self._memory * before + rate) / (self._memory + 1)
        weights = [self._weight(name) for name in self._tasks]
        return {
            "sampler/tried": len(self._success) / len(self._tasks),
            "sampler/learnability": sum(weights) / len(weights),
        }

    def state(self) -> dict[str, Any]:
        """Return the state to save in a checkpoint, as plain data."""
        return {"success": self._success}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`. Raises: TaskError if it names an unknown task."""
        if unknown := state["success"].keys() - self._tasks.keys():
            raise TaskError(
                f"The sampler's saved state is of other tasks: the task set has no task {min(unknown)!r}. Resume with "
                "the task set that the run was started with."
            )
        self._success = dict(state["success"])
