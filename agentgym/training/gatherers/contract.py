"""Gatherers, which produce the groups of a step, and wrappers of gatherers, which for example play more groups and
select some.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from agentgym import registry
from agentgym.credit.named_parts import load_part, parse_part
from agentgym.errors import CreditError
from agentgym.storage.run_folder import RunFolder
from agentgym.task.task_set import TaskSet
from agentgym.training.fit import Exclusion, TrainingPlan
from agentgym.training.gatherers.groups import GatheredGroup
from agentgym.training.gatherers.step import StepRequest
from agentgym.training.parts import TrainingPart, TrainingRun

FILE = "gatherers.json"
"""Name of the file in a checkpoint's folder with the states of the wrappers."""


class Gatherer(Protocol):
    """Plays the episodes of a training step."""

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather as many groups as `step.tasks` has tasks, each with `step.group_size` trained episodes.

        The result may also contain groups without a trained episode: they count as played.
        """
        ...


def background_play(part: TrainingPart, plan: TrainingPlan) -> str:
    """Return why background play conflicts with a part that plays episodes; "" if nothing plays in the background."""
    if not plan.train.is_streamed:
        return ""
    return (
        f"{plan.train.stream_key} plays episodes in the background, before their step is trained, but train.gather: "
        f"{part.label} plays episodes while the step is trained. Remove {part.label}. Wrappers that only choose among "
        "finished groups may stay."
    )


def group_rewards(part: TrainingPart, plan: TrainingPlan) -> str:
    """Return why a reward that judges whole groups conflicts with a part, which may bring together episodes that were
    judged apart; "" for any other reward.
    """
    if not plan.has_group_reward:
        return ""
    return (
        f"train.gather = {plan.train.gather}: {type(plan.reward).__name__} judges whole groups, but {part.label} may "
        "bring together episodes that were judged apart. Remove the reward from [reward], or "
        f"{part.label} from train.gather."
    )


class GathererWrapper(TrainingPart):
    """Base of the wrappers: a wrapper is a gatherer that calls another gatherer, and a training part.

    A wrapper without state or hooks may instead be a function that takes a gatherer and options and returns a gatherer.

    Args:
        inner: the gatherer to call.

    Attributes:
        excludes: background play by default. Empty for a wrapper that only selects which of the returned groups and
            episodes are trained on.
        background_play, group_rewards: what a wrapper may name in `excludes`.
        is_outermost: whether the wrapper must see the whole step, and so be named last.
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = (background_play,)
    background_play = staticmethod(background_play)
    group_rewards = staticmethod(group_rewards)
    is_outermost: ClassVar[bool] = False

    def __init__(self, inner: Gatherer) -> None:
        self.inner = inner

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather the groups of a step; see Gatherer."""
        return self.inner(step)

    def read_tasks(self, task_set: TaskSet) -> None:
        """Read what the wrapper needs from the run's task set. Raises: TaskError if the task set lacks it."""

    def state(self) -> dict[str, Any] | None:
        """Return the state to save in a checkpoint, as JSON-compatible data; None for a stateless wrapper."""
        return None

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `state` returned."""


def branches(part: WrappedGatherer, plan: TrainingPlan) -> str:
    """Return why an estimator that compares tree branches conflicts with wrappers; "" if one of the two is absent."""
    if not part.wrappers or "branches" not in plan.train.make_estimator().requires:
        return ""
    return (
        f"train.gather = {plan.train.gather}: {plan.train.estimator} compares the branches of whole trees, of which a "
        "gatherer may leave some out. Leave train.gather out, or choose an estimator without branches."
    )


class WrappedGatherer(TrainingPart):
    """A gatherer with its wrappers, innermost first, each of which is also a training part: see `parts`."""

    excludes: ClassVar[tuple[Exclusion, ...]] = (branches,)

    def __init__(self, outermost: Gatherer, wrappers: Sequence[GathererWrapper] = ()) -> None:
        self._outermost, self.wrappers = outermost, tuple(wrappers)

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step; see Gatherer."""
        return self._outermost(step)

    def read_tasks(self, task_set: TaskSet) -> None:
        """Let all wrappers read the run's task set. Raises: TaskError if the task set lacks what a wrapper needs."""
        for wrapper in self.wrappers:
            wrapper.read_tasks(task_set)

    @property
    def parts(self) -> list[TrainingPart]:
        """Return this part and those of the wrappers, innermost first."""
        return [self, *self.wrappers]

    def prepare(self, run: TrainingRun) -> None:
        """Let all wrappers read the task set."""
        self.read_tasks(run.task_set)

    def trainer_options(self) -> Mapping[str, Any]:
        """Make the trainer gather with this object."""
        return {"gather": self}

    def save(self, folder: Path) -> None:
        """Write the states of the wrappers into a checkpoint's folder."""
        states = [wrapper.state() for wrapper in self.wrappers]
        (folder / FILE).write_text(json.dumps(states), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        """Restore the wrappers' states from a checkpoint; an older checkpoint without the file changes nothing."""
        if not (folder / FILE).is_file():
            return
        states = json.loads((folder / FILE).read_text(encoding="utf-8"))
        for wrapper, state in zip(self.wrappers, states, strict=True):
            if state is not None:
                wrapper.load(state)


def play_groups(step: StepRequest) -> list[GatheredGroup]:
    """Play every episode of a step from the start: the base gatherer."""
    return GatheredGroup.split(step.play(step.tasks, step.label, step.group_size), step.group_size)


def make_gatherer(base: Gatherer, wrappers: Sequence[str]) -> WrappedGatherer:
    """Wrap a gatherer in wrappers with options such as `max_variance(factor=2)`, named innermost first.

    Raises: UnknownNameError; CreditError for unknown options, for a wrapper named after one that must be outermost, and
        for a class with a method `state` or `read_tasks` that does not derive from GathererWrapper: neither method
        would be called.
    """
    wrapped: list[GathererWrapper] = []
    for text in wrappers:
        if wrapped and wrapped[-1].is_outermost:
            raise CreditError(
                f"train.gather: {wrapped[-1].label} reads every episode of a step, so it must come last. Write it "
                f"after {text}."
            )
        part = parse_part(text)
        gatherer = load_part("gatherers", part.name, part.options)(base)
        wrapper = gatherer if isinstance(gatherer, GathererWrapper) else GathererWrapper(gatherer)
        if wrapper is not gatherer and (
            ignored := [name for name in ("state", "read_tasks") if hasattr(gatherer, name)]
        ):
            raise CreditError(
                f"The gatherer {text!r} defines {' and '.join(ignored)}, which agentgym would not call. Derive its "
                "class from agentgym.training.gatherers.GathererWrapper."
            )
        wrapper.label = text
        wrapped.append(wrapper)
        base = wrapper
    return WrappedGatherer(base, wrapped)


def changes_left_in(folder: RunFolder, wrappers: Sequence[str]) -> dict[str, Any]:
    """Return the changes of the rollout config that wrappers saved in a stage's folder for later stages."""
    changes: dict[str, Any] = {}
    for text in wrappers:
        wrapper = registry.load("gatherers", parse_part(text).name)
        if isinstance(wrapper, type) and issubclass(wrapper, GathererWrapper):
            changes |= wrapper.changes_left_in(folder)
    return changes
