"""Episodes on the nodes of a real Ray cluster: two nodes on this host, as Ray simulates them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest
from served_environments import Workshop

from agentgym import (
    Call,
    EpisodeManager,
    Message,
    RolloutConfig,
    SandboxUnavailable,
    ScriptedPolicy,
    Task,
    register,
    registry,
)
from agentgym.cli.cluster import status as cluster_status
from agentgym.cluster.episode_spool import EpisodeSpool, folder_of_user
from agentgym.cluster.ray_engine import RayEngine
from agentgym.cluster.ray_nodes import activity_by_node, connect
from agentgym.policy import Reply
from agentgym.rollout.sandbox_check import check_limits
from agentgym.sandbox import Capabilities, NamespacesBackend
from agentgym.storage import Ledger
from agentgym.testing import CounterWithState, TargetReached

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None and not os.environ.get("AGENTGYM_CI_RAY"),
    reason="Ray is not installed: make setup-cluster",
)
pytestmark = pytest.mark.together("a cluster of Ray")
RUN = Call("run", {"command": "echo $PPID; cat /work/*; sleep 0.1"})
WRITE = Call("write", {"name": "a", "text": "kept"})
SCRIPT = [Message("assistant", "", (call,)) for call in (WRITE, RUN, RUN)] + [Message("assistant", "done")]


def tasks(count: int) -> list[Task]:
    return [Task(f"t{n}", "test/workshop-v1", "Work.", truth="x") for n in range(count)]


@needs_ray
@pytest.mark.needs_namespaces
@pytest.mark.thorough
async def test_episodes_with_sandboxes_are_played_on_both_nodes_and_come_out_as_here(cluster):
    """The environment is registered in this process alone: it travels to the nodes."""
    register("test/workshop-v1", Workshop)
    engine = RayEngine(cluster.address, nodes=2, backend="namespaces")
    config = {"concurrency": 8}
    try:
        there = await EpisodeManager(ScriptedPolicy(SCRIPT), RolloutConfig(engine=engine, **config)).collect(tasks(8))
        here = await EpisodeManager(ScriptedPolicy(SCRIPT), RolloutConfig(**config)).collect(tasks(8))
        assert [t.error for t in there] == [None] * 8
        assert [[turn.state_key for turn in t.turns] for t in there] == [
            [turn.state_key for turn in t.turns] for t in here
        ]
        assert all("kept" in t.turns[2].results[0].content for t in there)
    finally:
        await engine.close()


class Absent:
    """A backend that makes no sandbox."""

    name = "absent-on-nodes"

    async def create(self, spec, *, snapshot=None):
        raise SandboxUnavailable("one is short of something")

    async def probe(self):
        return Capabilities(False, reason="This node lacks it.")

    async def close(self): ...


@needs_ray
async def test_nodes_without_sandboxes_end_a_command_before_an_episode(cluster):
    register(Absent.name, Absent, kind="backends")
    register("test/workshop-v1", Workshop)
    engine = RayEngine(cluster.address)
    try:
        with pytest.raises(SandboxUnavailable, match=r"^On (\S+).*: The backend 'absent-on-nodes' makes no sandbox"):
            await check_limits(tasks(1), RolloutConfig(engine=engine, backend=Absent.name))
    finally:
        await engine.close()
        del registry._registered["backends"][Absent.name]


def without_load(report: Mapping[str, float]) -> dict[str, float]:
    """Return an engine's report without the load of this process, which is a share."""
    assert 0 <= report["driver/busy"] <= 1
    return {name: value for name, value in report.items() if name != "driver/busy"}


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so, for a minute at most."""
    for _ in range(600):
        if is_so():
            return
        await asyncio.sleep(0.1)


@needs_ray
async def test_killed_workers_are_replaced_a_node_that_joins_is_used_and_no_episode_is_lost_or_doubled(
    cluster, tmp_path
):
    """Every worker is killed, then one again, then a node; meanwhile a node joins. All happen within one run."""
    import ray

    engine, nodes, joined = RayEngine(cluster.address, nodes=2), [], asyncio.Event()

    async def kill(links) -> None:
        lost = len(engine.lost)
        for link in links:
            os.kill((await link.ask("probe"))["pid"], signal.SIGKILL)
        await until(lambda: len(engine.lost) == lost + len(links))

    async def disturb() -> None:
        nodes.append(cluster.add_node(num_cpus=2))  # Ray wants the main thread
        await kill(engine._pool.alive)
        await until(lambda: len(engine._pool.alive) == 3)
        await kill([link for link in engine._pool.alive if link.node.id != nodes[0].node_id][:1])
        await asyncio.to_thread(cluster.remove_node, nodes[0], False)
        await until(lambda: nodes[0].node_id not in engine._pool.links)
        await until(lambda: len(engine._pool.alive) == 2)

    class Disturbed(ScriptedPolicy):
        """Half of the episodes are played only when all is over."""

        requests = 0

        async def generate(self, request) -> Reply:
            type(self).requests += 1
            if type(self).requests == 10:
                disturbing.append(asyncio.ensure_future(disturb()))
                disturbing[0].add_done_callback(lambda _: joined.set())
            if type(self).requests > 60:
                await joined.wait()
            return await super().generate(request)

    disturbing: list[asyncio.Task[None]] = []
    add, submit = Call("add", {"amount": 1}), Call("submit", {})
    script = [Message("assistant", "", (call,)) for call in (add, add, submit)]
    ledger = Ledger(tmp_path / "ledger.sqlite")
    config = RolloutConfig(environment=CounterWithState, reward=TargetReached(), engine=engine, concurrency=9)
    many = [Task(f"t{n}", "x/counter-v1", "Count.", truth="2") for n in range(30)]
    try:
        trajectories = await EpisodeManager(Disturbed(script), config, ledger=ledger).collect(many, 2)
        await disturbing[0]
        assert [(t.error, t.success) for t in trajectories] == [(None, 1.0)] * 60
        assert len(engine.lost) == 4
        assert sorted(t.id for t in ledger.trajectories()) == sorted(t.id for t in trajectories)
        await until(lambda: sum(node["Alive"] for node in ray.nodes()) == 2)
        assert without_load(engine.report()) == {"nodes": 2, "lost": 4, "episodes": 0}
    finally:
        await engine.close()
        ledger.close()


@needs_ray
@pytest.mark.thorough
async def test_the_episodes_and_open_requests_of_every_node_can_be_asked_for(cluster, capsys):
    engine, episodes = RayEngine(cluster.address), []

    class Asking(ScriptedPolicy):
        async def generate(self, request) -> Reply:
            episodes.append(request.episode)
            if len(episodes) == 4:
                activity.update(await asyncio.to_thread(activity_by_node))
                report.update(engine.report())
                await asyncio.to_thread(cluster_status, None, cluster.address)
                all_asked.set()
            await all_asked.wait()
            return await super().generate(request)

    activity, report, all_asked = {}, {}, asyncio.Event()
    config = RolloutConfig(environment=CounterWithState, reward=TargetReached(), engine=engine, concurrency=4)
    four = [Task(f"t{n}", "x/counter-v1", "Count.", truth="0") for n in range(4)]
    submit = [Message("assistant", "", (Call("submit", {}),))]
    try:
        await EpisodeManager(Asking(submit), config).collect(four)
    finally:
        await engine.close()
    assert sorted(activity) == sorted(row.id for row in connect(cluster.address))
    assert [*activity.values()] == [{"workers": 1, "episodes": 2, "asking": 2}] * 2
    assert without_load(report) == {"nodes": 2, "lost": 0, "episodes": 4}
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-4:-1] for line in lines if " yes " in line] == [["1", "2", "2"]] * 2
    assert activity_by_node() == {}


@needs_ray
@pytest.mark.thorough
async def test_a_node_that_hangs_is_noticed_by_its_heartbeats_and_its_episodes_are_played_elsewhere(cluster):
    """Its processes are stopped, so all connections stay open and Ray says nothing for half a minute."""
    import ray

    extra = cluster.add_node(num_cpus=2)
    raylet = extra.all_processes["raylet"][0].process.pid
    engine, stopped = RayEngine(cluster.address), []

    class Freezing(ScriptedPolicy):
        async def generate(self, request) -> Reply:
            if not stopped:
                stopped.append(raylet)
                stopped.append((await engine._pool.links[extra.node_id].ask("probe"))["pid"])
                for pid in stopped:
                    os.kill(pid, signal.SIGSTOP)
            return await super().generate(request)

    add, submit = Call("add", {"amount": 1}), Call("submit", {})
    script = [Message("assistant", "", (call,)) for call in (add, add, submit)]
    config = RolloutConfig(environment=CounterWithState, reward=TargetReached(), engine=engine, concurrency=6)
    many = [Task(f"t{n}", "x/counter-v1", "Count.", truth="2") for n in range(12)]
    try:
        trajectories = await EpisodeManager(Freezing(script), config).collect(many)
        assert [(t.error, t.success) for t in trajectories] == [(None, 1.0)] * 12
        [reason] = engine.lost
        assert re.search(r"is lost \(it has answered no heartbeat for [45] s\)", reason)
        moved = [t for t in trajectories if t.provenance.retries]
        assert 1 <= len(moved) <= 2
        assert without_load(engine.report()) == {"nodes": 2, "lost": 1, "episodes": 0}
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGKILL)
        cluster.remove_node(extra, False)
        await engine.close()
        await until(lambda: sum(node["Alive"] for node in ray.nodes()) == 2)  # Ray prints a line when it notices


def alive(pids: set[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists()]


DRIVER = """
import asyncio, sys
from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task
from agentgym.cluster import RayEngine
from served_environments import Workshop
async def main():
    engine = RayEngine(sys.argv[1], lease_s=6)
    class Announcing(ScriptedPolicy):
        async def generate(self, request):
            if request.turn == 1:
                print(*[(await worker.ask("probe"))["pid"] for worker in engine._pool.links.values()], flush=True)
            return await super().generate(request)
    call = Call("run", {"command": "sleep 50"})
    script = [Message("assistant", "", (c,)) for c in (Call("run", {"command": "true"}), call)]
    config = RolloutConfig(environment=Workshop, engine=engine)
    await EpisodeManager(Announcing(script), config).collect([Task("t", "test/workshop-v1", "Work.")])
