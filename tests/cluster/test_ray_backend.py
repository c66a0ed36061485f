"""The ray backend on a real cluster: two nodes on this host, as Ray simulates them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from kit_halves import each_half
from served_environments import Workshop

from agentgym import Call, EpisodeManager, Message, RolloutConfig, SandboxSpec, ScriptedPolicy, Task, register
from agentgym.cluster.host_link import SILENCE_S
from agentgym.cluster.hosted_sandbox import HostedChannel
from agentgym.cluster.ray_backend import RayBackend
from agentgym.errors import SandboxDied, SandboxUnavailable, UnknownNameError
from agentgym.sandbox import Capabilities, NamespacesBackend
from agentgym.testing import check_backend
from agentgym.testing.backends.testbed import SPEC

pytestmark = [
    pytest.mark.together("a cluster of Ray"),
    pytest.mark.skipif(
        find_spec("ray") is None and not os.environ.get("AGENTGYM_CI_RAY"), reason="Ray is not installed"
    ),
    pytest.mark.needs_namespaces,
]


@pytest.mark.slow
@each_half
@pytest.mark.thorough
async def test_sandboxes_on_nodes_keep_the_contract_of_every_backend(cluster, checks):
    backend = RayBackend(cluster.address, nodes=2)
    try:
        await check_backend(backend, only=checks)
        sandboxes = [await backend.create(SPEC) for _ in range(4)]
        assert sorted(link.sandboxes for link in backend._pool.links.values()) == [2, 2]
        await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))
    finally:
        await backend.close()


async def test_a_killed_host_ends_its_calls_and_the_next_sandbox_is_made_elsewhere(cluster):
    backend = RayBackend(cluster.address)
    try:
        sandboxes = [await backend.create(SPEC) for _ in range(2)]
        victim, survivor = sorted(sandboxes, key=lambda sandbox: sandbox._link.node.id)
        running = asyncio.ensure_future(victim.exec(["sleep", "50"], timeout_s=60))
        await asyncio.sleep(0.2)
        os.kill(await victim.host_pid(), signal.SIGKILL)
        with pytest.raises(SandboxDied, match="lost"):
            await running
        with pytest.raises(SandboxDied, match="lost"):
            await victim.exec(["true"])
        assert (await survivor.exec(["echo", "on"])).text == "on\n"
        assert (await (await backend.create(SPEC)).exec(["echo", "new"])).text == "new\n"
        await victim.close()
    finally:
        await backend.close()


@pytest.mark.thorough  # every hosted backend has the watch; tests/cluster/test_kubernetes_backend.py tries it
async def test_a_host_that_answers_no_heartbeat_is_given_up_though_ray_says_nothing(cluster):
    """A frozen process stands for a node that hangs or is cut off: its connections stay open."""
    backend = RayBackend(cluster.address)
    try:
        sandbox = await backend.create(SPEC)
        pid = await sandbox.host_pid()
        running = asyncio.ensure_future(sandbox.exec(["sleep", "50"], timeout_s=60))
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(SandboxDied, match=r"answered no heartbeat for [45] s"):
                await running
        finally:
            os.kill(pid, signal.SIGCONT)
    finally:
        await backend.close()
    assert SILENCE_S < 5


@pytest.mark.thorough  # every hosted backend has the watch; tests/cluster/test_kubernetes_backend.py tries it
async def test_sandboxes_of_a_silent_driver_are_closed_when_their_lease_ends(cluster):
    backend = RayBackend(cluster.address, lease_s=1.5)
    try:
        sandbox = await backend.create(SPEC)
        assert (await sandbox.exec(["true"])).ok
        await asyncio.to_thread(backend._pool._host_watch.end)
        for _ in range(200):
            if not [row for row in await backend.running() if row.owner == os.getpid()]:
                break
            await asyncio.sleep(0.05)
        with pytest.raises(SandboxDied, match="its lease has ended"):
            await sandbox.exec(["true"])
    finally:
        await backend.close()


async def test_an_episode_whose_host_is_killed_goes_on_from_its_checkpoint(cluster):
    backend = RayBackend(cluster.address)

    class Killing(ScriptedPolicy):
        async def generate(self, request):
            if request.turn == 2 and not killed:
                busy = next(node for node, link in backend._pool.links.items() if link.sandboxes)
                killed.append(busy)
                os.kill((await backend._pool.links[busy].ask("probe"))["pid"], signal.SIGKILL)
            return await super().generate(request)

    killed: list[str] = []
    calls = [Call("write", {"name": "a", "text": "kept"}), *[Call("run", {"command": "cat /work/a"})] * 2]
    script = [Message("assistant", "", (call,)) for call in calls] + [Message("assistant", "done")]
    config = RolloutConfig(environment=Workshop, backend=backend)
    try:
        manager = EpisodeManager(Killing(script), config)
        [trajectory] = await manager.collect([Task("t", "test/workshop-v1", "Work.", truth="x")])
        assert trajectory.error is None
        assert len(killed) == 1
        assert "kept" in trajectory.turns[2].results[0].content
        assert trajectory.provenance.retries
    finally:
        await backend.close()


async def test_a_call_that_a_host_cannot_do_costs_no_other_sandbox(cluster):
    backend = RayBackend(cluster.address)
    try:
        sandbox = await backend.create(SPEC)
        with pytest.raises(SandboxDied, match=r"call failed on the node .*KeyError"):
            await HostedChannel(sandbox, 999).request("no such channel")
        assert (await sandbox.exec(["echo", "here"])).stdout == b"here\n"
        assert not any(link.lost for link in backend._pool.links.values())
    finally:
        await backend.close()


async def test_without_a_cluster_nothing_is_made_and_the_reason_is_said():
    import ray

    ray.shutdown()  # a process that is connected would use what it has
    backend = RayBackend("127.0.0.1:1")
    with pytest.raises(SandboxUnavailable, match=r"There is no usable Ray cluster at .*agentgym cluster up"):
        await backend.create(SandboxSpec())
    capabilities = await backend.probe()
    assert not capabilities.available
    assert "agentgym cluster up" in capabilities.reason


class Absent(NamespacesBackend):
    """A backend that cannot work on any node."""

    name = "test_absent"

    async def probe(self) -> Capabilities:
        return Capabilities(False, reason="no user namespaces; allow them")


async def test_a_node_that_can_make_no_sandboxes_is_named_with_the_reason(cluster):
    register("test_absent", Absent, kind="backends")
    backend = RayBackend(cluster.address, backend="test_absent")
    try:
        with pytest.raises(SandboxUnavailable, match=r"These nodes cannot be used.*no user namespaces; allow them"):
            await backend.create(SandboxSpec())
    finally:
        await backend.close()


def test_a_backend_that_nothing_is_registered_as_is_named_at_once():
    with pytest.raises(UnknownNameError, match="namspaces"):
        RayBackend(backend="namspaces")


DRIVER = """
import asyncio, sys
from agentgym.cluster import RayBackend
from agentgym.testing.backends import SPEC
async def main():
    backend = RayBackend(sys.argv[1])
    sandboxes = [await backend.create(SPEC) for _ in range(2)]
    print(*[await sandbox.host_pid() for sandbox in sandboxes], flush=True)
    await sandboxes[0].exec(["sleep", "50"], timeout_s=60)
asyncio.run(main())
"""


def alive(pids: set[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists()]


@pytest.mark.thorough  # test_ray_engine.py kills a driver with sandboxes, test_kubernetes_backend.py one with hosts
async def test_a_driver_that_was_killed_leaves_no_host_and_no_sandbox(cluster):
    start = [sys.executable, "-c", DRIVER, cluster.address]
    driver = await asyncio.to_thread(subprocess.Popen, start, stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    with driver.stdout:
        hosts = {int(pid) for pid in (await asyncio.to_thread(driver.stdout.readline)).split()}
        here = NamespacesBackend()
        assert {row.owner for row in await here.running()} >= hosts
        assert len(hosts) == 2
        driver.kill()
        driver.wait()
    for _ in range(400):
        remaining = alive(hosts)
        if not remaining and not {row.owner for row in await here.running()} & hosts:
            break
        await asyncio.sleep(0.05)
    assert remaining == []
    assert not {row.owner for row in await here.running()} & hosts
