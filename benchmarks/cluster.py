"""Episodes and sandbox calls on a Ray cluster against the same in this process, in turn, as ratios.

    make setup-cluster && python benchmarks/cluster.py [--nodes 2] [--at-once 16] [--episodes 64] [--rounds 5]

The nodes are simulated on this host, so they share its processors: the ratio shows the cost of Ray, not the gain by
more hosts. Oracles of bundled task sets play, one with sandboxes and one in memory. The calls are `exec true`, one
after the other in each sandbox. Then one host is frozen, and the time until this is noticed is measured. Finally,
publishing new weights is compared with Ray's put and get of the same weights.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from safetensors.torch import load_file
from simulated_cluster import simulated_cluster

from agentgym import EpisodeManager, RolloutConfig, SandboxSpec, ScriptedPolicy, Task, close_backends, load_task_set
from agentgym.cluster.hosted_sandbox import HostedSandbox
from agentgym.cluster.ray_backend import RayBackend
from agentgym.cluster.ray_engine import RayEngine
from agentgym.cluster.ray_nodes import connect, import_ray
from agentgym.errors import SandboxDied
from agentgym.policy import TransformersPolicy, make_model, make_tokenizer
from agentgym.policy.checkpoint import save_untied
from agentgym.policy.formats.hermes import Hermes
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.vllm_training import digest
from agentgym.sandbox import Backend, NamespacesBackend, Sandbox

TASK_SETS = ("sql/store-v1", "text/number-guess-v1")
MODEL = {"hidden": 768, "layers": 16, "heads": 12, "kv_heads": 4, "head_dim": 64}  # 99 M parameters


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


async def calls_per_s(sandboxes: list[Sandbox], n_calls: int) -> float:
    """Return commands per second, in all sandboxes at once."""

    async def call(sandbox: Sandbox) -> None:
        for _ in range(n_calls):
            await sandbox.exec(["true"])

    began = time.perf_counter()
    await asyncio.gather(*map(call, sandboxes))
    return n_calls * len(sandboxes) / (time.perf_counter() - began)


async def measure_calls(address: str, options: argparse.Namespace) -> None:
    """Compare sandbox calls over Ray with calls here, and measure how long a frozen host goes unnoticed."""
    remote = RayBackend(address, nodes=options.nodes)
    backends: list[Backend] = [NamespacesBackend(), remote]
    try:
        spec = SandboxSpec(memory_mib=128, accept_weaker=("all",))
        sides = [[await backend.create(spec) for _ in range(options.at_once)] for backend in backends]
        for at_once in (1, options.at_once):
            rates: list[list[float]] = [[], []]
            for round_number in range(options.rounds + 1):
                for side in (0, 1) if round_number % 2 else (1, 0):
                    rate = await calls_per_s(sides[side][:at_once], 20)
                    if round_number:
                        rates[side].append(rate)
            ratios = sorted(b / a for a, b in zip(*rates, strict=True))
            print(
                f"exec true, {at_once} at once: {median(rates[0]):.0f} calls/s here, {median(rates[1]):.0f} over Ray, "
                f"ratio {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f} over {options.rounds} rounds)",
                flush=True,
            )
        first = sides[1][0]
        assert isinstance(first, HostedSandbox)
        await measure_silence(first)
    finally:
        for backend in backends:
            await backend.close()


async def measure_silence(sandbox: HostedSandbox) -> None:
    """Freeze the process that hosts a sandbox, and return the seconds until a call in it failed."""
    pid = await sandbox.host_pid()
    calling = asyncio.ensure_future(sandbox.exec(["sleep", "50"], timeout_s=60))
    await asyncio.sleep(0.5)
    os.kill(pid, signal.SIGSTOP)
    began = time.perf_counter()
    try:
        await calling
    except SandboxDied:
        print(f"a frozen host was noticed after {time.perf_counter() - began:.1f} s", flush=True)
    finally:
        os.kill(pid, signal.SIGCONT)


def measure_publish(address: str, rounds: int) -> None:
    """Compare publishing weights, to a sampler in this process and to a folder for a server, with Ray's put and get."""
    connect(address)
    ray, tokenizer = import_ray(), make_tokenizer(["count"], vocab_size=300)
    trained, sampled = (make_model(tokenizer, seed=seed, **MODEL) for seed in (0, 1))
    policy = TransformersPolicy(sampled, TemplateRenderer(tokenizer, Hermes()))
    size = sum(parameter.numel() * parameter.element_size() for parameter in trained.parameters())

    def put_and_get() -> None:
        ray.get(ray.put({name: value.detach().numpy() for name, value in trained.named_parameters()}))

    def replace() -> None:
        policy.update_weights(trained, version=policy.version + 1)

    def write_and_read() -> None:
        with TemporaryDirectory() as folder:
            digest(trained)
            save_untied(trained, tokenizer, folder)
            load_file(Path(folder, "model.safetensors"))

    works = {"replaced in the sampler": replace, "written to a folder and read": write_and_read}
    ratios: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        bare = _seconds(put_and_get)
        for name, work in works.items():
            ratios[name].append(_seconds(work) / bare)
    for name, values in ratios.items():
        print(
            f"{size / 2**20:.0f} MiB of weights {name}: {median(values):.2f} times Ray's put and get "
            f"({min(values):.2f} to {max(values):.2f} over {rounds} rounds)",
            flush=True,
        )


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


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
    with simulated_cluster(options.nodes) as cluster:
        asyncio.run(measure_calls(cluster.address, options))
        asyncio.run(measure(cluster.address, options))
        measure_publish(cluster.address, options.rounds)


if __name__ == "__main__":
    main()
