"""Seven estimators from their formulas: of the valid episodes of a group, and nothing of agentgym.credit in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from agentgym import Trajectory

Array = np.ndarray


def return_from(t: Trajectory, k: int, gamma: float = 1.0) -> float:
    """Discounted turn rewards from turn k on, and the outcome with the last turn."""
    last = len(t.turns) - 1
    rewards = sum(gamma ** (n - k) * sum(t.turns[n].rewards.values()) for n in range(k, last + 1))
    return float(rewards + gamma ** (last - k) * sum(t.outcome.values()))


def _in_deviations(values: Sequence[float]) -> Array:
    array = np.array(values)
    std = array.std(ddof=1) if len(array) > 1 else 0.0
    return (array - array.mean()) / (std + 1e-6) if std > 1e-8 else np.zeros(len(array))


def _everywhere(group: Sequence[Trajectory], values: Sequence[float]) -> list[Array]:
    return [np.full(len(t.turns), value) for t, value in zip(group, values, strict=True)]


def others(values: Sequence[float], i: int) -> float:
    """The mean of all values but one."""
    return float(np.mean([value for j, value in enumerate(values) if j != i]))


def grpo(group: Sequence[Trajectory]) -> list[Array]:
    return _everywhere(group, _in_deviations([return_from(t, 0) for t in group]))


def dr_grpo(group: Sequence[Trajectory]) -> list[Array]:
    returns = [return_from(t, 0) for t in group]
    return _everywhere(group, [value - np.mean(returns) for value in returns])


def rloo(group: Sequence[Trajectory]) -> list[Array]:
    returns = [return_from(t, 0) for t in group]
    return _everywhere(group, [value - others(returns, i) for i, value in enumerate(returns)])


def return_to_go(group: Sequence[Trajectory]) -> list[Array]:
    advantages = []
    for i, t in enumerate(group):
        row = []
        for k in range(len(t.turns)):
            others = [return_from(o, k) for j, o in enumerate(group) if j != i and k < len(o.turns)]
            others = others or [return_from(o, 0) for j, o in enumerate(group) if j != i]
            row.append(return_from(t, k) - np.mean(others))
        advantages.append(np.array(row))
    return advantages


def mt_grpo(group: Sequence[Trajectory]) -> list[Array]:
    longest = max(len(t.turns) for t in group)
    outcomes = [sum(t.outcome.values()) for t in group]
    rewards = [[sum(t.turns[k].rewards.values()) if k < len(t.turns) else 0.0 for k in range(longest)] for t in group]
    advantages = []
    for i, t in enumerate(group):
        terms = [rewards[i][k] - others([row[k] for row in rewards], i) for k in range(longest)]
        outcome = outcomes[i] - others(outcomes, i)
        advantages.append(np.array([sum(terms[k:]) + outcome for k in range(len(t.turns))]))
    return advantages


def gigpo(group: Sequence[Trajectory]) -> list[Array]:
    advantages = grpo(group)
    visits: dict[str | None, list[tuple[int, int]]] = {}
    for i, t in enumerate(group):
        for k, turn in enumerate(t.turns):
            visits.setdefault(turn.state_key, []).append((i, k))
    for same in visits.values():
        compared = _in_deviations([return_from(group[i], k, gamma=0.95) for i, k in same])
        for (i, k), value in zip(same, compared, strict=True):
            advantages[i][k] += value
    return advantages


def turn_gae(group: Sequence[Trajectory], lam: float = 0.9) -> list[Array]:
    advantages = []
    for t in group:
        values = [float(turn.value or 0.0) for turn in t.turns] + [0.0]
        following, row = 0.0, []
        for k in reversed(range(len(t.turns))):
            reward = sum(t.turns[k].rewards.values()) + (sum(t.outcome.values()) if k == len(t.turns) - 1 else 0.0)
            following = reward + values[k + 1] - values[k] + lam * following
            row.append(following)
        advantages.append(np.array(row[::-1]))
    return advantages


ESTIMATORS: dict[str, Callable[[Sequence[Trajectory]], list[Array]]] = {
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "rloo": rloo,
    "return_to_go": return_to_go,
    "mt_grpo": mt_grpo,
    "gigpo": gigpo,
    "turn_gae(lam=0.9)": turn_gae,
}
