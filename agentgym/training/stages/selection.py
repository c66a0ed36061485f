"""Which stored episodes are imitated, and with which weight.

success                 those that solved their task
best_of(n=1)            of each task the n with the highest return
weighted(temperature=1) all, weighted by exp(return / temperature)
score(minimum=1)        those whose return, or a component of it, is high enough
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from agentgym.credit.named_parts import parse_part
from agentgym.credit.options import Count, PositiveWeight, check_options, did_you_mean
from agentgym.errors import CreditError, RecipeError
from agentgym.trajectory import Trajectory

Weighted = list[tuple[Trajectory, float]]
Selection = Callable[[Sequence[Trajectory]], Weighted]


def success(group: Sequence[Trajectory]) -> Weighted:
    """Those that solved the task, as in rejection-sampling fine-tuning. Source: Yuan et al. 2023, arXiv:2308.01825."""
    return [(t, 1.0) for t in group if (t.success or 0.0) >= 1.0]


def best_of(group: Sequence[Trajectory], *, n: Count = 1, component: str = "") -> Weighted:
    """The `n` with the highest score, the shorter one first where two are equal.

    Source: RAFT, Dong et al. 2023, arXiv:2304.06767, which keeps the best of K samples. Shorter first is our choice.
    """
    order = sorted(group, key=lambda t: (-score_of(t, component), _own_tokens(t), t.id))
    return [(t, 1.0) for t in order[:n]]


def weighted(group: Sequence[Trajectory], *, temperature: PositiveWeight = 1.0, component: str = "") -> Weighted:
    """Every episode, with exp(score / temperature) as its weight; over the group the weights have the mean 1.

    Source: reward-weighted regression as RISE uses it, Qu et al. 2024, arXiv:2407.18219. That Z is the mean over the
    episodes of a task is our choice.
    """
    scores = [score_of(t, component) / temperature for t in group]
    powers = [math.exp(score - max(scores)) for score in scores]
    mean = sum(powers) / len(powers)
    return [(t, power / mean) for t, power in zip(group, powers, strict=True)]


def score(group: Sequence[Trajectory], *, minimum: float = 1.0, component: str = "") -> Weighted:
    """Those whose score is `minimum` or more."""
    return [(t, 1.0) for t in group if score_of(t, component) >= minimum]


SELECTIONS: Mapping[str, Callable[..., Weighted]] = {
    "success": success,
    "best_of": best_of,
    "weighted": weighted,
    "score": score,
}


def make_selection(text: str) -> Selection:
    """Read a selection with its options, as in "best_of(n=2)". Raises: RecipeError."""
    try:
        part = parse_part(text)
        if part.name not in SELECTIONS:
            close = did_you_mean(part.name, SELECTIONS)
            raise CreditError(f"There is no selection {part.name!r}.{close} There are: {', '.join(SELECTIONS)}.")
        check_options(part.name, SELECTIONS[part.name], part.options, kind="selection")
    except CreditError as error:
        raise RecipeError(f"select = {text!r}: {error}") from error
    return lambda group: SELECTIONS[part.name](group, **part.options)


def groups_of(trajectories: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """The valid episodes by task, in the order in which the tasks come."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if trajectory.valid:
            groups.setdefault(trajectory.task.id, []).append(trajectory)
    return list(groups.values())


def score_of(trajectory: Trajectory, component: str = "") -> float:
    """The return of an episode, or one component of its outcome by name.

    Raises: RecipeError if it has no such component.
    """
    if not component:
        return trajectory.return_from()
    if component not in trajectory.outcome:
        known = ", ".join(trajectory.outcome) or "none"
        raise RecipeError(f"The episode {trajectory.id!r} has no component {component!r}. It has: {known}.")
    return trajectory.outcome[component]


def _own_tokens(trajectory: Trajectory) -> int:
    return sum(len(turn.token_ids) for turn in trajectory.turns)
