"""Skip the tasks in which the policy hardly tries different things, or hardly gets different returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentgym import Task, TaskError, Trajectory
from agentgym.options import Share, WholeNumber
from agentgym.training.samplers import make_random_stream


class Explorable:
    """Draws the tasks in which most is left to explore, and from time to time the skipped ones.

    The explorability of a task is a running mean of entropy x spread: the surprise of the sampled tokens, mean -log p,
    times the standard deviation of its group's returns. The `skipped` share of the played tasks with the lowest values
    is not drawn, except in every `revisit_every`-th step, which draws only from these tasks, the longest unplayed
    first. Tasks that were never played count as explorable.

    Args:
        tasks: to draw from.
        seed: together with the step it seeds the draw.
        skipped: the share of the tasks played so far that is skipped.
        revisit_every: steps between visits to the skipped tasks; 0 for never.
        memory: weight of the earlier mean after each group; the newest group has weight 1.
    Raises: TaskError without tasks.
    Source: the idea of DEPO, Zhao et al. 2025, arXiv:2509.01321, not checked against the paper; the form is our own.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        seed: int = 0,
        *,
        skipped: Share = 0.3,
        revisit_every: WholeNumber = 8,
        memory: Share = 0.5,
    ) -> None:
        if not len(tasks):
            raise TaskError("The sampler was given no tasks. Give it at least one.")
        self._tasks = {task.id: task for task in tasks}
        self._seed, self._skipped, self._revisit_every, self._memory = seed, skipped, revisit_every, memory
        self._explorability: dict[str, float] = {}
        self._last_played: dict[str, int] = {}
        self._group_count = 0

    def skipped(self) -> list[str]:
        """Return the ids of the skipped tasks, the longest unplayed first."""
        count = int(self._skipped * len(self._explorability))
        lowest = sorted(self._explorability, key=lambda name: (self._explorability[name], name))[:count]
        return sorted(lowest, key=lambda name: (self._last_played[name], name))

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Draw the tasks of a step, without repetition if there are enough."""
        draws = make_random_stream("explorable", self._seed, step, further)
        skipped = self.skipped()
        if self._revisit_every and step % self._revisit_every == self._revisit_every - 1 and skipped and not further:
            first = [self._tasks[name] for name in skipped[:count]]
            return first + draws.choices(list(self._tasks.values()), k=count - len(first))
        left_out = set(skipped)
        names = [name for name in self._tasks if name not in left_out]
        chosen = draws.sample(names, count) if count <= len(names) else draws.choices(names, k=count)
        return [self._tasks[name] for name in chosen]

    def update(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """Update with the results of groups. Returns: the mean explorability of the tasks played so far."""
        for group in groups:
            valid = [t for t in group if t.valid]
            logprobs = [value for t in valid for turn in t.turns for value in turn.logprobs]
            if len(valid) < 2 or (name := group[0].task.id) not in self._tasks:
                continue
            entropy = -float(np.mean(logprobs)) if logprobs else 1.0
            value = entropy * float(np.std([t.return_from() for t in valid]))
            before = self._explorability.get(name, value)
            self._explorability[name] = (self._memory * before + value) / (self._memory + 1)
            self._group_count += 1
            self._last_played[name] = self._group_count
        values = list(self._explorability.values())
        return {"sampler/explorability": float(np.mean(values)) if values else 0.0}

    def state(self) -> dict[str, Any]:
        """Return the state to save in a checkpoint, as plain data."""
        return {
            "explorability": self._explorability,
            "last_played": self._last_played,
            "played": self._group_count,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`. Raises: TaskError if it names an unknown task."""
        if unknown := state["explorability"].keys() - self._tasks.keys():
            raise TaskError(
                f"The sampler's saved state is of other tasks: the task set has no task {min(unknown)!r}. Resume with "
                "the task set that the run was started with."
            )
        self._explorability, self._last_played = dict(state["explorability"]), dict(state["last_played"])
        self._group_count = state["played"]
