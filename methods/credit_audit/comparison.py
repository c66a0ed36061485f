"""Audit whether an estimator's credit agrees with the value of turns, measured by continuing a sample of episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentgym import EpisodeManager, EvaluationError, Trajectory
from agentgym.credit import Array, Estimator, Group
from agentgym.rollout import Fork

from .agreement import Agreement, GroupStatistics, agreement, counterfactual_credit, group_statistics


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        agreements: how well each estimator agrees with counterfactual credit, by name. `facts`: statistics by name.
        trajectories, turns: number of trajectories and turns compared.
        continuations: number of continuations played. `diverged`: number of those that differed from the record.
        noise: mean standard error of the counterfactual credit of one turn, in reward units. If the noise is as large
            as the credit, agreement says little.
    """

    agreements: dict[str, Agreement]
    facts: dict[str, GroupStatistics]
    trajectories: int
    turns: int
    continuations: int
    diverged: int
    noise: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Trajectories whose credit is compared with the returns of continuations from their turns.

    Attributes:
        groups: lists of trajectories; each list has one task. `advantages`: one per turn, by estimator name.
        places: for each chosen trajectory, the index of its group and its index in the group.
    """

    groups: Sequence[Sequence[Trajectory]]
    advantages: Mapping[str, Sequence[Sequence[Array]]]
    places: Sequence[tuple[int, int]]

    @property
    def forks(self) -> list[Fork]:
        """The forks from which episodes are continued: before each turn of the chosen trajectories but the first, whose
        value is the mean return of the group.
        """
        chosen = (self.groups[g][i] for g, i in self.places)
        return [Fork(trajectory, turn) for trajectory in chosen for turn in range(1, len(trajectory.turns))]

    def compared(self, continuations: Iterable[Trajectory], *, seed: int = 0) -> Audit:
        """Compare the advantages with the returns of episodes continued from the forks.

        Args:
            seed: the seed of the bootstrap.
        Raises: EvaluationError if no trajectory of the sample has a continuation from each of its turns.
        """
        returns: dict[tuple[str, int], list[float]] = {}
        ended, diverged = 0, 0
        for other in continuations:
            ended += 1
            fork = other.provenance.branch
            if other.valid and fork is not None:
                returns.setdefault((fork.trajectory, fork.turn), []).append(other.return_from(fork.turn))
            else:
                diverged += 1
        truth: list[Array] = []
        positions: list[tuple[int, int]] = []
        errors: list[float] = []
        for g, i in self.places:
            trajectory = self.groups[g][i]
            later = [returns.get((trajectory.id, turn), []) for turn in range(1, len(trajectory.turns))]
            if not all(later):  # its environment could not be replayed
                continue
            start = [t.return_from() for t in self.groups[g] if t.valid]
            values = np.array([np.mean(start), *(np.mean(values_at) for values_at in later), trajectory.outcome_reward])
            truth.append(counterfactual_credit(trajectory.turn_rewards(), values))
            positions.append((g, i))
            errors += [_standard_error(values_at) for values_at in (start, *later)]
        if not positions:
            raise EvaluationError(
                "No trajectory of the sample could be continued: every replay differed from its record, or failed. "
                "Environments that depend on the clock or on outside services cannot be audited this way."
            )
        built = [Group.from_trajectories(group) for group in self.groups]
        return Audit(
            {
                n: agreement([given[g][i] for g, i in positions], truth, seed=seed)
                for n, given in self.advantages.items()
            },
            {name: group_statistics(built, given) for name, given in self.advantages.items()},
            len(positions),
            sum(len(values_at) for values_at in truth),
            ended,
            diverged,
            float(np.mean(errors)),
        )


def draw(
    groups: Sequence[Sequence[Trajectory]],
    advantages: Mapping[str, Sequence[Sequence[Array]]],
    *,
    sample: int,
    seed: int = 0,
) -> Sample:
    """Choose at random up to `sample` valid trajectories from groups with at least two valid ones.

    Raises: EvaluationError if no group holds two valid trajectories.
    """
    usable = [g for g, group in enumerate(groups) if sum(t.valid for t in group) > 1]
    if not usable:
        raise EvaluationError(
            "No group has two valid trajectories, so there is no credit to compare. Play groups of at least two "
            "episodes."
        )
    usable_groups = [groups[g] for g in usable]
    places = [(g, i) for g, group in enumerate(usable_groups) for i, t in enumerate(group) if t.valid]
    order = np.random.default_rng(seed).permutation(len(places))[:sample]
    usable_advantages = {name: [given[g] for g in usable] for name, given in advantages.items()}
    return Sample(usable_groups, usable_advantages, [places[int(position)] for position in order])


async def audit(
    groups: Sequence[Sequence[Trajectory]],
    estimators: Sequence[Estimator],
    manager: EpisodeManager,
    *,
    sample: int = 16,
    continuations: int = 8,
    seed: int = 0,
    recorded: Mapping[str, Mapping[str, Array]] = {},
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Compare estimators with counterfactual credit on a random sample of trajectories.

    Before each turn of a chosen trajectory except the first, fork `continuations` episodes and play them with the
    manager's policy. That policy should be the one that played the groups, or similar to it.

    Args:
        groups: lists of trajectories; each list has one task. `sample`: number of trajectories to continue.
        manager: plays the continuations; its policy, reward, budgets and sampling should match the run.
        recorded: advantages from a record, by estimator name and then by trajectory id.
        progress: called with the number of ended continuations and their total.
    Raises: EvaluationError if no group holds two valid trajectories, no trajectory can be continued, or `recorded`
    lacks a trajectory; MissingSignalError if a group lacks a signal that an estimator needs.
    """
    usable = [list(group) for group in groups if sum(t.valid for t in group) > 1]
    built = [Group.from_trajectories(group) for group in usable]
    advantages = {e.name: [credit.advantages for credit in e.batch(built)] for e in estimators}
    for name, by_id in recorded.items():
        if missing := [t.id for group in usable for t in group if t.id not in by_id]:
            raise EvaluationError(
                f"The ledger has no advantages of {missing[0]!r} under the name {name!r}. Name the estimator that the "
                "run was trained with."
            )
        advantages[name] = [[by_id[t.id] for t in group] for group in usable]
    chosen = draw(usable, advantages, sample=sample, seed=seed)
    forks, continued = chosen.forks, []
    async for other in manager.branch(forks, continuations):
        continued.append(other)
        if progress is not None:
            progress(len(continued), len(forks) * continuations)
    return chosen.compared(continued, seed=seed)


def _standard_error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
