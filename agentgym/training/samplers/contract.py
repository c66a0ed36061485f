"""What a sampler of tasks is, how a recipe names one, and how a checkpoint keeps its state."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agentgym.credit.named_parts import load_part, parse_part
from agentgym.task import Task, seed_of
from agentgym.trajectory import Trajectory

FILE = "sampler.json"
_FORMER_FILE = "curriculum.json"


class Sampler(Protocol):
    """Chooses the tasks of each step. It is made from the training tasks and a seed, then from its own options.

    The same seed, step and state must give the same tasks: a resumed run plays what an unbroken one plays.
    """

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Choose the tasks of a step; a group of episodes is played of each.

        Args:
            further: 1 for tasks beside those that the step has drawn already, 2 for still others, and so on.
        """
        ...

    def update(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        """Take in how the groups of a step came out, failed episodes included. Returns: metrics to log."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as plain data for JSON."""
        ...

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`. Raises: TaskError if it belongs to other tasks."""
        ...


def make_random_stream(name: str, seed: int, step: int, further: int) -> random.Random:
    """Make the random stream of a draw: another one for each sampler, seed, step and further draw."""
    return random.Random(seed_of(name, seed, step, *([further] if further else [])))


def make_sampler(text: str, tasks: Sequence[Task], seed: int) -> Sampler:
    """Make a sampler from its name and options: `curriculum(window=4)`.

    Raises: UnknownNameError; CreditError for options that it does not take; TaskError for tasks that it cannot draw.
    """
    part = parse_part(text)
    sampler: Sampler = load_part("samplers", part.name, part.options)(tasks, seed)
    return sampler


def save_sampler(sampler: Sampler, folder: Path) -> None:
    """Write the state of a sampler into a checkpoint's folder."""
    (folder / FILE).write_text(json.dumps(sampler.state()), encoding="utf-8")


def restore_sampler(sampler: Sampler, folder: Path) -> None:
    """Continue as at a checkpoint, if its folder holds a state. Raises: as `Sampler.load`."""
    for file in (folder / FILE, folder / _FORMER_FILE):
        if file.is_file():
            sampler.load(json.loads(file.read_text(encoding="utf-8")))
            return
