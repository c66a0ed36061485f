"""`subgoal_feedback`: rewards each turn's increase of the environment's potential, on that turn or on another one.

For experiments on credit: the same total can be given on the turn that earned it, later, on other turns, or with noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from agentgym import JudgeError, ResultStatus, Reward, Trajectory, seed_of
from agentgym.reward import Components

Basis = Literal["potential", "calls"]
Placement = Literal["own", "last", "even", "wrong"]


class SubgoalFeedback(Reward):
    """Turn component `subgoal`, in units of the environment's potential. Add it to a reward that judges the outcome.

    That reward must give the outcome component `progress`, which is the potential after the last turn.

    Args:
        basis: "potential" rewards each turn's increase of the potential, so the turns of an episode add up to the total
            gain. "calls" rewards activity instead: 1 / `horizon` of the task for each turn with a call that ran, right
            or wrong.
        placement: "own" gives a turn's reward to that turn; "last" gives the total to the last turn; "even" spreads it
            evenly; "wrong" gives each turn's reward to the turn half an episode later, wrapping around.
        every: only every n-th turn and the last one get a reward: all that was earned since the previous such turn.
        delay: the number of turns by which rewards are given later, to the last turn at the latest.
        noise: standard deviation of the noise that is added to each turn's reward; an episode's id determines its
            noise.
    """

    def __init__(
        self, basis: Basis = "potential", placement: Placement = "own", every: int = 1, delay: int = 0, noise: float = 0
    ) -> None:
        if basis not in ("potential", "calls"):
            raise ValueError(f"basis = {basis!r} is not valid: choose potential or calls.")
        if placement not in _PLACEMENTS:
            raise ValueError(f"placement = {placement!r} is not valid: choose {', '.join(_PLACEMENTS)}.")
        if every < 1 or delay < 0 or noise < 0:
            raise ValueError(
                f"every = {every}, delay = {delay}, noise = {noise} are not valid: every must be at least 1, the "
                "others at least 0."
            )
        self.basis, self.placement, self.every, self.delay, self.noise = basis, placement, every, delay, noise

    def hindsight(self, episode: Trajectory) -> list[Components]:
        """Judge the turns of a finished episode.

        Raises: JudgeError without a potential at every turn or a `progress`, or a horizon for the basis "calls".
        """
        earned = _gains(episode) if self.basis == "potential" else _calls(episode)
        paid = _PLACEMENTS[self.placement](delayed(accumulated(earned, self.every), self.delay))
        if self.noise:
            rng = np.random.default_rng(seed_of("subgoal noise", episode.id))
            paid = [value + self.noise * float(rng.standard_normal()) for value in paid]
        return [{"subgoal": value} for value in paid]


def accumulated(earned: Sequence[float], every: int) -> list[float]:
    """Give what was earned since the previous such turn to each `every`-th turn and the last one, and 0 to the
    others.
    """
    paid, total = [], 0.0
    for turn, value in enumerate(earned, start=1):
        total += value
        pays = turn % every == 0 or turn == len(earned)
        paid.append(total if pays else 0.0)
        total = 0.0 if pays else total
    return paid


def delayed(earned: Sequence[float], delay: int) -> list[float]:
    """Give each turn's reward to the turn `delay` turns later, or to the last turn."""
    paid = [0.0] * len(earned)
    for turn, value in enumerate(earned):
        paid[min(turn + delay, len(earned) - 1)] += value
    return paid


def _last(earned: list[float]) -> list[float]:
    return [*([0.0] * (len(earned) - 1)), sum(earned)][: len(earned)]


def _even(earned: list[float]) -> list[float]:
    return [sum(earned) / len(earned)] * len(earned) if earned else []


def _wrong(earned: list[float]) -> list[float]:
    half = len(earned) // 2
    return [*earned[len(earned) - half :], *earned[: len(earned) - half]]


_PLACEMENTS: dict[str, Callable[[list[float]], list[float]]] = {
    "own": list,
    "last": _last,
    "even": _even,
    "wrong": _wrong,
}


def _gains(episode: Trajectory) -> list[float]:
    """Return each turn's increase of the potential."""
    before = [turn.potential for turn in episode.turns]
    if not before:
        return []
    progress = episode.outcome.get("progress")
    if progress is None or None in before:
        reason = "its environment has no potential()" if None in before else "no other reward gives `progress`"
        raise JudgeError(f"subgoal_feedback cannot tell what progress a turn of {episode.task.id} made: {reason}.")
    potentials = [value for value in [*before, progress] if value is not None]
    return [after - earlier for earlier, after in pairwise(potentials)]


def _calls(episode: Trajectory) -> list[float]:
    """Return 1 / horizon for each turn with a call that ran."""
    horizon = episode.task.parameters.get("horizon")
    if not isinstance(horizon, int) or horizon < 1:
        raise JudgeError(
            f"{episode.task.id}: parameters['horizon'] must be the number of the task's turns, not {horizon!r}."
        )
    share = 1 / horizon
    return [share * any(result.status is ResultStatus.OK for result in turn.results) for turn in episode.turns]
