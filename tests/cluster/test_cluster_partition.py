"""A node of a real Ray cluster whose network is cut: it has a network namespace of its own, whose link goes down."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec

import pytest

LEASE_S, CUT_S = 4.0, 12.0
INSIDE = """
import asyncio, json, os, subprocess, sys
from pathlib import Path
from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task
from agentgym.cluster import RayEngine
from agentgym.cluster.ray_start import end_nodes, start_node
from agentgym.storage import Ledger
from agentgym.testing import CounterWithState, TargetReached

LEASE_S, CUT_S, FOLDER = float(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])

def ip(*words):
    subprocess.run(["ip", *words], check=True)

def lay_cable():
    ip("netns", "add", "far")
    ip("link", "add", "here", "type", "veth", "peer", "name", "there", "netns", "far")
    near, far = ("here", "10.77.0.1", "10.77.0.2", ()), ("there", "10.77.0.2", "10.77.0.1", ("-n", "far"))
    for name, address, other, where in (near, far):
        ip(*where, "address", "add", f"{address}/24", "dev", name)
        ip(*where, "link", "set", "lo", "up")
        ip(*where, "link", "set", name, "up")
        ip(*where, "route", "add", "default", "via", other)

class Cutting(ScriptedPolicy):
    requests, is_back = 0, None

    async def generate(self, request):
        cls = type(self)
        cls.requests += 1
        if cls.requests == 12:
            cls.is_back = asyncio.Event()
            facts["far_pid"] = (await far_worker().ask("probe"))["pid"]
            ip("link", "set", "here", "down")
            asyncio.get_running_loop().call_later(CUT_S, self.mend)
        elif cls.is_back is not None and engine.lost:
            await cls.is_back.wait()  # so that what the far worker may still send arrives while the run goes on
        return await super().generate(request)

    def mend(self):
        facts["far_has_ended"] = not Path(f"/proc/{facts['far_pid']}/cmdline").exists()
        ip("link", "set", "here", "up")
        asyncio.get_running_loop().call_later(2, self.is_back.set)

def far_worker():
    return next(worker for worker in engine._pool.links.values() if worker.node.name == "10.77.0.2")

async def main():
    add, submit = Call("add", {"amount": 1}), Call("submit", {})
    script = [Message("assistant", "", (call,)) for call in (add, add, add, submit)]
    ledger = Ledger(str(FOLDER / "ledger.sqlite"))
    config = RolloutConfig(environment=CounterWithState, reward=TargetReached(), engine=engine, concurrency=6)
    tasks = [Task(f"t{n}", "x/counter-v1", "Count.", truth="3") for n in range(12)]
    trajectories = await EpisodeManager(Cutting(script), config, ledger=ledger).collect(tasks, 2)
    facts["rows"] = [[t.error, t.success, len(t.turns), t.provenance.retries] for t in trajectories]
    facts["recorded"] = [[t.id, len(t.turns)] for t in ledger.trajectories()]
    facts["played"] = [[t.id, len(t.turns)] for t in trajectories]
    facts["lost"] = engine.lost
    await engine.close()
    ledger.close()

facts = {}
lay_cable()
try:
    address = start_node(port=0, cpus=2)
    join = [sys.executable, "-m", "agentgym", "cluster", "up", "--join", address, "--cpus", "2"]
    subprocess.run(["ip", "netns", "exec", "far", *join], check=True, stdout=subprocess.DEVNULL)
    engine = RayEngine(address, nodes=2, lease_s=LEASE_S)
    asyncio.run(main())
finally:
    end_nodes()
print(json.dumps(facts))
"""


@pytest.mark.slow
@pytest.mark.needs_namespaces
@pytest.mark.skipif(shutil.which("ip") is None, reason="needs ip, of iproute2")
@pytest.mark.skipif(find_spec("ray") is None and not os.environ.get("AGENTGYM_CI_RAY"), reason="Ray is not installed")
@pytest.mark.thorough
def test_a_node_that_is_cut_off_for_longer_than_a_lease_loses_no_episode_and_doubles_none():
    folder = tempfile.mkdtemp(prefix="ag")  # the path of a socket is short, and pytest's are not
    inside = [sys.executable, "-c", INSIDE, str(LEASE_S), str(CUT_S), folder]
    script = 'mount -t tmpfs none /run && exec "$@"'  # where ip keeps the names of namespaces
    command = ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", script, "sh", *inside]
    variables = os.environ | {"TMPDIR": folder, "HOME": folder}
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=280, check=False)
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    assert [row[:3] for row in facts["rows"]] == [[None, 1.0, 4]] * 24
    assert sorted(facts["recorded"]) == sorted(facts["played"])
    assert len({episode for episode, _ in facts["played"]}) == 24
    [reason] = facts["lost"]
    assert "The node 10.77.0.2 is lost" in reason
    assert facts["far_has_ended"], "it outlived its lease"
    moved = [row[3] for row in facts["rows"] if row[3]]
    assert 1 <= len(moved) <= 6
    assert all("began anew on another worker" in notes[0] for notes in moved)
