"""Selections: which stored episodes, or which of their turns, a stage imitates, and with what weight.

Each takes the episodes of one task, and returns tuples: an episode, the weight of its loss, and the turn to imitate, or
None to imitate all turns. The score of an episode is its return, or the outcome component that `component` names.

success                 episodes that solved their task
best_of(n=1)            the n episodes of each task with the highest score
weighted(temperature=1) all episodes, weighted by exp(score / temperature)
score(minimum=1)        episodes whose score is at least the minimum
improved(temperature=1) the best of the turns that follow the same tokens, weighted by exp(value / temperature)
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from agentgym import RecipeError, Trajectory, Turn
from agentgym.options import Count, Positive

Selected = tuple[Trajectory, float, int | None]


class RatedTurn(NamedTuple):
    """A turn of an episode and its value."""

    value: float
    episode: Trajectory
    turn: int


def success(group: Sequence[Trajectory]) -> list[Selected]:
    """Select episodes that solved the task: rejection-sampling fine-tuning, Yuan et al. 2023, arXiv:2308.01825."""
    return [(t, 1.0, None) for t in group if (t.success or 0.0) >= 1.0]


def best_of(group: Sequence[Trajectory], *, n: Count = 1, component: str = "") -> list[Selected]:
    """Select the `n` episodes with the highest score; of equal scores, the shorter episode comes first.

    Source: RAFT, Dong et al. 2023, arXiv:2304.06767, which keeps the best of K samples. Shorter first is our choice.
    """
    order = sorted(group, key=lambda t: (-score_of(t, component), _own_tokens(t), t.id))
    return [(t, 1.0, None) for t in order[:n]]


def weighted(group: Sequence[Trajectory], *, temperature: Positive = 1.0, component: str = "") -> list[Selected]:
    """Select every episode, with a weight proportional to exp(score / temperature) and mean 1 over the group.

    Source: reward-weighted regression as in RISE, Qu et al. 2024, arXiv:2407.18219. Using the mean over a task's
    episodes as the normaliser Z is our choice.
    """
    scores = [score_of(t, component) / temperature for t in group]
    powers = [math.exp(score - max(scores)) for score in scores]
    mean = sum(powers) / len(powers)
    return [(t, power / mean, None) for t, power in zip(group, powers, strict=True)]


def score(group: Sequence[Trajectory], *, minimum: float = 1.0, component: str = "") -> list[Selected]:
    """Select episodes whose return, or whose outcome component `component`, is at least `minimum`."""
    return [(t, 1.0, None) for t in group if score_of(t, component) >= minimum]


def improved(group: Sequence[Trajectory], *, temperature: Positive = 1.0, component: str = "") -> list[Selected]:
    """Select, for each state in which different turns were taken, the best turn, weighted by exp(value / temperature).

    A turn's value is the mean, over the episodes that took it, of the return from that turn on, or of the outcome
    component `component`. States where all turns are equally good are skipped. Over the group the weights have mean 1.
    Collect with `trees = true`: separately played episodes seldom reach the same state after their first turn.
    Source: RISE, Qu et al. 2024, arXiv:2407.18219, where the best of several samples of the model is the target that
    improves its own attempt; from descriptions, not checked against its code. Taking the mean as Z is our choice.
    """
    rated = [
        RatedTurn(t.return_from(turn) if not component else score_of(t, component), t, turn)
        for t in group
        for turn in range(len(t.turns))
    ]
    targets: list[RatedTurn] = []
    for alternatives in by_state(rated).values():
        values = [alternative.value for alternative in alternatives]
        if max(values) > min(values):
            targets.append(
                max(alternatives, key=lambda each: (each.value, -len(each.episode.turns[each.turn].token_ids)))
            )
    if not targets:
        return []
    highest = max(target.value for target in targets)
    powers = [math.exp((target.value - highest) / temperature) for target in targets]
    mean = sum(powers) / len(powers)
    return [(each.episode, power / mean, each.turn) for each, power in zip(targets, powers, strict=True)]


def groups_of(trajectories: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """Return the valid episodes grouped by task, in order of first appearance."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if trajectory.valid:
            groups.setdefault(trajectory.task.id, []).append(trajectory)
    return list(groups.values())


def by_state(turns: Iterable[RatedTurn]) -> dict[tuple[Hashable, ...], list[RatedTurn]]:
    """Group the distinct turns of valid episodes that follow the same tokens of the same task.

    Turns with the same tokens are merged, with the mean of their values. Episodes that are not tokenised yet, as
    when a stage is checked before it starts, are compared by their messages.
    """
    alike: dict[tuple[Hashable, ...], dict[Hashable, list[RatedTurn]]] = {}
    for rated in turns:
        episode = rated.episode
        if episode.valid:
            before = episode.turns[: rated.turn]
            history = [part for turn in before for part in (_written(turn), tuple(turn.observation_ids))]
            key = (episode.task.id, tuple(episode.prompt_ids), *history)
            alike.setdefault(key, {}).setdefault(_written(episode.turns[rated.turn]), []).append(rated)
    return {
        key: [same[0]._replace(value=sum(each.value for each in same) / len(same)) for same in different.values()]
        for key, different in alike.items()
    }


def _written(turn: Turn) -> Hashable:
    return tuple(turn.token_ids) or repr(turn.message)


def score_of(trajectory: Trajectory, component: str = "") -> float:
    """Return the score of an episode: its return, or the named component of its outcome.

    Raises: RecipeError if the episode has no such component.
    """
    if not component:
        return trajectory.return_from()
    if component not in trajectory.outcome:
        known = ", ".join(trajectory.outcome) or "none"
        raise RecipeError(f"The episode {trajectory.id!r} has no component {component!r}. Its components are: {known}.")
    return trajectory.outcome[component]


def _own_tokens(trajectory: Trajectory) -> int:
    return sum(len(turn.token_ids) for turn in trajectory.turns)
