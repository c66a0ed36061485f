"""What gathers the groups of a step: playing them, growing them as trees, and wrappers that choose among more."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np

from agentgym.credit.named_parts import load_part, parse_part
from agentgym.errors import CreditError
from agentgym.knowledge import KnowledgeStore
from agentgym.policy.contract import Policy
from agentgym.reward import Reward
from agentgym.rollout import Checkpoints, Fork, RolloutConfig
from agentgym.task import Task, TaskSet
from agentgym.training.rollouts.records import EpisodeRecords
from agentgym.trajectory import Assistance, Trajectory

T = TypeVar("T")
FILE = "gatherers.json"
"""Of the states of the wrappers, in the folder of a checkpoint."""
SAME_RETURN = 1e-9
"""Returns whose standard deviation is no greater are the same."""


def _no_more_tasks(count: int, further: int) -> Sequence[Task]:
    return []


class StepRollouts(Protocol):
    """What plays the episodes that a gatherer asks for: `agentgym.training.Rollouts`.

    Most gatherers use `play` and `branch` alone, by way of the StepRequest.

    Attributes:
        config: how episodes are played. It never changes.
        reward: who judges every episode; None where each environment has its own.
        records: the episodes that the run has recorded; None for a run without a ledger.
    """

    @property
    def config(self) -> RolloutConfig: ...

    @property
    def reward(self) -> Reward | None: ...

    @property
    def records(self) -> EpisodeRecords | None: ...

    def with_config(self, **changes: Any) -> StepRollouts:
        """Return rollouts that play with other options of the config: `with_config(instruction=...)`."""
        ...

    def play(
        self,
        policy: Policy | Callable[[Task], Policy],
        tasks: Sequence[Task],
        *,
        label: str,
        group_size: int | None = None,
        progress: float | None = None,
        on_trajectory: Callable[[Trajectory], None] | None = None,
        checkpoints: Checkpoints | None = None,
        assistance: Sequence[Assistance | None] = (),
    ) -> list[Trajectory]:
        """Play every task `group_size` times, groups consecutive. Raises: EpisodesFailed if every episode failed."""
        ...

    def branch(
        self, policy: Policy, forks: Sequence[Fork], group_size: int, *, label: str, record: bool = False
    ) -> list[Trajectory]:
        """Continue recorded episodes from their forks, `group_size` times each, in no order."""
        ...

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something to its end on the event loop of the episodes, and return its result."""
        ...

    def report(self, line: str) -> None:
        """Show a line where failures of episodes are shown."""
        ...


@dataclass(frozen=True, slots=True)
class StepRequest:
    """What a training step asks a gatherer for.

    Attributes:
        rollouts: plays the episodes, as its config says. policy: who acts in them.
        tasks: a group is gathered of each.
        label: see `Rollouts.play`. Each call for more episodes needs a label of its own.
        group_size: trained episodes of each group.
        progress: see `Rollouts.play`.
        assist: `assist(task, row, group_size)` is what helps the agent in episode `row` of a group of this task (see
            agentgym.trajectory.Assistance), or None. Without the function there is no help.
        more_tasks: `more_tasks(count, further)` draws tasks beside those of the step; `further` is 1 for the first
            such draw of a step, 2 for the next. The same numbers give the same tasks.
    """

    rollouts: StepRollouts
    policy: Policy
    tasks: Sequence[Task]
    label: str
    group_size: int
    progress: float | None = None
    more_tasks: Callable[[int, int], Sequence[Task]] = _no_more_tasks
    assist: Callable[[Task, int, int], Assistance | None] | None = None

    def with_config(self, **changes: Any) -> StepRequest:
        """Return the request with other options of the rollout config: `with_config(instruction=...)`."""
        return replace(self, rollouts=self.rollouts.with_config(**changes))

    def play(
        self,
        tasks: Sequence[Task],
        label: str,
        group_size: int,
        *,
        policy: Policy | Callable[[Task], Policy] | None = None,
        assistance: Sequence[Assistance] = (),
        on_trajectory: Callable[[Trajectory], None] | None = None,
    ) -> list[Trajectory]:
        """Play further episodes for this step, groups consecutive, under a label of their own.

        Args:
            policy: who acts, by default that of the step.
            assistance: what helps in each episode, by default as `assist` says.
            on_trajectory: called with each episode when it ends.
        """
        options: dict[str, Any] = {"label": label, "group_size": group_size, "progress": self.progress}
        if on_trajectory is not None:
            options["on_trajectory"] = on_trajectory
        if assistance:
            options["assistance"] = assistance
        elif self.assist is not None:
            options["assistance"] = [self.assist(task, row, group_size) for task in tasks for row in range(group_size)]
        return self.rollouts.play(policy or self.policy, tasks, **options)

    def branch(self, forks: Sequence[Fork], group_size: int, label: str) -> list[Trajectory]:
        """Continue recorded episodes from their forks, `group_size` times each, in no order, and record them."""
        return self.rollouts.branch(self.policy, forks, group_size, label=label, record=True)


