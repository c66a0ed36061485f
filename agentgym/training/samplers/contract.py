"""The Sampler protocol, how a recipe names a sampler, and how a checkpoint saves its state."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agentgym.credit.named_parts import load_part, parse_part
from agentgym.task.definition import Task, seed_of
from agentgym.trajectory.record import Trajectory

FILE = "sampler.json"


class Sampler(Protocol):
    """Choose the tasks of each step. A sampler is made from the training tasks, a seed and its own options.

    The same seed, step and state must give the same tasks, so that a resumed run plays what an uninterrupted run plays.
    A class that derives from this one needs only `draw` if it learns nothing.
    """

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Choose the tasks of a step; each gets a group of episodes.

        Args:
            further: 0 for the step's first draw, 1 for its first draw of further tasks, 2 for the next, and so on.
        """
        ...

    def update(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """Learn from the results of a step's groups, which include failed episodes. Returns: metrics to log."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return the state to save in a checkpoint, as JSON-compatible data."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a value that `state` returned. Raises: TaskError if it belongs to other tasks."""
        return None


def make_random_stream(name: str, seed: int, step: int, further: int) -> random.Random:
    """Make the random stream of a draw, distinct for each sampler, seed, step and further draw."""
    return random.Random(seed_of(name, seed, step, *([further] if further else [])))


def make_sampler(text: str, tasks: Sequence[Task], seed: int) -> Sampler:
    """Make a sampler from its name and options: `curriculum(window=4)`.

    Raises: UnknownNameError; CreditError for unknown options; TaskError for tasks that the sampler cannot draw from.
    """
    part = parse_part(text)
    sampler: Sampler = load_part("samplers", part.name, part.options)(tasks, seed)
    return sampler


def save_sampler(sampler: Sampler, folder: Path) -> None:
    """Write the state of a sampler into a checkpoint's folder."""
    (folder / FILE).write_text(json.dumps(sampler.state()), encoding="utf-8")


def restore_sampler(sampler: Sampler, folder: Path) -> None:
    """Restore a sampler's state from a checkpoint's folder, if there is one. Raises: as `Sampler.load`."""
    if (file := folder / FILE).is_file():
        sampler.load(json.loads(file.read_text(encoding="utf-8")))
