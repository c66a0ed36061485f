"""A curriculum with a separate cap on the difficulty of each environment, or of each set of a mixture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agentgym import Task, TaskError, Trajectory
from agentgym.options import Count, Share
from agentgym.training.samplers import make_random_stream

from .curriculum import Curriculum


class Adaptive:
    """Draws environments equally often; within each, difficulty rises as in `curriculum`.

    Args:
        tasks: to draw from.
        seed: together with the step it seeds the draw.
        over: what has a separate cap: each environment, or each set of a mixture.
        window, accuracy, prompts: as in `curriculum`.
    Raises: TaskError without tasks.
    Source: RLVE, Zeng et al. 2025, arXiv:2511.07317.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        seed: int = 0,
        *,
        over: Literal["environment", "source"] = "environment",
        window: Count = 4,
        accuracy: Share = 0.9,
        prompts: Count = 8,
    ) -> None:
        if not len(tasks):
            raise TaskError("The sampler was given no tasks. Give it at least one.")
        self._over, self._seed = over, seed
        by_name: dict[str, list[Task]] = {}
        for task in tasks:
            by_name.setdefault(self._name_of(task), []).append(task)
        self.curricula = {
            name: Curriculum(own, seed, window=window, accuracy=accuracy, prompts=prompts)
            for name, own in by_name.items()
        }

    def _name_of(self, task: Task) -> str:
        return task.environment if self._over == "environment" else task.source or ""

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """For each task of a step, draw an environment, a level in its window of levels, and a task of that level."""
        draws = make_random_stream("adaptive", self._seed, step, further)
        names = [draws.choice(list(self.curricula)) for _ in range(count)]
        return [self.curricula[name].draw_one(draws) for name in names]

    def update(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """Update each environment's curriculum with the results of its groups. Returns: the caps, as metrics."""
        metrics = {}
        for name, curriculum in self.curricula.items():
            curriculum.update([group for group in groups if self._name_of(group[0].task) == name])
            metrics[f"curriculum/cap/{name}"] = curriculum.cap
        return metrics

    def state(self) -> dict[str, Any]:
        """Return the state to save in a checkpoint, as plain data."""
        return {name: curriculum.state() for name, curriculum in self.curricula.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`. Raises: TaskError if its environments or levels differ."""
        if state.keys() != self.curricula.keys():
            raise TaskError(
                f"The sampler's saved state is of {', '.join(state)}, but the training tasks are of "
                f"{', '.join(self.curricula)}. Resume with the task set that the run was started with."
            )
        for name, curriculum in self.curricula.items():
            curriculum.load(state[name])
