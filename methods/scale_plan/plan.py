"""A training simulated on a cluster: its speed, its bottleneck, and what more staleness or more machines would gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentgym import RecipeError

from .simulation import ClusterShape, StepSchedule, Throughput, fewest_nodes, simulate
from .stage_times import StageTimes

STALENESS = (0, 1, 2, 4)
DRIVER_MOST = 0.8
"""The share of the driver's time, the process that trains, that turns may take: above it they wait for each other."""
ASKED_BY_WORKERS_S, ASKED_BY_DRIVER_S = 0.0013, 0.010
"""What a turn of 14,000 tokens costs the driver in processor seconds, by who asks the policy's server
(`benchmarks/driver.py`)."""
_MATTERS = 1.05  # smaller speed-ups are within the noise of the simulation


@dataclass(frozen=True, slots=True)
class Alternative:
    """A training with one change.

    Attributes:
        name: the change; empty for the training as requested.
        driver_busy: the share of the driver's time that turns take; above 1 the driver cannot carry them.
    """

    name: str
    shape: ClusterShape
    schedule: StepSchedule
    throughput: Throughput
    driver_busy: float

    def speedup(self, over: Alternative) -> float:
        return over.throughput.step_s / self.throughput.step_s


@dataclass(frozen=True, slots=True)
class ScalePlan:
    """The simulated training and the effect of changes.

    Attributes:
        base: the training as requested, with the best split of its GPUs.
        alternatives: trainings with one change each.
        nodes_needed: the fewest nodes that reach 95 % of the speed of any number of nodes.
    """

    base: Alternative
    alternatives: tuple[Alternative, ...]
    nodes_needed: int

    @property
    def binding(self) -> str:
        """Return the first change that gains about as much as the best one (within 5 %); empty if none gains more than
        5 %.
        """
        best = max(option.speedup(self.base) for option in self.alternatives)
        if best <= _MATTERS:
            return ""
        return next(option.name for option in self.alternatives if option.speedup(self.base) * _MATTERS >= best)


def make_plan(
    times: StageTimes,
    schedule: StepSchedule,
    *,
    nodes: int,
    gpus: int,
    episodes_per_node: int,
    cores: float,
    driver_turn_s: float = ASKED_BY_WORKERS_S,
    staleness: Sequence[int] = STALENESS,
) -> ScalePlan:
    """Simulate a training on this many nodes and GPUs, and its alternatives.

    Args:
        gpus: divided in the fastest way between the trainer and policy servers of one GPU each. With one GPU, trainer
            and server share it, and are simulated as if each had its own.
        cores: the cores of a node, see ClusterShape.
        driver_turn_s: the processor seconds that a turn costs the driver.
    Raises: RecipeError for numbers below 1, and for more turns than the driver can carry.
    """
    for name, value in (("nodes", nodes), ("gpus", gpus), ("episodes_per_node", episodes_per_node), ("cores", cores)):
        if not value >= 1:  # also catches NaN
            raise RecipeError(f"{name} = {value:g} is not valid: a cluster has at least 1.")

    turns = sum(len(episode.turns) for episode in times.episodes) / len(times.episodes)

    def alternative(name: str, shape: ClusterShape, changed: StepSchedule = schedule) -> Alternative:
        reached = simulate(times, shape, changed)
        return Alternative(name, shape, changed, reached, reached.episodes_per_s * turns * driver_turn_s)

    splits = [ClusterShape(nodes, episodes_per_node, gpus - k, k, cores) for k in _trainer_shares(gpus)]
    splits = splits or [ClusterShape(nodes, episodes_per_node, 1, 1, cores)]
    base = min((alternative("", shape) for shape in splits), key=lambda option: option.throughput.step_s)
    if base.driver_busy > DRIVER_MOST:
        raise RecipeError(_too_many_turns(base.driver_busy / driver_turn_s, driver_turn_s))
    shape = base.shape
    others = [
        alternative("nodes x 2", replace(shape, nodes=2 * nodes)),
        alternative("servers x 2", replace(shape, servers=2 * shape.servers)),
        alternative("trainer x 2", replace(shape, trainer_gpus=2 * shape.trainer_gpus)),
        *(
            alternative(f"staleness {bound}", shape, replace(schedule, staleness=bound))
            for bound in staleness
            if bound != schedule.staleness
        ),
    ]
    return ScalePlan(base, tuple(others), fewest_nodes(times, shape, schedule))


def _too_many_turns(turns_per_s: float, driver_turn_s: float) -> str:
    remedy = "Plan fewer nodes or episodes, or longer turns."
    if driver_turn_s > ASKED_BY_WORKERS_S:
        remedy = "Start servers whose addresses every node reaches and name them in vllm.url: workers then ask them."
    return (
        f"This training would play {turns_per_s:,.0f} turns a second, but the process that trains can carry "
        f"{DRIVER_MOST / driver_turn_s:,.0f}, at {1000 * driver_turn_s:g} ms of one processor a turn. {remedy}"
    )


def _trainer_shares(gpus: int) -> list[int]:
    """Return the possible numbers of trainer GPUs: powers of two that leave some for servers."""
    return [k for k in (2**i for i in range(gpus.bit_length())) if k < gpus]
