"""What gathers the groups of a step: playing them, growing them as trees, and wrappers that choose among more."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from agentgym.credit.named_parts import load_part, parse_part
from agentgym.errors import CreditError
from agentgym.knowledge import KnowledgeStore
from agentgym.task import TaskSet
from agentgym.training.gatherers.groups import GatheredGroup, in_groups
from agentgym.training.gatherers.step import StepRequest

FILE = "gatherers.json"
"""Of the states of the wrappers, in the folder of a checkpoint."""


Trait = Literal["mixes_groups", "repeats_turns", "writes_tasks", "replays", "reads_entropies"]


class Gatherer(Protocol):
    """Plays a step. A wrapper is a function of another gatherer, with options, that returns one.

    A wrapper with a state of its own, which a checkpoint has to keep, is a Stateful one. One in whose groups there may
    be episodes that were not judged together has `mixes_groups = True`; rewards that judge whole groups are then
    refused before the run. One whose episodes begin with turns of recorded ones has `repeats_turns = True`; a schedule
    of turns, which would cut them there, is then refused. One that also trains on writing tasks has
    `writes_tasks = True`; what only the set's environments and players give is then refused. One that asks the policy
    for entropies has `reads_entropies = True`; policies that cannot measure them are then refused.

    One that asks another gatherer for the step as it is, and only changes which of the groups and episodes that come
    back are trained on, has `plays_nothing = True`. It also wraps a GroupStream, whose episodes were begun before the
    step; all others are refused there. One that puts episodes of earlier steps into groups has `replays = True`. One
    that needs episodes which an earlier stage has recorded has their label as `recorded_label`. One that must see the
    step as a whole, and so is the last, has `is_outermost = True`.
    """

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather as many groups of `step.group_size` trained episodes as `step.tasks` has.

        Groups without a trained episode may stand among them: they were played, and count as such.
        """
        ...


@runtime_checkable
class Stateful(Protocol):
    """A wrapper that remembers something from step to step, and goes on from there after a resume."""

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as plain data for JSON."""
        ...

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`."""
        ...


@runtime_checkable
class TriesInstructions(Stateful, Protocol):
    """A wrapper that plays groups with several instructions."""

    @property
    def best_instruction(self) -> str:
        """The best so far, with which the policy is measured, and played in later stages."""
        ...


@runtime_checkable
class KeepsKnowledge(Stateful, Protocol):
    """A wrapper whose episodes are shown what earlier steps have taught."""

    store: KnowledgeStore
    """With which the policy is measured, and played in later stages."""


@runtime_checkable
class ReadsTasks(Protocol):
    """A wrapper that needs something of the task set: hints, or a scripted player."""

    def read_tasks(self, task_set: TaskSet) -> None:
        """Called with the run's task set before the first step. Raises: TaskError if it lacks what is needed."""
        ...


@dataclass(frozen=True, slots=True)
class WrappedGatherer:
    """A gatherer within its wrappers. `wrappers`: the innermost first."""

    outermost: Gatherer
    wrappers: tuple[Gatherer, ...] = ()

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """As Gatherer."""
        return self.outermost(step)

    def has(self, trait: Trait) -> bool:
        """Whether some wrapper says this of itself: see Gatherer."""
        return any(getattr(wrapper, trait, False) for wrapper in self.wrappers)

    @property
    def playing(self) -> list[int]:
        """Positions of the wrappers that play episodes themselves, instead of only choosing."""
        return [
            position for position, wrapper in enumerate(self.wrappers) if not getattr(wrapper, "plays_nothing", False)
        ]

    def read_tasks(self, task_set: TaskSet) -> None:
        """As ReadsTasks, to all wrappers."""
        for wrapper in self.wrappers:
            if isinstance(wrapper, ReadsTasks):
                wrapper.read_tasks(task_set)

    @property
    def tries_instructions(self) -> TriesInstructions | None:
        """The wrapper that plays groups with several instructions; None if none does."""
        return next((wrapper for wrapper in self.wrappers if isinstance(wrapper, TriesInstructions)), None)

    @property
    def best_instruction(self) -> str | None:
        """As TriesInstructions; None if no wrapper tries any."""
        return None if (wrapper := self.tries_instructions) is None else wrapper.best_instruction

    @property
    def knowledge(self) -> KnowledgeStore | None:
        """What earlier steps have taught; None if no wrapper keeps it."""
        return next((wrapper.store for wrapper in self.wrappers if isinstance(wrapper, KeepsKnowledge)), None)

    def save(self, folder: Path) -> None:
        """Write the states of the wrappers into the folder of a checkpoint."""
        states = [wrapper.state() if isinstance(wrapper, Stateful) else None for wrapper in self.wrappers]
        (folder / FILE).write_text(json.dumps(states), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        """Continue as at a checkpoint; one of before this, which has no such file, begins anew."""
        if not (folder / FILE).is_file():
            return
        states = json.loads((folder / FILE).read_text(encoding="utf-8"))
        for wrapper, state in zip(self.wrappers, states, strict=True):
            if isinstance(wrapper, Stateful):
                wrapper.load(state)


@dataclass(frozen=True, slots=True)
class Selection:
    """A wrapper that plays nothing: `choose` returns the groups of `inner`, those that are not chosen `untrained`."""

    inner: Gatherer
    choose: Callable[[list[GatheredGroup]], list[GatheredGroup]]
    plays_nothing: ClassVar[bool] = True

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """As Gatherer."""
        return self.choose(self.inner(step))


def play_groups(step: StepRequest) -> list[GatheredGroup]:
    """The gatherer that plays every episode from the start."""
    return in_groups(step.play(step.tasks, step.label, step.group_size), step.group_size)


def make_gatherer(base: Gatherer, wrappers: Sequence[str]) -> WrappedGatherer:
    """Wrap a gatherer, the innermost wrapper first, each with its options: `max_variance(factor=2)`.

    Raises: UnknownNameError; CreditError for options that a wrapper does not take, and for their order.
    """
    wrapped: list[Gatherer] = []
    for position, text in enumerate(wrappers):
        if wrapped and getattr(wrapped[-1], "is_outermost", False):
            raise CreditError(f"{wrappers[position - 1]} learns from all that a step plays: name it after {text}.")
        part = parse_part(text)
        base = load_part("gatherers", part.name, part.options)(base)
        wrapped.append(base)
    return WrappedGatherer(base, tuple(wrapped))
