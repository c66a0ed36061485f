"""Episodes on the workers of a Ray cluster against the same episodes in this process, in turn, as a ratio.

    make setup-cluster && python benchmarks/cluster.py [--nodes 2] [--at-once 16] [--episodes 64] [--rounds 5]

The nodes are simulated on this host, so they share its processors: the ratio says what the way over Ray costs, not what
more hosts give. Oracles of bundled task sets play, one with sandboxes and one in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from statistics import median

from agentgym import RolloutConfig, ScriptedPolicy, Task, close_backends, load_task_set
from agentgym.cluster import RayEngine
from agentgym.rollout import EpisodeManager

TASK_SETS = ("sql/store-v1", "text/number-guess-v1")


async def episodes_per_s(name: str, engine: RayEngine | None, n_episodes: int, concurrency: int) -> float:
    """Play one round. Raises: RuntimeError if an episode was not solved."""
    task_set = load_task_set(name)
    assert task_set.oracle is not None
    oracle, train = task_set.oracle, task_set["train"]
    tasks = [train[index % len(train)] for index in range(n_episodes)]

    def policy(task: Task) -> ScriptedPolicy:
        return ScriptedPolicy(oracle(task))

    manager = EpisodeManager(policy, RolloutConfig(engine=engine, concurrency=concurrency))
    began = time.perf_counter()
    trajectories = await manager.collect(tasks)
    seconds = time.perf_counter() - began
    for trajectory in trajectories:
        if trajectory.success != 1.0:
            raise RuntimeError(f"{trajectory.id}: {trajectory.error or trajectory.outcome}")
    return n_episodes / seconds


async def measure(address: str, options: argparse.Namespace) -> None:
    engine = RayEngine(address, nodes=options.nodes, backend="namespaces")
    try:
        for name in options.task_sets.split(","):
            here, there = [], []
            for round_number in range(options.rounds + 1):  # the first one fills caches and does not count
                order = [(None, here), (engine, there)]
                for chosen, rates in order if round_number % 2 else reversed(order):
                    rate = await episodes_per_s(name, chosen, options.episodes, options.at_once)
                    if round_number:
                        rates.append(rate)
            ratios = sorted(b / a for a, b in zip(here, there, strict=True))
            print(
                f"{name}: {median(here):.1f} episodes/s here, {median(there):.1f} on {options.nodes} workers, "
                f"ratio {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f} over {options.rounds} rounds)",
                flush=True,
            )
    finally:
        await engine.close()
        await close_backends()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--episodes", type=int, default=64, help="of each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--task-sets", default=",".join(TASK_SETS))
    options = parser.parse_args()
    os.environ |= {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(options.nodes - 1):
            cluster.add_node(num_cpus=1)
        asyncio.run(measure(cluster.address, options))
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
