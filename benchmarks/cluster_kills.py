"""Does a rollout on a cluster heal? `make setup-cluster && python benchmarks/cluster_kills.py [--kills 30] [--quick]`.

One `agentgym rollout` plays on three simulated nodes, while workers are killed (SIGKILL, at random moments). A third of
the way a fourth node joins; later it is removed and added again. Printed are the seconds from a kill, or from a node's
start, to the next episode that is played on that node, and whether an episode was lost, doubled or changed against the
same rollout in one process. Exit status 0 if none was and the rollout ended with 0.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from kills import doubled, episodes
from rich.console import Console
from rich.table import Table
from simulated_cluster import simulated_cluster

from agentgym.cluster.ray_nodes import NAMESPACE, connect

TASKS = "sql/session-v1:train"
NODES, CONCURRENCY = 3, 12
PAUSE_S = (1.0, 5.0)
"""The bounds of the random pause between two kills."""


def rollout(folder: Path, limit: int, *options: str) -> subprocess.Popen[bytes]:
    words = ["rollout", TASKS, "--policy", "oracle", "--limit", str(limit), "--concurrency", str(CONCURRENCY)]
    with (folder.parent / f"{folder.name}.err").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "agentgym", *words, "--out", str(folder), *options],
            stdout=subprocess.DEVNULL,
            stderr=log,
        )


def worker_pids(node: Any) -> list[int]:
    """Return the pids of a simulated node's workers that play episodes."""
    raylet, pids = node.all_processes["raylet"][0].process.pid, []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                is_child = (entry / "stat").read_text().rpartition(")")[2].split()[1] == str(raylet)
                if is_child and b"LeasedWorker" in (entry / "cmdline").read_bytes():
                    pids.append(int(entry.name))
    return pids


def playing(node: Any) -> set[str]:
    """Return the names of the node's workers that have an open episode."""
    import ray

    names = set()
    for row in ray.util.list_named_actors(all_namespaces=True):
        if f"/{node.node_id}/" in row["name"]:
            with contextlib.suppress(ValueError, ray.exceptions.RayError):
                actor = ray.get_actor(row["name"], namespace=NAMESPACE)
                if ray.get(actor.activity.remote(), timeout=0.5)["episodes"]:
                    names.add(row["name"])
    return names


class Watch:
    """Measures how long nodes are without an episode. `waiting`: since when, and the workers that do not count."""

    def __init__(self) -> None:
        self.waiting: dict[Any, tuple[str, float, set[str]]] = {}
        self.seconds: dict[str, list[float]] = {"kill": [], "join": []}

    def begin(self, node: Any, event: str, before: set[str]) -> None:
        """Measure until a worker of the node that is not in `before` has an episode."""
        self.waiting[node] = event, time.monotonic(), before

    def look(self) -> None:
        for node, (event, since, before) in [*self.waiting.items()]:
            if playing(node) - before:
                del self.waiting[node]
                self.seconds[event].append(time.monotonic() - since)


def disturb(cluster: Any, process: subprocess.Popen[bytes], kills: int, rng: random.Random, watch: Watch) -> int:
    """Kill workers while the rollout runs, and let a node join, leave and join. Returns: the number of kills."""
    hit, next_at, joined = 0, time.monotonic(), None
    changes = iter([kills // 3, kills // 2, 2 * kills // 3])
    change_at = next(changes)
    for _ in _until_ended(process):
        watch.look()
        if hit >= change_at:
            change_at = next(changes, sys.maxsize)
            if joined is None:
                joined = cluster.add_node(num_cpus=1)
                watch.begin(joined, "join", set())
            else:
                watch.waiting.pop(joined, None)
                cluster.remove_node(joined, allow_graceful=False)
                joined = None
        if hit < kills and time.monotonic() > next_at:
            candidates = [node for node in cluster.list_all_nodes() if playing(node) and worker_pids(node)]
            if candidates:
                node = rng.choice(candidates)
                before = playing(node)
                for pid in worker_pids(node):
                    os.kill(pid, signal.SIGKILL)
                watch.begin(node, "kill", before)
                hit, next_at = hit + 1, time.monotonic() + rng.uniform(*PAUSE_S)
    return hit


def _until_ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    while process.poll() is None:
        yield
        time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--episodes", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="four kills of a short rollout")
    options = parser.parse_args()
    kills, limit = (4, 400) if options.quick else (options.kills, options.episodes)
    watch = Watch()
    with tempfile.TemporaryDirectory(prefix="cluster-kills-") as scratch, simulated_cluster(NODES) as cluster:
        here, there = Path(scratch) / "here", Path(scratch) / "there"
        rollout(here, limit).wait()
        connect(cluster.address)
        began = time.monotonic()
        process = rollout(there, limit, "--engine", "ray", "--address", cluster.address)
        hit = disturb(cluster, process, kills, random.Random(options.seed), watch)
        took_s = time.monotonic() - began
        expected, got, twice = episodes(here), episodes(there), doubled(there)
        lost, differ = len(expected.keys() - got.keys()), sum(got[name] != expected[name] for name in got)
        print((Path(scratch) / "there.err").read_text()[-3000:], file=sys.stderr)
    table = Table("rc", "kills", "episodes", "lost", "doubled", "differ", "seconds")
    table.add_row(*map(str, (process.returncode, hit, len(got), lost, twice, differ, round(took_s))))
    seconds = Table("seconds to the next episode on the node", "events", "median", "most")
    for event, values in watch.seconds.items():
        if values:
            seconds.add_row(f"after a {event}", str(len(values)), f"{median(values):.1f}", f"{max(values):.1f}")
    for each in (table, seconds):
        Console(soft_wrap=True).print(each)
    return 1 if process.returncode or lost or twice or differ or hit < kills else 0


if __name__ == "__main__":
    sys.exit(main())
