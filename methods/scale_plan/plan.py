"""What a cluster would make of a training: its speed, which stage binds, and what staleness and machines buy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentgym import RecipeError

from .simulation import ClusterShape, StepSchedule, Throughput, fewest_nodes, simulate
from .stage_times import StageTimes

STALENESS = (0, 1, 2, 4)
_MATTERS = 1.05  # a change that makes steps faster by less than this is noise of the simulation


@dataclass(frozen=True, slots=True)
class Alternative:
    """A training that is changed in one thing. `name`: what is changed; empty for the training as it was asked for."""

    name: str
    shape: ClusterShape
    schedule: StepSchedule
    throughput: Throughput

    def speedup(self, over: Alternative) -> float:
        return over.throughput.step_s / self.throughput.step_s


@dataclass(frozen=True, slots=True)
class ScalePlan:
    """The simulated training and what would change it.

    Attributes:
        base: the training as it was asked for, with the best split of its GPUs.
        alternatives: one thing changed in each.
        nodes_needed: the fewest that reach 95 % of the speed that any number of nodes reaches.
    """

    base: Alternative
    alternatives: tuple[Alternative, ...]
    nodes_needed: int

    @property
    def binding(self) -> str:
        """The first change of those that speed the training up most, within 5 %; empty if none does by more."""
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
    staleness: Sequence[int] = STALENESS,
) -> ScalePlan:
    """Simulate a training on so many nodes and GPUs, and its alternatives.

    Args:
        gpus: shared between the trainer and servers of one GPU each, in the way that is fastest. With one, both stages
            share it and are simulated as if each had it alone.
        cores: the cores of a node, see ClusterShape.
    Raises: RecipeError for numbers below 1.
    """
    for name, value in (("nodes", nodes), ("gpus", gpus), ("episodes_per_node", episodes_per_node), ("cores", cores)):
        if not value >= 1:  # nor not a number
            raise RecipeError(f"{name} is {value:g}: a cluster has at least 1.")

    def alternative(name: str, shape: ClusterShape, changed: StepSchedule = schedule) -> Alternative:
        return Alternative(name, shape, changed, simulate(times, shape, changed))

    splits = [ClusterShape(nodes, episodes_per_node, gpus - k, k, cores) for k in _trainer_shares(gpus)]
    splits = splits or [ClusterShape(nodes, episodes_per_node, 1, 1, cores)]
    base = min((alternative("", shape) for shape in splits), key=lambda option: option.throughput.step_s)
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


def _trainer_shares(gpus: int) -> list[int]:
    """Numbers of GPUs that the trainer could have: powers of two that leave some for servers."""
    return [k for k in (2**i for i in range(gpus.bit_length())) if k < gpus]
