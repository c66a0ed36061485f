"""Draw the most instructive kinds of task, as a bandit with an upper confidence bound."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from agentgym import Task, TaskError, Trajectory
from agentgym.options import Count, Positive, Weight
from agentgym.training.samplers import make_random_stream

Over = Literal["difficulty", "source", "environment", "source_and_difficulty"]


class Ucb:
    """Draws an arm by how far its groups' returns lie from their means, then a task of the arm.

    An arm is all tasks of one kind. Its score is the mean absolute distance of returns from their group's mean, over
    the last `window` groups, plus `exploration` sqrt(2 ln(1 + groups of all arms) / (1 + groups of this arm)). Arms are
    drawn by the softmax of score / `temperature`. The distance is the size of the advantage that comparison within the
    group gives, whichever estimator is used in training.

    Args:
        tasks: to draw from.
        seed: together with the step it seeds the draw.
        over: what defines an arm.
        window: number of an arm's groups that count.
        exploration: weight of the uncertainty term.
        temperature: temperature of the softmax; near 0 only the best arm is drawn.
    Raises: TaskError without tasks.
    Source: DUMP, Wang et al. 2025, arXiv:2504.09710. The constants are ours.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        seed: int = 0,
        *,
        over: Over = "difficulty",
        window: Count = 32,
        exploration: Weight = 0.2,
        temperature: Positive = 0.1,
    ) -> None:
        if not len(tasks):
            raise TaskError("The sampler was given no tasks. Give it at least one.")
        self._over, self._seed, self._window = over, seed, window
        self._exploration, self._temperature = exploration, temperature
        self._arms: dict[str, list[Task]] = {}
        for task in tasks:
            self._arms.setdefault(self._arm_of(task), []).append(task)
        self._recent: dict[str, list[float]] = {arm: [] for arm in self._arms}
        self._group_counts: dict[str, int] = dict.fromkeys(self._arms, 0)

    def _arm_of(self, task: Task) -> str:
        names = {
            "difficulty": f"{task.difficulty:g}",
            "source": task.source or "",
            "environment": task.environment,
            "source_and_difficulty": f"{task.source or ''} {task.difficulty:g}",
        }
        return names[self._over]

    def probabilities(self) -> dict[str, float]:
        """Return each arm's probability of being drawn next."""
        total = sum(self._group_counts.values())
        scores = []
        for arm, recent in self._recent.items():
            unknown = math.sqrt(2 * math.log(1 + total) / (1 + self._group_counts[arm]))
            scores.append((float(np.mean(recent)) if recent else 0.0) + self._exploration * unknown)
        weights = np.exp((np.array(scores) - max(scores)) / self._temperature)
        return dict(zip(self._arms, (weights / weights.sum()).tolist(), strict=True))

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Draw an arm for each task of a step, then a task of it."""
        draws: random.Random = make_random_stream("ucb", self._seed, step, further)
        arms = self.probabilities()
        return [draws.choice(self._arms[arm]) for arm in draws.choices(list(arms), list(arms.values()), k=count)]

    def update(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """Update with the results of groups. Returns: each arm's new probability."""
        for group in groups:
            returns = [t.return_from() for t in group if t.valid]
            arm = self._arm_of(group[0].task)
            if returns and arm in self._recent:
                self._group_counts[arm] += 1
                self._recent[arm].append(float(np.mean(np.abs(np.array(returns) - np.mean(returns)))))
                self._recent[arm] = self._recent[arm][-self._window :]
        return {f"ucb/{arm}": probability for arm, probability in self.probabilities().items()}

    def state(self) -> dict[str, Any]:
        """Return the state to save in a checkpoint, as plain data."""
        return {"recent": self._recent, "played": self._group_counts}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`. Raises: TaskError if its arms do not match the tasks."""
        if state["recent"].keys() != self._arms.keys():
            raise TaskError(
                f"The sampler's saved state has the arms {', '.join(state['recent'])}, but the tasks have "
                f"{', '.join(self._arms)}. Resume with the task set that the run was started with."
            )
        self._recent = {arm: list(values) for arm, values in state["recent"].items()}
        self._group_counts = dict(state["played"])
