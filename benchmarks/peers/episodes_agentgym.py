"""agentgym's episode manager; with $PEER_LEDGER=1 every episode is written to a ledger on disk as well."""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import closing
from pathlib import Path

import episodes_work

from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy, Task
from agentgym.messages import Call, Message
from agentgym.storage.ledger import Ledger
from agentgym.testing import Counter, TargetReached

ADD = Message("assistant", "", (Call("add", {"amount": 1}),))
SCRIPT: list[Message | str] = [*[ADD] * episodes_work.CALLS, Message("assistant", "", (Call("submit"),))]


def play(count: int) -> None:
    tasks = [Task(str(n), "peers/counter-v1", "Count to 8.", truth=episodes_work.CALLS) for n in range(count)]
    with tempfile.TemporaryDirectory() as folder, closing(Ledger(Path(folder) / "ledger.sqlite")) as ledger:
        manager = EpisodeManager(
            ScriptedPolicy(SCRIPT),
            RolloutConfig(environment=Counter, reward=TargetReached(), concurrency=episodes_work.AT_ONCE),
            ledger=ledger if "PEER_LEDGER" in os.environ else None,
        )
        trajectories = asyncio.run(manager.collect(tasks))
    assert [trajectory.success for trajectory in trajectories] == [1.0] * count


if __name__ == "__main__":
    episodes_work.main(play, "agentgym-core")
