"""What every text world is: plain state in memory, made from a generated puzzle, judged by playing it again."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from agentgym import Checkpoint, Environment, Message, Task, ToolError
from agentgym.errors import TaskError
from agentgym.reward import SUCCESS, Components
from agentgym.task import seed_of

Script = Callable[[Sequence[Message]], Message]


@dataclass(frozen=True, slots=True)
class Axis:
    """One way in which a world is made harder: whole numbers from `low` to `high`, and what they count."""

    low: int
    high: int
    words: str


@dataclass(frozen=True, slots=True)
class Puzzle:
    """What a world invents: the words, what the world is built from, and what only judges and oracles may read."""

    prompt: str
    parameters: dict[str, Any]
    truth: Any


class TextWorld(Environment):
    """Base of the text worlds. All of it is in memory; nothing runs that the agent wrote, so nothing is isolated.

    A world sets `id`, `axes` and `levels` and writes `begin` (parameters to state), `solved`, `nearness`, `invent`
    (axes to puzzle), `oracle`, and tools that change `self.state`, plain data. Its `imperfect_oracle` and `gold`, if
    any, serve task sets.

    Attributes:
        id: the name it is registered under.
        axes: what `generate` may be asked for, by name.
        levels: the axes of difficulty 0, 1, 2, ...; what a level leaves out is at its axis's low end.
        state: the whole world as plain data: what a checkpoint holds.
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
        self._parameters: Mapping[str, Any] = {}

    # ---- what a world writes

    @abstractmethod
    def begin(self) -> dict[str, Any]:
        """The state at the start, from `self.parameter(...)`. Raises: TaskError for parameters that make no world."""

    @abstractmethod
    def solved(self) -> bool:
        """Whether the state is a solved one."""

    @abstractmethod
    def nearness(self) -> float:
        """How near the state is to a solved one, 0 to 1; 1 only where solved. A function of the state alone."""

    def lost(self) -> bool:
        """Whether the world is over without being solved."""
        return False

    def canonical(self) -> Any:
        """What makes two states of a task the same one: plain data, by default the whole state."""
        return self.state

    @classmethod
    @abstractmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        """A puzzle that can be solved, at these axes."""

    @staticmethod
    @abstractmethod
    def oracle(task: Task) -> Script:
        """A script that solves a task through the public tools."""

    # ---- what every world has

    @classmethod
    def generate(cls, seed: int, difficulty: int = 0, **axes: int) -> Task:
        """A task that can be solved; equal arguments, equal task, in every process.

        Args:
            difficulty: a level, 0 to `len(levels) - 1`. `axes`: override the level's own, by name.
        Raises: TaskError for a level, axis or value there is not.
        """
        if not 0 <= difficulty < len(cls.levels):
            raise TaskError(f"{cls.id} has no difficulty {difficulty}: levels are 0 to {len(cls.levels) - 1}.")
        chosen = {name: axis.low for name, axis in cls.axes.items()} | dict(cls.levels[difficulty]) | axes
        for name, value in chosen.items():
            axis = cls.axes.get(name)
            if axis is None:
                raise TaskError(f"{cls.id} has no axis {name!r}. Axes are {', '.join(cls.axes)}.")
            if not axis.low <= value <= axis.high:
                raise TaskError(f"{cls.id}: {name} = {value} ({axis.words}) is not in {axis.low} to {axis.high}.")
        rng = random.Random(seed_of(cls.id, seed, *sorted(chosen.items())))
        made = cls.invent(rng, chosen)
        return Task(
            f"{cls.id}/{difficulty}/{seed}", cls.id, made.prompt, parameters=made.parameters, truth=made.truth,
            tags=(f"level_{difficulty}",), difficulty=float(difficulty),
        )  # fmt: skip

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Build the task's world. Raises: TaskError if its parameters make none."""
        self._task, self._parameters, self.seed, self._ended = task.id, task.parameters, seed, False
        parameters = json.dumps(dict(task.parameters), sort_keys=True)
        self._identity = hashlib.blake2b(parameters.encode(), digest_size=16).digest()
        self.state = self.begin()
        if self.solved():
            raise self.refuse("it is solved before anything is done.")
        return task.opening()

    def parameter(self, name: str, kind: type, default: Any = None) -> Any:
        """A parameter of the task, of the given type. Raises: TaskError naming task, parameter and value."""
        value = self._parameters.get(name, default)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TaskError(f"{self._task}: parameters[{name!r}] is {value!r}; expected {kind.__name__}.")
        return value

    def refuse(self, why: str) -> TaskError:
        """The error for parameters that are of the right types and make no world."""
        return TaskError(f"{self._task}: {why}")

    def check_open(self) -> None:
        """Every tool begins with this. Raises: ToolError once the world is over."""
        if self._ended:
            raise ToolError("It is over: nothing changes any more.")

    def settle(self) -> None:
        """Every tool ends with this: a world that is solved or lost ends the episode."""
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
        """What the reward `final_state` asks of the world that an episode left behind."""
        return {SUCCESS: float(self.solved()), "progress": self.nearness()}
