"""A curriculum by difficulty: train on a window of levels whose upper end rises once it is mastered."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import Task, TaskError, Trajectory
from agentgym.options import Count, Share
from agentgym.training.samplers import make_random_stream


class Curriculum:
    """Draws training tasks whose difficulty is the cap or one of the levels just below it.

    The cap starts at the easiest level. The cap rises by one level once at least `prompts` groups of its level have
    been played since its last rise, with a mean success of at least `accuracy`.

    Args:
        tasks: the tasks to draw from; their sorted `difficulty` values are the levels.
        seed: seeds each draw, together with the step.
        window: maximum number of levels to draw from, including the cap's.
        accuracy: mean success at which the cap rises.
        prompts: minimum number of groups at the cap's level before the cap rises.
    Raises: TaskError if there are no tasks.
    Source: the difficulty range of RLVE, Zeng et al. 2025, arXiv:2511.07317; 4, 0.9 and 8 are its choices.
    """

    def __init__(
        self, tasks: Sequence[Task], seed: int = 0, *, window: Count = 4, accuracy: Share = 0.9, prompts: Count = 8
    ) -> None:
        if not len(tasks):
            raise TaskError("The sampler 'curriculum' was given no tasks. Give it at least one.")
        self._by_level: dict[float, list[Task]] = {}
        for task in tasks:
            self._by_level.setdefault(task.difficulty, []).append(task)
        self.levels = sorted(self._by_level)
        self._window, self._accuracy, self._prompts, self._seed = window, accuracy, prompts, seed
        self._cap = 0
        self._recent: list[float] = []

    @property
    def cap(self) -> float:
        """The hardest difficulty that may be drawn."""
        return self.levels[self._cap]

    @property
    def open_levels(self) -> list[float]:
        """Every difficulty that may be drawn, the easiest first."""
        return self.levels[max(0, self._cap - self._window + 1) : self._cap + 1]

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Draw each task of a step with `draw_one`."""
        rng = make_random_stream("curriculum", self._seed, step, further)
        return [self.draw_one(rng) for _ in range(count)]

    def draw_one(self, draws: random.Random) -> Task:
        """Draw a level of the window uniformly, then a task of that level uniformly."""
        return draws.choice(self._by_level[draws.choice(self.open_levels)])

    def update(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """Record the groups' success, and raise the cap if its level is mastered. Returns: metrics."""
        for group in groups:
            judged = [t.success for t in group if t.valid and t.success is not None]
            if judged and group[0].task.difficulty == self.cap:
                self._recent.append(sum(judged) / len(judged))
        mean = sum(self._recent) / len(self._recent) if self._recent else 0.0
        if len(self._recent) >= self._prompts and mean >= self._accuracy and self._cap + 1 < len(self.levels):
            self._cap, self._recent = self._cap + 1, []
        self._recent = self._recent[-4 * self._prompts :]  # older groups say little about the present policy
        return {"curriculum/cap": self.cap, "curriculum/cap_success": mean}

    def state(self) -> dict[str, Any]:
        """Return the state to save in a checkpoint, as plain data."""
        return {"cap": self.cap, "seen": list(self._recent)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`. Raises: TaskError if no task has the difficulty of its cap."""
        if state["cap"] not in self.levels:
            raise TaskError(
                f"The saved curriculum was at difficulty {state['cap']}, but no task has this difficulty. The tasks' "
                f"difficulties are {self.levels}. Resume with the task set that the run was started with."
            )
        self._cap, self._recent = self.levels.index(state["cap"]), list(state["seen"])