@dataclass(frozen=True, slots=True)
class GatheredGroup:
    """The episodes of one task in a step.

    Attributes:
        trained: those that are compared with each other and trained on; none if the group was only played. Rows of
            episodes that were left out, or have not ended yet (see `train.group_quorum`), are not valid.
        left_out: others that were played. They count in the metrics and for the sampler, if nothing helped in them.
        replayed: ids of those of `trained` that an earlier step played. They count in neither.
        untrained_turns: by id, how many turns at the beginning of a trained episode have no loss: others took them.
    """

    trained: list[Trajectory]
    left_out: list[Trajectory] = field(default_factory=list)
    replayed: frozenset[str] = frozenset()
    untrained_turns: Mapping[str, int] = field(default_factory=dict)

    @property
    def episodes(self) -> list[Trajectory]:
        """All that this step played to their ends."""
        return [t for t in (*self.trained, *self.left_out) if t.stop_reason is not None and t.id not in self.replayed]

    @property
    def unaided(self) -> list[Trajectory]:
        """Those of `episodes` that tell how good the policy is: of the set's tasks, from the start, without help."""
        return [
            episode
            for episode in self.episodes
            if episode.provenance.assistance is None
            and not episode.task.is_of_one_step
            and not self.untrained_turns.get(episode.id)
        ]

    @property
    def returns(self) -> list[float]:
        """The returns of the valid episodes that are trained on."""
        return [trajectory.return_from() for trajectory in self.trained if trajectory.valid]

    @property
    def spread(self) -> float:
        """The standard deviation of the returns; 0 if fewer than two episodes are valid."""
        return float(np.std(self.returns)) if len(self.returns) > 1 else 0.0

    @property
    def differs(self) -> bool:
        """Whether the returns differ, so that a comparison within the group teaches something."""
        return self.spread > SAME_RETURN


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


def in_groups(trajectories: Sequence[Trajectory], group_size: int) -> list[GatheredGroup]:
    """Consecutive trajectories as groups, all of them trained."""
    starts = range(0, len(trajectories), group_size)
    return [GatheredGroup(list(trajectories[start : start + group_size])) for start in starts]


def untrained(group: GatheredGroup) -> GatheredGroup:
    """The group with none of its episodes trained on. Its rows stay, because a step has a fixed number of them."""
    rows = [Trajectory(f"{t.id}-left-out", t.task, t.sample) for t in group.trained]
    return GatheredGroup(rows, group.episodes)


def success_of(episode: Trajectory) -> float:
    """Success; the outcome's reward in an environment that has no such component."""
    return episode.outcome_reward if episode.success is None else episode.success


def fails_whole(group: GatheredGroup) -> bool:
    """Whether no valid episode of a group has any success, and there is one."""
    successes = [success_of(episode) for episode in group.trained if episode.valid]
    return bool(successes) and max(successes) <= 0


def without_help(episode: Trajectory, plain: Sequence[Trajectory]) -> Trajectory:
    """The episode as if its prompt had been that of an episode of the same task without help.

    The log-probabilities stay those of the prompt that was read, so the importance ratio of the loss is that between
    the prompts, too. The episode stays as it is if none of `plain` was begun.
    """
    other = next((t for t in plain if t.opening and t.provenance.assistance is None), None)
    return episode if other is None else replace(episode, opening=other.opening, prompt_ids=list(other.prompt_ids))


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


def gather_metrics(groups: Sequence[GatheredGroup]) -> dict[str, float]:
    """What a step played, and what it learns from.

    Returns: `gather/episodes` and `gather/groups`, all that were played; `gather/trained`, the valid episodes that are
        trained on; `gather/useful`, the share of the trained groups whose returns differ. Where there was help,
        `gather/assisted`, the valid trained episodes with any.
    """
    trained = [group for group in groups if group.trained]
    assisted = sum(t.valid and t.provenance.assistance is not None for group in trained for t in group.trained)
    return {
        **({"gather/assisted": assisted} if assisted else {}),
        "gather/episodes": sum(len(group.episodes) for group in groups),
        "gather/trained": sum(t.valid for group in trained for t in group.trained),
        "gather/groups": sum(bool(group.episodes) for group in groups),
        "gather/useful": sum(group.differs for group in trained) / max(1, len(trained)),
    }
