"""Groups whose episodes branch off where the policy is less sure than at the beginning of the episode."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from agentgym import AgentGymError, CreditError, Trajectory, seed_of
from agentgym.options import Count, Share, Weight
from agentgym.rollout import Fork
from agentgym.training import Exclusion, TrainingPart, TrainingPlan
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest


def other_generation(part: TrainingPart, plan: TrainingPlan) -> str:
    """Reject policies that cannot measure entropies."""
    if plan.train.generation == "transformers":
        return ""
    return (
        f"train.gather = {plan.train.gather} measures entropies, which train.generation = {plan.train.generation!r} "
        "does not offer. Set it to 'transformers', or leave the gatherer out."
    )


class EntropyForks(GathererWrapper):
    """Plays part of each group from the start; the rest branches off where a tool's result left the policy unsure.

    H_k is the entropy of the first `tokens` tokens of turn k: over the `top` likeliest tokens, at temperature 1,
    divided by the logarithm of the vocabulary's size, averaged. An episode forks before turn k > 0 if
    clip(U - weight * (H_k - H_0), 0, 1) <= threshold, where U is drawn uniformly from 0 to 1, once for each turn. Each
    fork adds an episode to the group. First the episodes from the start may fork, at the earliest turns first, then the
    added episodes, and so on until the group is full. Missing episodes are played from the start.

    The turns before a fork are repeated as recorded, in a fresh environment, and compared. They are trained on in every
    episode that contains them. With `grpo` this is the soft form of ARPO's credit. ARPO's hard form gives a shared turn
    the mean advantage of the episodes that contain it; its gradient is the same if no ratio is clipped.

    Whether an episode forks depends on what the policy reads and writes in it. So the episodes of a group are not
    independent samples, and an estimator's bias class is not valid for them.

    Args:
        roots: share of a group that is played from the start, at least 2 episodes.
        tokens, top: tokens whose entropy is measured.
        weight, threshold: as above; with `weight` 0 all turns are equally likely to fork.
    Raises: PolicyError for a policy that cannot measure entropies; CreditError for groups of fewer than 3.
    Source: ARPO, Dong et al. 2025, arXiv:2507.19849, and its code, where a group of 16 has 8 episodes from the start,
        and forks are decided while all episodes are at the same turn. Here they are decided after these episodes have
        ended, from the same record.
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = (
        GathererWrapper.background_play,
        GathererWrapper.group_rewards,
        other_generation,
    )

    def __init__(
        self,
        inner: Gatherer,
        *,
        roots: Share = 0.5,
        tokens: Count = 20,
        top: Annotated[int, Field(ge=2, le=20)] = 10,
        weight: Weight = 0.2,
        threshold: Share = 0.5,
    ) -> None:
        super().__init__(inner)
        self._roots, self._tokens, self._top = roots, tokens, top
        self._weight, self._threshold = weight, threshold

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step. Groups that the inner gatherer leaves out get no branches."""
        if step.group_size < 3:
            raise CreditError(
                f"entropy_forks: a group of {step.group_size} is too small for 2 episodes from the start and a "
                "branch. Raise train.group_size to at least 3, or leave entropy_forks out."
            )
        roots = min(step.group_size - 1, max(2, round(self._roots * step.group_size)))
        groups = self.inner(replace(step, group_size=roots))
        members = {index: list(group.trained) for index, group in enumerate(groups) if group.trained}
        room = {index: step.group_size - len(rows) for index, rows in members.items()}
        newest: Mapping[int, Sequence[Trajectory]] = members
        for number in range(step.group_size):
            forks = self._forks(step, newest, room)
            if not forks:
                break
            newest = self._branches_of(step, forks, f"{step.label}-fork{number}")
            for index, rows in newest.items():
                members[index] += rows
                room[index] -= len(rows)
        missing = [groups[index].trained[0].task for index, count in room.items() for _ in range(count)]
        rest = iter(step.play(missing, f"{step.label}-rest", 1) if missing else ())
        for index, count in room.items():
            members[index] += [next(rest) for _ in range(count)]
        return [
            replace(group, trained=members[index]) if index in members else group for index, group in enumerate(groups)
        ]

    def _forks(
        self, step: StepRequest, newest: Mapping[int, Sequence[Trajectory]], room: Mapping[int, int]
    ) -> list[tuple[int, Fork]]:
        """Return where the newest episodes of each group fork, as far as the group has room."""
        sources = [t for index, rows in newest.items() if room[index] for t in rows if _may_fork(t)]
        rises = dict(zip((t.id for t in sources), self._rises(step, sources), strict=True))
        forks: list[tuple[int, Fork]] = []
        for index, rows in newest.items():
            places = sorted(
                (turn, order)
                for order, trajectory in enumerate(rows)
                for turn in range(_first_own_turn(trajectory), len(trajectory.turns))
                if trajectory.id in rises and self.is_fork(trajectory, turn, rises[trajectory.id][turn])
            )
            forks += [(index, Fork(rows[order], turn)) for turn, order in places[: room[index]]]
        return forks

    def is_fork(self, trajectory: Trajectory, turn: int, rise: float) -> bool:
        """Return whether an episode forks before a turn with this rise of entropy since the first turn."""
        uniform = random.Random(seed_of("entropy_forks", trajectory.id, turn)).random()
        return min(1.0, max(0.0, uniform - self._weight * rise)) <= self._threshold

    def _rises(self, step: StepRequest, trajectories: Sequence[Trajectory]) -> list[list[float]]:
        """Return H_k - H_0 of every turn of each trajectory."""
        if not trajectories:
            return []
        tokenizer: Any = getattr(step.policy.renderer, "tokenizer", None)
        if tokenizer is None:
            raise AgentGymError(
                f"entropy_forks: {step.policy.name} has no tokenizer, so the entropy of its tokens cannot be "
                "measured. Train a local model or one behind vLLM, or leave entropy_forks out."
            )
        for trajectory in trajectories:
            trajectory.require_one_row("entropy_forks")
        pairs = [(t.prompt_ids, t.arrays().ids[len(t.prompt_ids) :].tolist()) for t in trajectories]

        async def measure_all() -> list[list[float]]:
            await step.policy.refresh()
            return await asyncio.gather(*(step.policy.entropies(*pair, self._top) for pair in pairs))

        measured = step.rollouts.finish(measure_all())
        rises = []
        for trajectory, values in zip(trajectories, measured, strict=True):
            spans = trajectory.turn_spans()
            levels = [float(np.mean(values[a : min(b, a + self._tokens)])) if b > a else 0.0 for a, b in spans]
            rises.append([(level - levels[0]) / float(np.log(len(tokenizer))) for level in levels])
        return rises

    def _branches_of(
        self, step: StepRequest, forks: Sequence[tuple[int, Fork]], label: str
    ) -> dict[int, list[Trajectory]]:
        """Return the branches, keyed by their group's position."""
        by_origin = {fork.trajectory.id: index for index, fork in forks}
        branches = step.branch([fork for _, fork in forks], 1, label)
        groups: dict[int, list[Trajectory]] = {}
        for branch in sorted(branches, key=lambda trajectory: trajectory.id):  # branches finish in any order
            assert branch.provenance.branch is not None
            groups.setdefault(by_origin[branch.provenance.branch.trajectory], []).append(branch)
        return groups


def _may_fork(trajectory: Trajectory) -> bool:
    return trajectory.valid and len(trajectory.turns) > _first_own_turn(trajectory)


def _first_own_turn(trajectory: Trajectory) -> int:
    """Return the first turn that may be forked, which follows the turn where the episode differs from others."""
    origin = trajectory.provenance.branch
    return 1 if origin is None else origin.turn + 1
