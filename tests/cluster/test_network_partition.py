"""A network that is cut between an episode and its environment server: a network namespace whose link goes down."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"
INSIDE = """
import asyncio, json, os, subprocess, sys
from environment_servers import TOKEN, environment_server
from agentgym import Budgets, Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task
from agentgym.storage import Ledger
from agentgym.testing import TargetReached

def link(state):
    subprocess.run(["ip", "link", "set", "lo", state], check=True)

class Cutting(ScriptedPolicy):
    cuts = 0
    async def generate(self, request):
        if request.turn == 2 and not Cutting.cuts:
            Cutting.cuts += 1
            link("down")
            asyncio.get_running_loop().call_later(float(sys.argv[1]), link, "up")
        return await super().generate(request)

async def main():
    link("up")
    add, submit = Call("add", {"amount": 1}), Call("submit", {})
    script = [Message("assistant", "", (call,)) for call in (add, add, add, submit)]
    tasks = [Task(f"t{n}", "test/counter-with-state-v1", "Count.", truth="3") for n in range(4)]
    ledger = Ledger(sys.argv[2])
    with environment_server("--lease-s", "1") as server:
        budgets = Budgets(infra_retries=20)
        config = RolloutConfig(environment=f"{server.url}/", reward=TargetReached(), budgets=budgets, concurrency=4)
        trajectories = await EpisodeManager(Cutting(script), config, ledger=ledger).collect(tasks)
    recorded = sorted(t.id for t in ledger.trajectories())
    ledger.close()
    rows = [[t.error, t.success, len(t.turns), t.provenance.retries] for t in trajectories]
    print(json.dumps({"rows": rows, "recorded": recorded, "played": sorted(t.id for t in trajectories)}))

os.environ["AGENTGYM_ENVIRONMENT_TOKEN"] = TOKEN
asyncio.run(main())
"""


@pytest.mark.needs_namespaces
@pytest.mark.skipif(shutil.which("ip") is None, reason="needs ip, of iproute2")
@pytest.mark.thorough
def test_episodes_whose_network_is_cut_are_played_once_it_is_back_and_none_is_lost_or_doubled(tmp_path):
    """The link is down for longer than a lease, so each episode goes on from its checkpoint in a new environment."""
    inside = [sys.executable, "-c", INSIDE, "3", str(tmp_path / "ledger.sqlite")]
    path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
    command = ["unshare", "--user", "--map-root-user", "--net", *inside]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert [row[:3] for row in result["rows"]] == [[None, 1.0, 4]] * 4
    assert result["recorded"] == result["played"]
    assert len(set(result["played"])) == 4
    retries = [retry for row in result["rows"] for retry in row[3]]
    assert any(retry.startswith(("ServerUnreachable", "LeaseLost")) for retry in retries), retries
