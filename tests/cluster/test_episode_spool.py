"""Ends of episodes that no driver has recorded are kept on the nodes, and delivered once."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from cluster_sessions import SCRIPT, TASKS, TwoWorkers, plain

from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy, Task, Trajectory
from agentgym.cluster.episode_spool import KEEP_S, EpisodeSpool
from agentgym.errors import LedgerError
from agentgym.messages import StopReason
from agentgym.storage import Ledger
from agentgym.testing import CounterWithState, TargetReached


class Counted(CounterWithState):
    """Notes each reset."""

    resets: list[str] = []

    async def reset(self, task, *, seed):
        self.resets.append(task.id)
        return await super().reset(task, seed=seed)


class LosesItsDisk(Ledger):
    """Records three ends, and then no more: as where the driver is killed, nothing else of the run is recorded."""

    ends = 0

    async def finish(self, trajectory, *, awaits_group=False):
        self.ends += 1
        if self.ends > 3:
            raise LedgerError("the disk is gone")
        await super().finish(trajectory, awaits_group=awaits_group)


def manager(folder: Path, ledger: Ledger) -> EpisodeManager:
    """With new workers on the same disk."""
    config = RolloutConfig(environment=Counted, reward=TargetReached(), engine=TwoWorkers(folder=folder), concurrency=8)
    return EpisodeManager(lambda task: ScriptedPolicy(SCRIPT), config, ledger=ledger, label="run")


def files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def test_what_had_ended_when_the_driver_was_lost_is_delivered_to_the_next_one_and_not_played_again(tmp_path):
    async def scenario() -> None:
        first = LosesItsDisk(tmp_path / "ledger.sqlite")
        with pytest.raises(LedgerError, match="the disk is gone"):
            await manager(tmp_path / "kept", first).collect(TASKS)
        recorded = first.finished("run")
        first.close()
        spooled = EpisodeSpool(tmp_path / "kept", first_identity := identity(tmp_path / "ledger.sqlite")).ids()
        assert len(recorded) == 3
        assert spooled
        assert not spooled & recorded
        played_before = len(Counted.resets)
        ledger = Ledger(tmp_path / "ledger.sqlite")
        trajectories = await manager(tmp_path / "kept", ledger).collect(TASKS)
        assert [(t.error, t.success, len(t.turns)) for t in trajectories] == [(None, 1.0, 3)] * 8
        assert len(Counted.resets) - played_before == 8 - len(recorded | spooled)
        assert {t.id: plain(t) for t in ledger.trajectories()} == {t.id: plain(t) for t in trajectories}
        ledger.close()
        assert files(tmp_path / "kept") == []
        assert first_identity == identity(tmp_path / "ledger.sqlite")
        # another ledger at the same path is another run, which begins from nothing
        for file in tmp_path.glob("ledger*"):
            file.unlink()
        assert identity(tmp_path / "ledger.sqlite") != first_identity

    Counted.resets.clear()
    asyncio.run(scenario())


def identity(path: Path) -> str:
    ledger = Ledger(path)
    try:
        return ledger.identity
    finally:
        ledger.close()


def test_a_run_that_ends_well_leaves_nothing(tmp_path):
    async def scenario() -> None:
        ledger = Ledger(tmp_path / "ledger.sqlite")
        await manager(tmp_path / "kept", ledger).collect(TASKS)
        ledger.close()

    asyncio.run(scenario())
    assert files(tmp_path / "kept") == []


def ended(name: str, text: str = "") -> Trajectory:
    trajectory = Trajectory(f"run/{name}#0", Task(name, "x/counter-v1", text))
    trajectory.stop_reason = StopReason.ANSWERED
    return trajectory


def test_the_oldest_make_room_and_what_cannot_be_kept_is_left_out_with_a_warning(tmp_path, caplog):
    spool = EpisodeSpool(tmp_path / "kept", "ledger", most_bytes=4000)
    for number in range(4):
        assert spool.write(ended(str(number), "x" * 1000), {})
        for file in files(tmp_path / "kept"):
            os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 10))
    assert {"run/3#0", "run/2#0"} <= {name for name in spool.ids() if spool.read(name)}
    assert spool.read("run/0#0") is None
    assert sum(file.stat().st_size for file in files(tmp_path / "kept")) <= 4000
    assert not spool.write(ended("large", "x" * 5000), {})
    assert "run/large#0 cannot be kept for its driver" in caplog.text
    assert not spool.write(ended("odd"), {("odd", 0, 0): lambda: None})  # which no pickle holds
    (tmp_path / "file").write_text("")
    assert not EpisodeSpool(tmp_path / "file", "ledger").write(ended("nowhere"), {})  # as on a disk that is full


def test_old_damaged_and_foreign_files_are_not_delivered(tmp_path):
    spool = EpisodeSpool(tmp_path, "ledger")
    assert spool.write(ended("old"), {})
    for file in files(tmp_path):
        os.utime(file, (0, file.stat().st_mtime - KEEP_S - 1))
    assert spool.write(ended("damaged"), {})
    assert spool.write(ended("good"), {})
    spool._file("run/damaged#0").write_bytes(b"half a pickle")
    assert spool.ids() == {"run/damaged#0", "run/good#0"}
    assert spool.read("run/old#0") is None
    assert spool.read("run/damaged#0") is None
    assert spool.read("run/good#0")[0].id == "run/good#0"
    assert EpisodeSpool(tmp_path, "another ledger").ids() == set()
