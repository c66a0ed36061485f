"""How fast a training goes, and what its episodes wait for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from agentgym.rollout.engine import ReportingEngine
from agentgym.trajectory import Trajectory


def wait_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Where the wall time of the valid episodes of a batch went, as shares in [0, 1].

    Returns: `pace/policy_wait`, in which they waited for the policy's messages; `pace/tools_wait`, for tools and so for
        sandboxes; `pace/other_wait`, for everything else, such as resets, which start sandboxes, and judges. Tools of
        one turn that run at the same time count once. Nothing where no time was recorded.
    """
    valid = [trajectory for trajectory in trajectories if trajectory.valid]
    turns = [turn for trajectory in valid for turn in trajectory.turns]
    duration_s = sum(trajectory.duration_s for trajectory in valid)
    if duration_s <= 0:
        return {}
    policy = min(1.0, sum(turn.generate_s for turn in turns) / duration_s)
    tools = min(1.0 - policy, sum(turn.tools_s for turn in turns) / duration_s)
    return {"pace/policy_wait": policy, "pace/tools_wait": tools, "pace/other_wait": 1.0 - policy - tools}


def engine_metrics(engine: Any) -> dict[str, float]:
    """What an engine reports of itself, as `cluster/nodes` and the like; nothing where it plays in this process."""
    if not isinstance(engine, ReportingEngine):
        return {}
    return {f"cluster/{name}": float(value) for name, value in engine.report().items()}


class Pace:
    """Episodes and tokens for each second, from one batch to the next. The first batch has no rate."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: float | None = None

    def metrics(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """`pace/episodes_per_s` and `pace/tokens_per_s`, of valid episodes and the policy's own tokens, and waits."""
        now, last = self._clock(), self._last
        self._last = now
        metrics = wait_metrics(trajectories)
        if last is not None and now > last:
            valid = [trajectory for trajectory in trajectories if trajectory.valid]
            tokens = sum(len(turn.token_ids) for trajectory in valid for turn in trajectory.turns)
            metrics |= {"pace/episodes_per_s": len(valid) / (now - last), "pace/tokens_per_s": tokens / (now - last)}
        return metrics
