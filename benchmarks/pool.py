"""The time that a pool of warm sandboxes saves per episode: the same tasks with and without `Pool`, in turn.

    python benchmarks/pool.py [--backends namespaces,docker] [--episodes 24] [--rounds 5] [--think-ms 0,50]

Oracles of bundled task sets play. `--think-ms` is a wait before each turn, as for an agent whose model is served
elsewhere: meanwhile a pool can make the next sandbox. CPU is that of this process and its sandboxes, without the Docker
daemon's.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from figures import show_table
from rich.table import Table
from sandbox_measuring import processor_s

from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy, Task, load_task_set
from agentgym.policy import Reply, Request
from agentgym.sandbox import Backend, DockerBackend, NamespacesBackend, Pool

TASK_SETS = {
    "namespaces": ("swe/one-line-given-v1", "code/tables-v1"),
    "docker": ("sql/schemas-v1", "code/shell-v1"),  # what its base image has the programs for
}
BACKENDS = {"namespaces": NamespacesBackend, "docker": DockerBackend}
READY = 8


class ThinkingPolicy(ScriptedPolicy):
    """Follows a script and waits before each turn, as for a model on another machine."""

    think_s = 0.0

    async def generate(self, request: Request) -> Reply:
        await asyncio.sleep(self.think_s)
        return await super().generate(request)


@dataclass
class Cost:
    """Milliseconds per episode, one entry per round."""

    wall_ms: list[float]
    cpu_ms: list[float]


async def measure(
    set_name: str, backend_name: str, concurrency: int, think_s: float, episodes: int, rounds: int
) -> tuple[Cost, Cost, str]:
    """Play rounds of the same episodes without and with a pool, in turn. Returns: both costs, and the pool's figures.

    Raises: RuntimeError if an episode failed.
    """
    task_set = load_task_set(set_name)
    tasks = list(task_set["train"])[:episodes]
    pool = Pool(BACKENDS[backend_name](), ready=READY)
    backends: tuple[Backend, Backend] = (BACKENDS[backend_name](), pool)
    costs = (Cost([], []), Cost([], []))
    assert task_set.oracle is not None
    oracle = task_set.oracle

    def policy(task: Task) -> ScriptedPolicy:
        thinking = ThinkingPolicy(oracle(task))
        thinking.think_s = think_s
        return thinking

    try:
        for round_number in range(rounds + 1):  # the first one fills caches and does not count
            order = list(zip(backends, costs, strict=True))
            for backend, cost in order if round_number % 2 else reversed(order):
                manager = EpisodeManager(policy, RolloutConfig(concurrency=concurrency, backend=backend))
                wall_s, cpu_s = await _play(manager, tasks)
                if round_number:
                    cost.wall_ms.append(1000 * wall_s / len(tasks))
                    cost.cpu_ms.append(1000 * cpu_s / len(tasks))
        return *costs, str(pool.stats())
    finally:
        await asyncio.gather(*(backend.close() for backend in backends))


async def _play(manager: EpisodeManager, tasks: Sequence[Task]) -> tuple[float, float]:
    """Return wall and CPU seconds of one round; sandboxes that the pool makes after the last episode count as CPU."""
    began, cpu_before = time.perf_counter(), processor_s()
    trajectories = await manager.collect(tasks, record=False)
    wall_s = time.perf_counter() - began
    for trajectory in trajectories:
        if trajectory.success != 1.0:
            raise RuntimeError(f"The oracle did not solve {trajectory.id}: {trajectory.error or trajectory.outcome}")
    await asyncio.sleep(1.0)  # sandboxes end and the pool restocks
    return wall_s, processor_s() - cpu_before


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", default="namespaces,docker")
    parser.add_argument("--task-sets", default="", help="separated by commas; by default those of each backend")
    parser.add_argument("--at-once", default="1,8", help="episodes that are played at the same time")
    parser.add_argument("--episodes", type=int, default=24, help="of each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--think-ms", default="0,50", help="waits before each turn, separated by commas")
    options = parser.parse_args()
    table = Table("task set", "backend", "at once", "think ms", "without, ms", "with, ms", "wall", "CPU", "pool")
    for backend_name in options.backends.split(","):
        for set_name in options.task_sets.split(",") if options.task_sets else TASK_SETS[backend_name]:
            for concurrency in map(int, options.at_once.split(",")):
                for think_ms in map(float, options.think_ms.split(",")):
                    without, with_pool, stats = await measure(
                        set_name, backend_name, concurrency, think_ms / 1000, options.episodes, options.rounds
                    )
                    table.add_row(
                        *(set_name, backend_name, str(concurrency), f"{think_ms:g}"),
                        *(f"{median(without.wall_ms):.1f}", f"{median(with_pool.wall_ms):.1f}"),
                        f"{median(without.wall_ms) / median(with_pool.wall_ms):.2f} x",
                        f"{median(without.cpu_ms) / median(with_pool.cpu_ms):.2f} x",
                        stats.partition(";")[0],
                    )
                    print("measured", set_name, backend_name, concurrency, think_ms, without, with_pool, flush=True)
    show_table(table)
    print(
        "wall, CPU: what an episode takes without the pool, divided by what it takes with it; above 1 the pool saves."
    )


if __name__ == "__main__":
    asyncio.run(main())
