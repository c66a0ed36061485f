"""Play groups ahead of the trainer, and hand over finished ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from threading import Condition
from typing import Any

from agentgym.errors import AgentGymError, RecipeError
from agentgym.evaluation.diagnostics import age_metrics
from agentgym.policy.contract import Policy
from agentgym.rollout.manager import EpisodeManager
from agentgym.rollout.rollouts import Rollouts
from agentgym.rollout.workers.slots import Slots
from agentgym.rollout.workers.standstill import StandstillWatch
from agentgym.task.definition import Task
from agentgym.training.asynchronous.step_groups import StepGroups
from agentgym.training.gatherers import GatheredGroup, StepRequest


@dataclass(frozen=True, slots=True)
class Capacity:
    """Limits the lead of playing over training, so that no group becomes too old to train on.

        in flight + queued <= (staleness + version + 1) * groups_per_step - consumed

    Attributes:
        staleness: how many batches of groups playing may be ahead of training; with 0, each batch is played with the
            very weights that are then trained on it.
        groups_per_step: number of groups per batch.
        total: number of groups in the whole training; None for no limit.
    Source: the inequality of AReaL, Fu et al. 2025, arXiv:2505.24298, eq. 3, counted in groups.
    """

    staleness: int
    groups_per_step: int
    total: int | None = None

    def room(self, *, version: int, consumed: int, outstanding: int) -> int:
        """Return how many groups may begin.

        Args:
            version: number of batches trained on. `consumed`: number of groups handed to the trainer.
            outstanding: number of groups in flight and queued.
        """
        begun = consumed + outstanding
        allowed = (self.staleness + version + 1) * self.groups_per_step
        if self.total is not None:
            allowed = min(allowed, self.total)
        return max(0, allowed - begun)


Draw = Callable[[int, int], Sequence[Task]]
"""A function that is given a number of tasks and a batch's number, and returns tasks for that batch: fewer if its
source is exhausted.
"""


class GroupStream:
    """A background player and the queue of its finished groups. `gather` is a Gatherer.

    Groups begin one batch at a time, as Capacity permits. The trainer takes ready groups, oldest first, so a slow group
    does not delay the trainer. All methods are called in the trainer's thread; episodes are played on the rollouts'
    loop, which runs in its own thread (see `EpisodeLoop.in_thread`).

    Args:
        rollouts: plays the episodes, with the scheduled config of the step for which a batch was begun.
        sampler: the policy that plays.
        take_weights: gives the model's current weights, with a version, to the sampler, and returns when the sampler
            uses them.
        draw: returns the tasks of a batch. If it returns too few, the source is exhausted and no more batches begin.
        label: prefix of the episodes' labels; the step's number is appended.
        capacity: limits the lead of playing.
        group_size: number of episodes per group. `quorum`: number of valid episodes that make a group ready.
        iterations: number of optimiser steps per batch.
    """

    def __init__(
        self,
        rollouts: Rollouts,
        sampler: Policy,
        take_weights: Callable[[int], None],
        *,
        draw: Draw,
        label: str,
        capacity: Capacity,
        group_size: int,
        quorum: int | None = None,
        iterations: int = 1,
    ) -> None:
        self._rollouts, self._sampler, self._take_weights = rollouts, sampler, take_weights
        self._draw, self._label, self._capacity = draw, label, capacity
        self._group_size, self._quorum, self._iterations = group_size, quorum or group_size, iterations
        self._manager = EpisodeManager(sampler, rollouts.config, ledger=rollouts.ledger)
        self._slots = Slots(rollouts.config.concurrency)
        self._watch = StandstillWatch(rollouts.config.stall_warning_s)
        self._changed = Condition()  # guards the steps and the error, which both threads use
        self._steps: list[StepGroups] = []  # steps with groups not yet handed over or episodes still playing
        self._error: BaseException | None = None
        self._playing: set[asyncio.Task[None]] = set()  # used only on the loop
        self._begun = 0  # batches
        self._consumed = 0  # groups
        self._trained = 0  # batches
        self._since_gathered = 0  # optimiser steps on the trainer's current batch
        self._late = 0  # late episodes of steps no longer in _steps
        self.is_exhausted = False
        self.metrics: dict[str, float] = {}

    def limit(self, batches: int) -> None:
        """Limit playing to this many more batches."""
        total = self._consumed + batches * self._capacity.groups_per_step
        self._capacity = replace(self._capacity, total=total)

    def publish(self, version: int, *, progress: float | None = None) -> None:
        """Give the model's current weights to the sampler, and begin the groups that Capacity now permits.

        Args:
            version: number of optimiser steps that made these weights.
            progress: see `Rollouts.play`. A reward's schedules apply it to all episodes in flight.
        Raises: the error that stopped the player, if any.
        """
        self.raise_error()
        started = time.perf_counter()
        self._take_weights(version)
        self.metrics["async/publish_s"] = time.perf_counter() - started
        if progress is not None and self._rollouts.reward is not None:
            self._rollouts.reward.set_progress(progress)
        self._open_gate()

    def step_ended(self) -> None:
        """Count an optimiser step; call after each step, before `publish`."""
        self._since_gathered += 1
        if self._since_gathered == self._iterations:
            self._trained += 1

    def gather(self, step: StepRequest) -> list[GatheredGroup]:
        """Wait for as many groups as the request has tasks. The request's tasks are not played: each group's task was
        drawn when the group began.

        Raises: EpisodesFailed if none of their episodes was played to its end; AgentGymError if too few groups are
            left; the error that stopped the player, if any.
        """
        count, started = len(step.tasks), time.perf_counter()
        with self._changed:
            self._changed.wait_for(
                lambda: self._error is not None or self._ready_count() >= count or self.outstanding < count
            )
            self.raise_error()
            if self._ready_count() < count:
                raise AgentGymError(
                    f"The source of tasks is exhausted: a step trains on {count} groups, but only {self.outstanding} "
                    "are left. Give the sampler more tasks, or lower train.tasks_per_step or train.steps."
                )
            ready = [(begun, group) for begun in self._steps for group in begun.ready][:count]
            groups = [begun.take(group) for begun, group in ready]
            self._consumed += count
        self._since_gathered = 0
        self._note(groups, time.perf_counter() - started)
        labels = {begun.label for begun, _ in ready}
        episodes = [trajectory for group in groups for trajectory in group.episodes]
        self._rollouts.report_failures(step.label, episodes, recorded_as=labels)
        return groups

    @property
    def outstanding(self) -> int:
        """Return the number of groups in flight and queued."""
        return sum(step.outstanding for step in self._steps)

    def state(self) -> dict[str, Any]:
        """Return the state to save in a checkpoint, as plain data: the groups begun and those handed over."""
        with self._changed:
            steps = [
                {"number": s.number, "tasks": [task.id for task in s.tasks], "consumed": sorted(s.consumed)}
                for s in self._steps
                if s.outstanding
            ]
            late = self._late + sum(step.late for step in self._steps)
        return {"begun": self._begun, "consumed": self._consumed, "late": late, "steps": steps}

    def resume(self, state: Mapping[str, Any], tasks: Collection[Task]) -> None:
        """Resume from a `state`: begin the groups that were not handed over again, under their labels.

        Their finished episodes are read from the ledger, even if older weights sampled them; the others are played
        again. Groups that were handed over are neither read nor played.

        Raises: RecipeError if the state names an unknown task.
        """
        by_id = {task.id: task for task in tasks}
        self._begun, self._consumed, self._late = state["begun"], state["consumed"], state["late"]
        self._trained = self._consumed // self._capacity.groups_per_step  # the batch in hand is not trained on again
        for step in state["steps"]:
            if missing := [name for name in step["tasks"] if name not in by_id]:
                raise RecipeError(
                    f"The checkpoint has unfinished groups of the task {missing[0]!r}, which the task set does not "
                    "contain. Resume with the task set that the run was started with."
                )
            self._play([by_id[name] for name in step["tasks"]], step["number"], set(step["consumed"]))

    def raise_error(self) -> None:
        """Raise the error that stopped the player, if any."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Stop playing: cancel and discard the episodes in flight, and close their environments."""

        async def stop() -> None:
            playing = list(self._playing)
            for task in playing:
                task.cancel()
            await asyncio.gather(*playing, return_exceptions=True)

        self._rollouts.loop.run(stop())

    def _open_gate(self) -> None:
        """Begin as many whole steps as Capacity permits."""
        size = self._capacity.groups_per_step
        while not self.is_exhausted:
            with self._changed:
                outstanding = self.outstanding
            room = self._capacity.room(version=self._trained, consumed=self._consumed, outstanding=outstanding)
            if room < size:
                return
            number = self._begun * self._iterations
            tasks = list(self._draw(size, self._begun))
            self.is_exhausted = len(tasks) < size
            self._begun += 1
            if tasks:
                self._play(tasks, number, set())

    def _play(self, tasks: Sequence[Task], number: int, consumed: set[int]) -> None:
        step = StepGroups(
            number, f"{self._label}-{number:06d}", tasks, self._group_size, self._quorum, consumed=consumed
        )
        with self._changed:
            self._steps.append(step)
        skip = frozenset(consumed)
        manager = self._manager.with_config(self._rollouts.at_step(number).config)

        async def play() -> None:
            """Play the episodes of a step on the event loop."""
            task = asyncio.current_task()
            assert task is not None
            self._playing.add(task)
            error: BaseException | None = None
            stream = manager.stream(
                tasks,
                self._group_size,
                label=step.label,
                skip=skip,
                slots=self._slots,
                watch=self._watch,
            )
            try:
                async with aclosing(stream) as results:  # type: ignore[type-var]
                    async for position, trajectory in results:
                        with self._changed:
                            if step.add(position, trajectory):
                                self._changed.notify_all()
            except Exception as stopped_by:  # noqa: BLE001  whatever stops the player is raised in the trainer
                error = stopped_by
            finally:
                self._playing.discard(task)
                with self._changed:
                    step.is_played = True
                    self._error = self._error or error
                    self._changed.notify_all()

        self._rollouts.loop.submit(play())

    def _ready_count(self) -> int:
        return sum(len(step.ready) for step in self._steps)

    def _note(self, groups: Sequence[GatheredGroup], waited_s: float) -> None:
        """Set the metrics of the batch that the trainer now gets, and forget finished steps."""
        bound = self._capacity.staleness * self._iterations
        trajectories = [trajectory for group in groups for trajectory in group.trained]
        with self._changed:
            queued = self._ready_count()
            self._late += sum(step.late for step in self._steps if step.is_over)
            self._steps = [step for step in self._steps if not step.is_over]
            late = self._late + sum(step.late for step in self._steps)
            in_flight = self.outstanding - queued
        self.metrics |= age_metrics(trajectories, version=self._sampler.version, bound=bound)
        self.metrics |= {
            "async/queued": float(queued),
            "async/in_flight": float(in_flight),
            "async/episodes": float(self._slots.taken),
            "async/late": float(late),
            "async/waited_s": waited_s,
        }
