"""Does the credit that an estimator gives agree with what the turns brought? Asked of a sample, by playing on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentgym.credit import Estimator, Group, batch_advantages
from agentgym.credit.audit import Agreement, GroupStatistics, agreement, counterfactual_credit, group_statistics
from agentgym.credit.signals import Array
from agentgym.errors import EvaluationError
from agentgym.rollout import Fork
from agentgym.rollout.manager import EpisodeManager
from agentgym.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found.

    Attributes:
        agreements, facts: by name of the estimator.
        trajectories, turns: how many were compared. `played`, `diverged`: continuations, and those of them whose
            world did not answer as it had.
        noise: mean standard error of the counterfactual credit of one turn, in reward units: where it is as large
            as the credit itself, agreement says little.
    """

    agreements: dict[str, Agreement]
    facts: dict[str, GroupStatistics]
    trajectories: int
    turns: int
    played: int
    diverged: int
    noise: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Trajectories whose credit is to be compared with what playing on from their turns brings.

    Attributes:
        groups: the trajectories of one task each. `advantages`: of every turn of theirs, by name of the estimator.
        places: which were chosen, as group and trajectory.
    """

    groups: Sequence[Sequence[Trajectory]]
    advantages: Mapping[str, Sequence[Sequence[Array]]]
    places: Sequence[tuple[int, int]]

    @property
    def forks(self) -> list[Fork]:
        """Before every turn of the sample but the first: the start is valued by the group itself."""
        chosen = (self.groups[g][i] for g, i in self.places)
        return [Fork(trajectory, turn) for trajectory in chosen for turn in range(1, len(trajectory.turns))]

    def compared(self, played: Iterable[Trajectory], *, seed: int = 0) -> Audit:
        """Compare with episodes played on from the forks.

        Args:
            seed: of the bootstrap.
        Raises: EvaluationError when no trajectory of the sample has a continuation from each of its turns.
        """
        returns: dict[tuple[str, int], list[float]] = {}
        ended, diverged = 0, 0
        for other in played:
            ended += 1
            fork = other.provenance.branch
            if other.valid and fork is not None:
                returns.setdefault((fork.trajectory, fork.turn), []).append(other.return_from(fork.turn))
            else:
                diverged += 1
        truth: list[Array] = []
        kept: list[tuple[int, int]] = []
        errors: list[float] = []
        for g, i in self.places:
            trajectory = self.groups[g][i]
            found = [returns.get((trajectory.id, turn), []) for turn in range(1, len(trajectory.turns))]
            if not all(found):  # its world would not be replayed
                continue
            start = [t.return_from() for t in self.groups[g] if t.valid]
            values = np.array([np.mean(start), *(np.mean(one) for one in found), trajectory.outcome_reward])
            truth.append(counterfactual_credit(trajectory.turn_rewards(), values))
            kept.append((g, i))
            errors += [_standard_error(one) for one in (start, *found)]
        if not kept:
            raise EvaluationError(
                "No trajectory of the sample could be played on: every replay differed from its record, or failed. "
                "Environments with clocks or outside services cannot be audited so."
            )
        built = [Group.from_trajectories(group) for group in self.groups]
        return Audit(
            {n: agreement([given[g][i] for g, i in kept], truth, seed=seed) for n, given in self.advantages.items()},
            {name: group_statistics(built, given) for name, given in self.advantages.items()},
            len(kept),
            sum(len(one) for one in truth),
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
    """Choose at random up to `sample` valid trajectories of groups with at least two of them.

    Raises: EvaluationError when there is no such group.
    """
    usable = [g for g, group in enumerate(groups) if sum(t.valid for t in group) > 1]
    if not usable:
        raise EvaluationError("No group holds two valid trajectories: there is no credit to compare.")
    usable_groups = [groups[g] for g in usable]
    places = [(g, i) for g, group in enumerate(usable_groups) for i, t in enumerate(group) if t.valid]
    order = np.random.default_rng(seed).permutation(len(places))[:sample]
    usable_advantages = {name: [given[g] for g in usable] for name, given in advantages.items()}
    return Sample(usable_groups, usable_advantages, [places[int(place)] for place in order])


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

    From before every turn of the sample but the first, `continuations` episodes are played on with the manager's
    policy. The policy should be the one that played the groups, or near it.

    Args:
        groups: the trajectories of one task each. `sample`: how many trajectories to play on from.
        manager: plays the continuations; its policy, reward, budgets and sampling should be those of the run.
        recorded: advantages that were given to every trajectory once, by a name for them and the trajectory's id.
        progress: called with the continuations that ended, and all of them.
    Raises: EvaluationError when no group holds two valid trajectories, none can be played on, or one is not recorded;
        MissingSignalError when a group lacks what an estimator needs.
    """
    usable = [list(group) for group in groups if sum(t.valid for t in group) > 1]
    built = [Group.from_trajectories(group) for group in usable]
    advantages = {one.name: batch_advantages(one, built) for one in estimators}
    for name, by_id in recorded.items():
        if missing := [t.id for group in usable for t in group if t.id not in by_id]:
            raise EvaluationError(f"No advantages of {missing[0]!r} were recorded under {name!r}.")
        advantages[name] = [[by_id[t.id] for t in group] for group in usable]
    chosen = draw(usable, advantages, sample=sample, seed=seed)
    forks, played = chosen.forks, []
    async for other in manager.branch(forks, continuations):
        played.append(other)
        if progress is not None:
            progress(len(played), len(forks) * continuations)
    return chosen.compared(played, seed=seed)


def _standard_error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
