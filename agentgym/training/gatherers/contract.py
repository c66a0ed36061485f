"""What gathers the groups of a step: playing them, growing them as trees, and wrappers that choose among more."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from agentgym import registry
from agentgym.credit.named_parts import load_part, parse_part
from agentgym.errors import CreditError
from agentgym.storage.run_folder import RunFolder
from agentgym.task import TaskSet
from agentgym.training.fit import Exclusion, TrainingPlan
from agentgym.training.gatherers.groups import GatheredGroup, in_groups
from agentgym.training.gatherers.step import StepRequest
from agentgym.training.parts import TrainingPart, TrainingRun

FILE = "gatherers.json"
"""Of the states of the wrappers, in the folder of a checkpoint."""


class Gatherer(Protocol):
    """Plays a step."""

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather as many groups of `step.group_size` trained episodes as `step.tasks` has.

        Groups without a trained episode may stand among them: they were played, and count as such.
        """
        ...


def background_play(part: TrainingPart, plan: TrainingPlan) -> str:
    """Exclude playing in the background: its episodes were begun before a wrapper could play any."""
    if not plan.train.is_streamed:
        return ""
    return (
        f"{plan.train.stream_key} plays episodes in the background: train.gather: {part.label} plays episodes of a "
        "step when it is trained, and here they were begun before. Leave it out. Wrappers that only choose among "
        "finished groups may stay."
    )


def group_rewards(part: TrainingPart, plan: TrainingPlan) -> str:
    """Exclude rewards that judge whole groups: the episodes of a group may not have been judged together."""
    if not plan.has_group_reward:
        return ""
    return (
        f"train.gather = {plan.train.gather}: episodes of a group may not have been judged together, and "
        f"{type(plan.reward).__name__} judges whole groups. Take that out of [reward], or {part.label} out."
    )


