"""kill -9 in the middle of a run: no finished episode is lost, none is played twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripted_episodes import say, task

from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer, Counter, TargetReached

EPISODES = 200


def run(folder: Path) -> list[str]:
    """Play 200 slow episodes into the folder's ledger; every one that ends is also noted in a plain file."""

    async def play() -> list[str]:
        ledger = Ledger(folder / "ledger.sqlite")
        script = [*[say(("slow_add", {"amount": 1}))] * 4, say("submit")]
        manager = EpisodeManager(
            ScriptedPolicy(script, ByteRenderer()),
            RolloutConfig(environment=lambda: Noting(folder), reward=TargetReached(), concurrency=20),
            ledger=ledger,
        )
        episode_ids = [t.id async for t in manager.run([task(f"t{n}", target=4) for n in range(EPISODES)])]
        ledger.close()
        return episode_ids

    return asyncio.run(play())


class Noting(Counter):
    """A slow counter that notes on disk, outside the ledger, which task it began."""

    def __init__(self, folder: Path) -> None:
        super().__init__(latency_s=0.01)
        self.folder = folder

    async def reset(self, task, *, seed):
        with (self.folder / "begun").open("a") as file:
            file.write(f"{task.id}\n")
        return await super().reset(task, seed=seed)


@pytest.mark.parametrize("after", [30, 120])
def test_after_sigkill_every_episode_is_finished_exactly_once_and_none_is_lost(tmp_path, after):
    child = subprocess.Popen(
        [sys.executable, __file__, str(tmp_path)], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    try:
        begun = tmp_path / "begun"
        while child.poll() is None and not (begun.exists() and len(begun.read_text().split()) >= after):
            time.sleep(0.005)
    finally:
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL

    ledger = Ledger(tmp_path / "ledger.sqlite")
    finished = ledger.finished("run")
    ledger.close()
    assert 0 < len(finished) < EPISODES, "the kill came too early or too late to prove anything"
    begun_before = begun.read_text().split()

    episode_ids = run(tmp_path)
    assert sorted(episode_ids) == sorted(f"run/t{n}#0" for n in range(EPISODES))
    begun_after = begun.read_text().split()[len(begun_before) :]
    assert sorted(begun_after) == sorted(f"t{n}" for n in range(EPISODES) if f"run/t{n}#0" not in finished)

    ledger = Ledger(tmp_path / "ledger.sqlite")
    loaded = list(ledger.trajectories())
    ledger.close()
    assert sorted(t.id for t in loaded) == sorted(episode_ids)
    assert all(t.outcome == {"success": 1.0} and len(t.turns) == 5 for t in loaded)


def test_sigint_ends_the_run_and_what_was_finished_is_kept(tmp_path):
    child = subprocess.Popen(
        [sys.executable, __file__, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
    )
    begun = tmp_path / "begun"
    while child.poll() is None and not (begun.exists() and len(begun.read_text().split()) >= 60):
        time.sleep(0.005)
    child.send_signal(signal.SIGINT)
    error_output = child.communicate()[1].decode()
    assert "KeyboardInterrupt" in error_output
    assert "never awaited" not in error_output
    ledger = Ledger(tmp_path / "ledger.sqlite")
    assert 0 < len(ledger.finished("run")) < EPISODES
    assert all(len(t.turns) == 5 for t in ledger.trajectories())
    ledger.close()


if __name__ == "__main__":
    run(Path(sys.argv[1]))
