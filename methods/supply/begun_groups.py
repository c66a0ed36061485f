"""Groups whose episodes all begin at the same turn of a recorded episode."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym import Trajectory
from agentgym.rollout import Fork
from agentgym.training import TrainingPart, TrainingPlan
from agentgym.training.gatherers import GatheredGroup, StepRequest


def turn_schedules(part: TrainingPart, plan: TrainingPlan) -> str:
    """Reject a schedule of turns, which would cut episodes that begin with recorded turns."""
    if not plan.episode.schedule.max_turns:
        return ""
    return (
        f"episode.schedule.max_turns = {list(plan.episode.schedule.max_turns)}: train.gather = {plan.train.gather} "
        "begins within recorded episodes, whose turns count, so a low cap would end them there. Take one of them out."
    )


def begun_groups(step: StepRequest, forks: Sequence[Fork], label: str) -> list[GatheredGroup]:
    """Play a group from each fork, in the order of the forks, which must be distinct.

    The turns before a fork are repeated as recorded and have no loss.
    """
    if not forks:
        return []
    branches = step.branch(forks, step.group_size, label)
    groups: dict[tuple[str, int], list[Trajectory]] = {(fork.trajectory.id, fork.turn): [] for fork in forks}
    for branch in sorted(branches, key=lambda trajectory: trajectory.sample):  # branches finish in any order
        origin = branch.provenance.branch
        assert origin is not None
        groups[origin.trajectory, origin.turn].append(branch)
    return [
        GatheredGroup(group, untrained_turns={episode.id: turn for episode in group})
        for (_, turn), group in groups.items()
    ]