class GathererWrapper(TrainingPart):
    """Base of the wrappers: a gatherer that asks another one, and a part of the training.

    A wrapper that needs none of this may also be a function of the other gatherer, with options, that returns one.

    Args:
        inner: the gatherer that it asks.

    Attributes:
        excludes: by default playing in the background. A wrapper that only changes which of the groups and episodes
            that come back are trained on excludes nothing.
        is_outermost: whether it must see the step as a whole, and so be the last.
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = (background_play,)
    is_outermost: ClassVar[bool] = False

    def __init__(self, inner: Gatherer) -> None:
        self.inner = inner

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step; see Gatherer."""
        return self.inner(step)

    def read_tasks(self, task_set: TaskSet) -> None:
        """Read what it needs of the run's task set. Raises: TaskError if that lacks it."""

    def state(self) -> dict[str, Any] | None:
        """Return what a checkpoint keeps, as plain data for JSON; None for a wrapper that remembers nothing."""
        return None

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`."""


class Selection(GathererWrapper):
    """Plays nothing: `choose` returns the groups of `inner`, those that are not chosen `untrained`."""

    excludes: ClassVar[tuple[Exclusion, ...]] = ()

    def __init__(self, inner: Gatherer, choose: Callable[[list[GatheredGroup]], list[GatheredGroup]]) -> None:
        super().__init__(inner)
        self._choose = choose

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step, and choose among its groups."""
        return self._choose(self.inner(step))


def branches(part: WrappedGatherer, plan: TrainingPlan) -> str:
    """Exclude estimators that compare the branches of trees, if there are wrappers."""
    if not part.wrappers or "branches" not in plan.train.make_estimator().requires:
        return ""
    return (
        f"train.gather = {plan.train.gather}: {plan.train.estimator} compares the branches of whole trees, of which a "
        "gatherer may leave some out. Leave train.gather out, or choose an estimator without branches."
    )


class WrappedGatherer(TrainingPart):
    """A gatherer within its wrappers, which are asked together. `wrappers`: the innermost first."""

    excludes: ClassVar[tuple[Exclusion, ...]] = (branches,)

    def __init__(self, outermost: Gatherer, wrappers: Sequence[GathererWrapper] = ()) -> None:
        self._outermost, self.wrappers = outermost, tuple(wrappers)

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step; see Gatherer."""
        return self._outermost(step)

    def read_tasks(self, task_set: TaskSet) -> None:
        """Let all wrappers read the run's task set. Raises: TaskError if it lacks what one of them needs."""
        for wrapper in self.wrappers:
            wrapper.read_tasks(task_set)

    def prepare(self, run: TrainingRun) -> None:
        """Let all wrappers read the task set and load what they need."""
        self.read_tasks(run.task_set)
        for wrapper in self.wrappers:
            wrapper.prepare(run)

    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        """Yield what the wrappers lack, and what they do not go with, the innermost wrapper first."""
        for wrapper in self.wrappers:
            yield from wrapper.requires(plan)
            yield from wrapper.conflicts(plan)

    def rollout_changes(self) -> Mapping[str, Any]:
        """Return the changes of all wrappers."""
        return {key: value for wrapper in self.wrappers for key, value in wrapper.rollout_changes().items()}

    def measurement_changes(self) -> Mapping[str, Any]:
        """Return the changes of all wrappers."""
        return {key: value for wrapper in self.wrappers for key, value in wrapper.measurement_changes().items()}

    def trainer_options(self) -> Mapping[str, Any]:
        """Let the trainer gather with it."""
        return {"gather": self}

    def save(self, folder: Path) -> None:
        """Write the states of the wrappers into the folder of a checkpoint."""
        states = [wrapper.state() for wrapper in self.wrappers]
        (folder / FILE).write_text(json.dumps(states), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        """Let the wrappers continue as at a checkpoint; one of before this, which has no such file, changes nothing."""
        if not (folder / FILE).is_file():
            return
        states = json.loads((folder / FILE).read_text(encoding="utf-8"))
        for wrapper, state in zip(self.wrappers, states, strict=True):
            if state is not None:
                wrapper.load(state)

    def finish(self, run: TrainingRun) -> None:
        """Let all wrappers leave what later stages need."""
        for wrapper in self.wrappers:
            wrapper.finish(run)

    def close(self) -> None:
        """Let all wrappers close what they have opened."""
        for wrapper in self.wrappers:
            wrapper.close()


def play_groups(step: StepRequest) -> list[GatheredGroup]:
    """Return the gatherer that plays every episode from the start."""
    return in_groups(step.play(step.tasks, step.label, step.group_size), step.group_size)


def make_gatherer(base: Gatherer, wrappers: Sequence[str]) -> WrappedGatherer:
    """Wrap a gatherer, the innermost wrapper first, each with its options: `max_variance(factor=2)`.

    Raises: UnknownNameError; CreditError for options that a wrapper does not take, for their order, and for a class
        with a state that does not derive from GathererWrapper: its state would be lost.
    """
    wrapped: list[GathererWrapper] = []
    for text in wrappers:
        if wrapped and wrapped[-1].is_outermost:
            raise CreditError(f"{wrapped[-1].label} learns from all that a step plays: name it after {text}.")
        part = parse_part(text)
        gatherer = load_part("gatherers", part.name, part.options)(base)
        wrapper = gatherer if isinstance(gatherer, GathererWrapper) else GathererWrapper(gatherer)
        if wrapper is not gatherer and (
            ignored := [name for name in ("state", "read_tasks") if hasattr(gatherer, name)]
        ):
            raise CreditError(
                f"The gatherer {text!r} has {' and '.join(ignored)}, which would not be called: derive its class from "
                "agentgym.training.gatherers.GathererWrapper."
            )
        wrapper.label = text
        wrapped.append(wrapper)
        base = wrapper
    return WrappedGatherer(base, wrapped)


def changes_left_in(folder: RunFolder, wrappers: Sequence[str]) -> dict[str, Any]:
    """Return what wrappers have left in the folder of a stage: changes of the rollout config for later stages."""
    changes: dict[str, Any] = {}
    for text in wrappers:
        wrapper = registry.load("gatherers", parse_part(text).name)
        if isinstance(wrapper, type) and issubclass(wrapper, GathererWrapper):
            changes |= wrapper.changes_left_in(folder)
    return changes
