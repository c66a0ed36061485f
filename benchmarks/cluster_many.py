"""Thousands of episodes at once on a simulated Ray cluster: the cost of a turn among others, and the memory per
episode.

    make setup-cluster && python benchmarks/cluster_many.py [--nodes 2] [--rounds 3]

All episodes of a level wait at their first turn for all others, so that all environments, with their sandboxes, exist
when memory is read. Oracles play, and the nodes share this host with the driver. A turn's cost is the time of a round
divided by its turns, including the beginning, judge and end of episodes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Callable
from statistics import median

from rich.console import Console
from rich.table import Table
from sandbox_many import available_mib
from simulated_cluster import simulated_cluster

from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy, Task, close_backends, load_task_set
from agentgym.cluster.ray_engine import RayEngine
from agentgym.policy import Reply, Request

LEVELS = {"text/number-guess-v1": (16, 128, 512, 2000), "sql/store-v1": (16, 128, 512)}
"""Numbers of concurrent episodes, by task set. The first set is in memory, the second has a sandbox per episode."""
FLAT_WITHIN, FLAT_UP_TO = 1.5, 512
SAYS_SOMETHING = 512
"""The least number of episodes whose memory is reported: with fewer, other programs affect the figure too much."""


class Gate:
    """Opens when the given number of episodes wait at it, and then calls `at_opening`."""

    def __init__(self, episodes: int, at_opening: Callable[[], None]) -> None:
        self._missing, self._at_opening = episodes, at_opening
        self._open = asyncio.Event()

    async def pass_through(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self._at_opening()
            self._open.set()
        await self._open.wait()


class Gated(ScriptedPolicy):
    """Answers by a script; the first turn waits until the gate is open."""

    gate: Gate

    async def generate(self, request: Request) -> Reply:
        if request.turn == 0:
            await self.gate.pass_through()
        return await super().generate(request)


async def play(engine: RayEngine, name: str, at_once: int) -> tuple[float, float]:
    """Play one round.

    Returns: milliseconds per turn, and the MiB of available memory while all episodes were open.
    Raises: RuntimeError if an episode was not solved.
    """
    task_set, available = load_task_set(name), list[float]()
    oracle, train = task_set.oracle, task_set["train"]
    assert oracle is not None
    gate = Gate(at_once, lambda: available.append(available_mib()))

    def policy(task: Task) -> Gated:
        player = Gated(oracle(task))
        player.gate = gate
        return player

    manager = EpisodeManager(policy, RolloutConfig(engine=engine, concurrency=at_once))
    began = time.perf_counter()
    trajectories = await manager.collect([train[index % len(train)] for index in range(at_once)])
    took = time.perf_counter() - began
    for trajectory in trajectories:
        if trajectory.success != 1.0:
            raise RuntimeError(f"{trajectory.id}: {trajectory.error or trajectory.outcome}")
    turns = sum(len(trajectory.turns) for trajectory in trajectories)
    return 1000 * took / turns, available[0]


async def measure(address: str, nodes: int, rounds: int) -> Table:
    """Measure every level of every task set, in turn."""
    columns = "task set", "at once", "ms a turn", f"against {next(iter(LEVELS.values()))[0]}", "MiB an episode"
    table = Table(*columns, title=f"Episodes at once on {nodes} simulated nodes, median of {rounds} rounds")
    engine = RayEngine(address, nodes=nodes, backend="namespaces")
    try:
        for name, levels in LEVELS.items():
            await play(engine, name, levels[0])  # fills caches
            gc.collect()
            before = available_mib()
            costs: dict[int, list[tuple[float, float]]] = {level: [] for level in levels}
            for _ in range(rounds):
                for level in levels:
                    repeated = [await play(engine, name, level) for _ in range(max(1, 64 // level))]
                    costs[level].append((median(cost for cost, _ in repeated), repeated[-1][1]))
            least = median(cost for cost, _ in costs[levels[0]])
            for level in levels:
                cost = median(cost for cost, _ in costs[level])
                used = before - min(available for _, available in costs[level])
                memory = f"{used / level:.2f}" if level >= SAYS_SOMETHING else "-"
                verdict = "" if level > FLAT_UP_TO else " ok" if cost <= FLAT_WITHIN * least else " too much"
                table.add_row(name, f"{level:,}", f"{cost:.2f}", f"{cost / least:.2f}{verdict}", memory)
    finally:
        await engine.close()
        await close_backends()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with simulated_cluster(options.nodes) as cluster:
        Console().print(asyncio.run(measure(cluster.address, options.nodes, options.rounds)))


if __name__ == "__main__":
    main()