asyncio.run(main())
"""


@needs_ray
@pytest.mark.needs_namespaces
async def test_workers_and_sandboxes_of_a_driver_that_was_killed_end_with_its_lease(cluster):
    start = [sys.executable, "-c", DRIVER, cluster.address]
    path = os.pathsep.join([str(Path(__file__).parents[1] / "support"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    driver = await asyncio.to_thread(subprocess.Popen, start, stdout=subprocess.PIPE, text=True, env=environment)
    assert driver.stdout is not None
    with driver.stdout:
        workers = {int(pid) for pid in (await asyncio.to_thread(driver.stdout.readline)).split()}
        assert len(workers) == 2
        backend = NamespacesBackend()
        assert {sandbox.owner for sandbox in await backend.running()} & workers
        driver.kill()
        driver.wait()
    for _ in range(400):
        if not alive(workers) and not {sandbox.owner for sandbox in await backend.running()} & workers:
            break
        await asyncio.sleep(0.05)
    assert alive(workers) == []
    assert not [sandbox for sandbox in await backend.running() if sandbox.owner in workers]


KILLED = """
import asyncio, sys
from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task, tool
from agentgym.cluster import RayEngine
from agentgym.storage import Ledger
from agentgym.testing import Counter

ADDRESS, LEDGER, RESETS = sys.argv[1:]

