"""How fast a training goes, and what its episodes wait for."""

from __future__ import annotations

import os
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
    """Return what an engine reports of itself, as `cluster/nodes` and the like; nothing where it plays in this
    process.
    """
    if not isinstance(engine, ReportingEngine):
        return {}
    return {f"cluster/{name}": float(value) for name, value in engine.report().items()}


def process_cpu_s() -> float:
    """Processor seconds of this process and of its children that have ended, in all threads."""
    return sum(os.times()[:4])


class Pace:
    """Rates and processor time from one batch to the next. The first batch has neither."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, processor: Callable[[], float] = process_cpu_s
    ) -> None:
        self._clock, self._processor = clock, processor
        self._last: tuple[float, float] | None = None

    def metrics(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Return what passed since the batch before.

        Returns: `pace/episodes_per_s` and `pace/tokens_per_s`, of valid episodes and the policy's own tokens;
            `pace/cpu_s`, the processor seconds of this process, which other programs on the machine hardly change;
            and waits.
        """
        last = self._last
        now, cpu = self._last = self._clock(), self._processor()
        metrics = wait_metrics(trajectories)
        if last is not None and now > last[0]:
            valid = [trajectory for trajectory in trajectories if trajectory.valid]
            tokens = sum(len(turn.token_ids) for trajectory in valid for turn in trajectory.turns)
            elapsed_s = now - last[0]
            metrics |= {"pace/episodes_per_s": len(valid) / elapsed_s, "pace/tokens_per_s": tokens / elapsed_s}
            metrics["pace/cpu_s"] = cpu - last[1]
        return metrics
