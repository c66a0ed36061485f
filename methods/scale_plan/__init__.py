"""How fast a training would run on a cluster: the times of its parts are measured here, and the waiting there is
simulated.
"""

from __future__ import annotations

from .plan import ScalePlan, make_plan
from .simulation import ClusterShape, StepSchedule, Throughput, simulate
from .stage_times import EpisodeTimes, StageTimes, TurnTimes

__all__ = [
    "ClusterShape",
    "EpisodeTimes",
    "ScalePlan",
    "StageTimes",
    "StepSchedule",
    "Throughput",
    "TurnTimes",
    "make_plan",
    "simulate",
]