class Slow(Counter):
    async def reset(self, task, *, seed):
        with open(RESETS, "a") as file:
            print(task.id, file=file)
        return await super().reset(task, seed=seed)

    @tool(final=True)
    async def finish(self) -> str:
        "Take a while, in which the driver is killed."
        await asyncio.sleep(2)
        return "finished"

requests = set()

class Announcing(ScriptedPolicy):
    async def generate(self, request):
        requests.add((request.episode, request.turn))
        if len(requests) == 8:  # once the last replies are on their way
            asyncio.get_running_loop().call_later(0.5, lambda: print("all are in their last call", flush=True))
        return await super().generate(request)

async def main():
    ledger, engine = Ledger(LEDGER), RayEngine(ADDRESS, lease_s=9)
    calls = Call("add", {"amount": 1}), Call("finish", {})
    config = RolloutConfig(environment=Slow, engine=engine)
    tasks = [Task(f"t{n}", "x/slow-v1", "Work.") for n in range(4)]
    policy = Announcing([Message("assistant", "", (call,)) for call in calls])
    trajectories = await EpisodeManager(policy, config, ledger=ledger, label="run").collect(tasks)
    print([(t.error, len(t.turns)) for t in trajectories], sorted(ledger.finished("run")), flush=True)
    await engine.close()
    ledger.close()

asyncio.run(main())
"""


@needs_ray
async def test_what_ends_after_the_driver_was_killed_is_delivered_to_the_next_driver_once(cluster, tmp_path):
    resets = tmp_path / "resets"
    start = [sys.executable, "-uc", KILLED, cluster.address, str(tmp_path / "ledger.sqlite"), str(resets)]
    driver = await asyncio.to_thread(subprocess.Popen, start, stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    with driver.stdout as lines:
        assert "all are in their last call" in await asyncio.to_thread(lines.readline)
        driver.kill()
        driver.wait()
    ledger = Ledger(tmp_path / "ledger.sqlite")
    spool = EpisodeSpool(folder_of_user(), ledger.identity)
    assert ledger.finished("run") == set()
    await until(lambda: len(spool.ids()) == 4)
    ledger.close()
    done = await asyncio.to_thread(subprocess.run, start, capture_output=True, text=True, timeout=120)
    assert f"{[(None, 2)] * 4} {[f'run/t{n}#0' for n in range(4)]}" in done.stdout, done.stderr
    assert sorted(resets.read_text().split()) == ["t0", "t1", "t2", "t3"]
    assert spool.ids() == set()
