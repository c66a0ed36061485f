"""The base of the text environments: plain state in memory, built from the parameters of a generated puzzle."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from agentgym import Checkpoint, Environment, Message, Task, TaskError, ToolError, seed_of
from agentgym.reward import SUCCESS, Components

Script = Callable[[Sequence[Message]], Message]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of difficulty: integers from `low` to `high`, and a text that says what they count."""

    low: int
    high: int
    words: str


@dataclass(frozen=True, slots=True)
class Puzzle:
    """A generated puzzle: the prompt, the task parameters, and the truth that only rewards and oracles may read."""

    prompt: str
    parameters: dict[str, Any]
    truth: Any


class TextEnvironment(Environment):
    """Base of the text environments. Everything is in memory and no code of the agent runs, so nothing is isolated.

    A subclass sets `id`, `axes` and `levels`, and implements `begin` (parameters to state), `solved`, `nearness`,
    `invent` (axes to puzzle), `oracle`, and tools that change `self.state`. Task sets also use its `imperfect_oracle`
    and `gold`, if it has them.

    Attributes:
        id: the name under which it is registered.
        axes: the axes of difficulty that `generate` accepts, by name.
        levels: the axes of difficulty 0, 1, 2, ...; an axis that a level leaves out is at its lowest value.
        state: the complete state as plain data, stored in checkpoints.
    """

    reward = "final_state"
    id: ClassVar[str]
    axes: ClassVar[Mapping[str, Axis]]
    levels: ClassVar[Sequence[Mapping[str, int]]]

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.seed = 0
        self._identity = b""
        self._task = "no task"
        self.ended = False
        self._parameters: Mapping[str, Any] = {}

    # ---- implemented by subclasses

    @abstractmethod
    def begin(self) -> dict[str, Any]:
        """Return the initial state, read with `self.parameter(...)`. Raises: TaskError for invalid parameters."""

    @abstractmethod
    def solved(self) -> bool:
        """Return whether the puzzle is solved."""

    @abstractmethod
    def nearness(self) -> float:
        """Return how near the state is to a solution, from 0 to 1; 1 only if solved. It depends only on the state."""

    def lost(self) -> bool:
        """Return whether the episode is over without a solution."""
        return False

    def canonical(self) -> Any:
        """Return plain data that is equal for equal states of a task; by default the complete state."""
        return self.state

    @classmethod
    @abstractmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        """Return a solvable puzzle with these axes."""

    @staticmethod
    @abstractmethod
    def oracle(task: Task) -> Script:
        """Return a script that solves a task through the public tools."""

    # ---- common to all

    @classmethod
    def generate(cls, seed: int, difficulty: int = 0, **axes: int) -> Task:
        """Return a solvable task; equal arguments give an equal task in every process.

        Args:
            difficulty: a level, 0 to `len(levels) - 1`.
            axes: values by name, which override the level's.
        Raises: TaskError for an unknown level or axis, or a value out of range.
        """
        if not 0 <= difficulty < len(cls.levels):
            raise TaskError(f"{cls.id} has no difficulty {difficulty}. Levels are 0 to {len(cls.levels) - 1}.")
        chosen = {name: axis.low for name, axis in cls.axes.items()} | dict(cls.levels[difficulty]) | axes
        for name, value in chosen.items():
            axis = cls.axes.get(name)
            if axis is None:
                raise TaskError(f"{cls.id} has no axis {name!r}. Axes are: {', '.join(cls.axes)}.")
            if not axis.low <= value <= axis.high:
                raise TaskError(f"{cls.id}: {name} = {value} ({axis.words}) must be from {axis.low} to {axis.high}.")
        rng = random.Random(seed_of(cls.id, seed, *sorted(chosen.items())))
        puzzle = cls.invent(rng, chosen)
        return Task(
            f"{cls.id}/{difficulty}/{seed}",
            cls.id,
            puzzle.prompt,
            parameters=puzzle.parameters,
            truth=puzzle.truth,
            tags=(f"level_{difficulty}",),
            difficulty=float(difficulty),
        )

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Build the initial state of the task. Raises: TaskError for invalid parameters."""
        self._task, self._parameters, self.seed, self.ended = task.id, task.parameters, seed, False
        parameters = json.dumps(dict(task.parameters), sort_keys=True)
        self._identity = hashlib.blake2b(parameters.encode(), digest_size=16).digest()
        self.state = self.begin()
        if self.solved():
            raise self.refuse("it is already solved before the first action.")
        return task.opening()

    def parameter(self, name: str, kind: type, default: Any = None) -> Any:
        """Return a parameter of the task, of the given type. Raises: TaskError naming task, parameter and value."""
        value = self._parameters.get(name, default)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TaskError(f"{self._task}: parameters[{name!r}] must be of type {kind.__name__}, not {value!r}.")
        return value

    def refuse(self, why: str) -> TaskError:
        """Return the error for parameters that have the right types but are not a valid puzzle."""
        return TaskError(f"{self._task}: {why}")

    def check_open(self) -> None:
        """Check that the episode is not over; every tool calls this first. Raises: ToolError if it is."""
        if self.ended:
            raise ToolError("It is over: nothing changes any more.")

    def settle(self) -> None:
        """End the episode if the puzzle is solved or lost; every tool calls this last."""
        if self.solved() or self.lost():
            self.end_episode()

    async def state_key(self) -> str | None:
        canonical = json.dumps(self.canonical(), sort_keys=True, separators=(",", ":")).encode()
        return hashlib.blake2b(canonical, key=self._identity, digest_size=12).hexdigest()

    async def potential(self) -> float | None:
        return self.nearness()

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({"state": copy.deepcopy(self.state)})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        self.state = copy.deepcopy(checkpoint.data["state"])
        self.settle()

    def verdict(self) -> Components:
        """Judge the final state. Returns: success and progress, which the reward `final_state` reads."""
        return {SUCCESS: float(self.solved()), "progress": self.nearness()}
