"""Estimate how long generating, tools and learning take in a training, from two short runs: one with one episode at a
time, one with many at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from agentgym import LedgerError, Trajectory
from agentgym.storage import Ledger, RunFolder

from .simulation import ClusterShape, StepSchedule, simulate
from .stage_times import EpisodeTimes, StageTimes, TurnTimes

_FIT_STEPS = 12
_HALVINGS = 20
_HIGHEST = 1000.0
"""If a load of this many times a token's measured time still does not explain that time, requests are taken never to
overlap.
"""


def stage_times_of(alone: RunFolder, together: RunFolder, at_once: int, schedule: StepSchedule) -> StageTimes:
    """Return the stage times of a training, from two synchronous runs: `alone` with `episode.concurrency = 1`,
    `together` with `at_once`.

    The first step of each run is ignored, because it loads things.
    Raises: LedgerError if a run has fewer than two steps, or policy replies without tokens.
    """
    single, many = _steps_of(alone), _steps_of(together)
    learn_s = median(max(0.0, seconds - sum(t.duration_s for t in step)) for seconds, step in single)
    episodes = [t for _, step in single for t in step]
    step_s = median(seconds for seconds, _ in many)
    times = StageTimes(
        tuple(map(_times_of, episodes)), _seconds_per_token(episodes), 0.0, learn_s, measured_step_s=step_s
    )
    token_s = _seconds_per_token([t for _, step in many for t in step])
    return replace(times, token_load_s=token_load(times, ClusterShape(1, at_once), schedule, token_s))


def token_load(times: StageTimes, shape: ClusterShape, schedule: StepSchedule, token_s: float) -> float:
    """Return the load (the seconds that each further request adds to a token) with which simulated tokens take
    `token_s` seconds.

    It is found by simulation, because the mean number of open requests does not say how many others a request overlaps
    with. If two requests are open half of the time and none otherwise, the mean is 1, yet every request overlaps with
    another.
    Returns: seconds; 0 if requests never overlap.
    """

    def simulated_s(load_s: float) -> float:
        return simulate(replace(times, token_load_s=load_s), shape, schedule, steps=_FIT_STEPS).token_s

    low, high = 0.0, token_s
    while simulated_s(high) < token_s:
        low, high = high, 2 * high
        if high > _HIGHEST * token_s:
            return 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if simulated_s(middle) >= token_s else (middle, high)
    return high


def _steps_of(run: RunFolder) -> list[tuple[float, list[Trajectory]]]:
    """Return the seconds and valid episodes of each training step but the first."""
    ledger = Ledger(run.ledger)
    try:
        steps = [
            (row["step_time"], [t for t in ledger.trajectories(f"train-{row['step'] - 1:06d}/") if t.valid])
            for row in run.metrics("train")
            if "step_time" in row and row["step"] > 1
        ]
    finally:
        ledger.close()
    if not steps or not all(any(turn.token_ids for t in step for turn in t.turns) for _, step in steps):
        raise LedgerError(
            f"{run.path} does not have two training steps with tokens, so it cannot be measured. Train it for three "
            "steps."
        )
    return steps


def _seconds_per_token(episodes: Sequence[Trajectory]) -> float:
    turns = [turn for t in episodes for turn in t.turns]
    return sum(turn.generate_s for turn in turns) / sum(len(turn.token_ids) for turn in turns)


def _times_of(trajectory: Trajectory) -> EpisodeTimes:
    turns = tuple(TurnTimes(len(turn.token_ids), turn.tools_s) for turn in trajectory.turns)
    in_turns_s = sum(turn.generate_s + turn.tools_s for turn in trajectory.turns)
    return EpisodeTimes(turns, max(0.0, trajectory.duration_s - in_turns_s))
