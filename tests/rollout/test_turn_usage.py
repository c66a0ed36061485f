"""What a turn took of its sandboxes is in its record: every call's share, each byte once, and through the ledger."""

from __future__ import annotations

import asyncio
import os

import pytest
from scripted_episodes import make_manager, say
from trajectory_json import trajectory_from_json, trajectory_to_json

from agentgym import (
    Budgets,
    Environment,
    EpisodeManager,
    RolloutConfig,
    SandboxSpec,
    ScriptedPolicy,
    Task,
    TaskSet,
    Trajectory,
    tool,
)
from agentgym.cli.tables import episodes_table, evaluation_table, print_episode
from agentgym.environment.sandboxes import EnvironmentSandboxes
from agentgym.evaluation.runner import from_trajectories
from agentgym.evaluation.text import format_usage
from agentgym.messages import StopReason
from agentgym.registry import shared_backend
from agentgym.sandbox import Usage
from agentgym.sandbox.host.guest_sandbox import GuestSandbox
from agentgym.storage.ledger import Ledger
from agentgym.testing import Counter, TargetReached

pytestmark = pytest.mark.needs_namespaces
KILO = 1000
DAY_S = 86_400.0


class Writer(Environment):
    """Tools that write a known number of bytes in a sandbox."""

    sandbox = SandboxSpec(memory_mib=64, disk_mib=8, accept_weaker=("all",))

    async def reset(self, task, *, seed):
        self.first_sandbox = await self.open_sandbox()
        await self.first_sandbox.run_python(f"open('setup', 'wb').write(bytes({500 * KILO}))")
        return task.opening()

    @tool
    async def write(self, kilobytes: int) -> str:
        """Write so many thousand bytes."""
        await self.first_sandbox.run_python(f"open('f', 'wb').write(bytes({kilobytes * KILO}))")
        return "done"

    @tool
    async def write_elsewhere(self, kilobytes: int) -> str:
        """Write so many thousand bytes in a sandbox of its own, which is gone afterwards."""
        sandbox = await self.open_sandbox()
        await sandbox.run_python(f"open('f', 'wb').write(bytes({kilobytes * KILO}))")
        await sandbox.close()
        return "done"

    @tool
    async def start_over(self) -> str:
        """Reset the sandbox, and write 1,000 bytes."""
        await self.first_sandbox.reset()
        await self.first_sandbox.run_python("open('f', 'wb').write(bytes(1000))")
        return "done"

    @tool(timeout_s=10 * DAY_S)
    async def loop(self) -> str:
        """Compute without end."""
        return (await self.first_sandbox.run_python("while True: pass", timeout_s=10 * DAY_S)).text

    @tool
    async def kill(self) -> str:
        """End the sandbox."""
        await self.first_sandbox.close()
        return "done"

    @tool(final=True, inline=True)
    def submit(self) -> str:
        """End."""
        return "done"


class Rated(TargetReached):
    def outcome(self, episode):
        return {"success": 1.0}


def about(kilobytes: float) -> object:
    """Each fork of the guest writes some bytes of our own before the agent's code begins."""
    return pytest.approx(kilobytes * KILO, abs=100)


async def play(*messages, **options) -> Trajectory:
    def make() -> Environment:
        environment = Writer()
        environment.backend = shared_backend("namespaces")
        return environment

    manager = make_manager(ScriptedPolicy([*messages]), environment=make, reward=Rated(), **options)
    return (await manager.collect([Task("t", "test/writer-v1", "Write.")]))[0]


def writing(*kilobytes: int):
    return say(*(("write", {"kilobytes": count}) for count in kilobytes))


async def test_every_turn_and_every_call_says_what_it_took():
    trajectory = await play(writing(100), writing(20, 30, 40), say("submit"))
    assert trajectory.provenance.reset_usage["written_bytes"] == about(500)
    first, second, last = (turn.usage for turn in trajectory.turns)
    assert (first["written_bytes"], first["started"]) == (about(100), 1)
    assert first["cpu_s"] > 0
    assert 0 < first["wall_s"] <= trajectory.turns[0].tools_s
    assert first["peak_memory_mib"] > 0
    assert first["disk_bytes"] >= 600 * KILO
    assert [call.usage["written_bytes"] for call in trajectory.turns[1].results] == [about(20), about(30), about(40)]
    assert (second["written_bytes"], second["started"]) == (about(90), 3), "calls side by side are counted once"
    assert second["wall_s"] <= trajectory.turns[1].tools_s
    assert {"written_bytes", "started"}.isdisjoint(last), "a turn without sandbox calls took nothing"
    total = trajectory.usage()
    assert (total["written_bytes"], total["started"]) == (about(690), 5)
    usages = (trajectory.provenance.reset_usage, first, second, last)
    assert total["peak_memory_mib"] == max(usage.get("peak_memory_mib", 0.0) for usage in usages)


async def test_the_record_keeps_it(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    trajectory = await play(writing(1, 2), say("submit"), ledger=ledger)
    loaded = ledger.load(trajectory.id)
    ledger.close()
    copied = trajectory_from_json(trajectory_to_json(trajectory))
    for other in (loaded, copied):
        assert [turn.usage for turn in other.turns] == [turn.usage for turn in trajectory.turns]
        assert [call.usage for turn in other.turns for call in turn.results] == [
            call.usage for turn in trajectory.turns for call in turn.results
        ]
        assert other.usage() == trajectory.usage()


async def test_sandboxes_that_are_gone_by_the_end_of_the_turn_are_counted():
    trajectory = await play(say(("write_elsewhere", {"kilobytes": 70})), writing(5), say("kill"), say("submit"))
    assert [turn.usage.get("written_bytes", 0) for turn in trajectory.turns] == [about(70), about(5), 0, 0]
    assert "disk_bytes" not in trajectory.turns[-1].usage, "a closed sandbox holds nothing"
    assert trajectory.stop_reason is StopReason.ANSWERED, "that nothing can be read of it is no failure"


async def test_a_reset_begins_the_count_anew_and_takes_nothing_away():
    trajectory = await play(writing(50), say("start_over"), writing(5), say("submit"))
    assert [turn.usage.get("written_bytes", 0) for turn in trajectory.turns] == [about(50), about(1), about(5), 0]


async def test_a_turn_that_the_clock_ended_says_what_it_took():
    trajectory = await play(say("loop"), say("submit"), budgets=Budgets(time_s=1.0))
    assert trajectory.stop_reason is StopReason.TIME
    assert trajectory.turns[0].usage["cpu_s"] > 0.1


async def test_an_environment_without_sandboxes_has_no_usage_and_its_own_may_be_told():
    class Meter(EnvironmentSandboxes):
        were_opened = True

        def __init__(self, counter: Counter) -> None:
            super().__init__()
            self._counter = counter

        async def usage(self) -> Usage:
            return Usage(cpu_s=float(self._counter.value))

    class Telling(Counter):
        def __init__(self) -> None:
            super().__init__()
            self.sandboxes = Meter(self)

    for environment, expected in ((Counter, {}), (Telling, {"cpu_s": 5.0})):
        script = [say(("add", {"amount": 2})), say(("add", {"amount": 3})), say("submit")]
        manager = EpisodeManager(ScriptedPolicy(script), RolloutConfig(environment=environment, reward=TargetReached()))
        (trajectory,) = await manager.collect([Task("t", "test/counter-v1", "Count.", truth=5)])
        assert trajectory.usage() == expected


async def test_the_record_names_the_images_of_the_sandboxes(monkeypatch):
    assert (await play(say("submit"))).provenance.image_digests == [], "the host's own programs have no digest"
    monkeypatch.setattr(GuestSandbox, "image_digest", "sha256:5678")
    assert (await play(say("submit"))).provenance.image_digests == ["sha256:5678"]


async def test_the_record_names_the_image_of_a_sandbox_that_the_first_call_opens(monkeypatch):
    class Lazy(Environment):
        sandbox = SandboxSpec(memory_mib=64, accept_weaker=("all",))

        def __init__(self) -> None:
            self.backend = shared_backend("namespaces")

        async def reset(self, task, *, seed):
            return task.opening()

        @tool
        async def look(self) -> str:
            """List the files."""
            return str(await (await self.default_sandbox()).list())

    monkeypatch.setattr(GuestSandbox, "image_digest", "sha256:5678")
    manager = EpisodeManager(ScriptedPolicy([say("look"), "done"]), RolloutConfig(environment=Lazy))
    [trajectory] = await manager.collect([Task("t", "test/lazy-v1", "Look.")])
    assert trajectory.provenance.image_digests == ["sha256:5678"]


async def test_parallel_episodes_never_count_each_others_calls():
    trajectories = await asyncio.gather(*(play(writing(count), say("submit")) for count in (10, 200, 3000)))
    assert [t.turns[0].usage["written_bytes"] for t in trajectories] == [about(10), about(200), about(3000)]
    assert [t.turns[0].results[0].usage["written_bytes"] for t in trajectories] == [about(10), about(200), about(3000)]


async def test_tables_and_evaluations_tell_the_totals():
    from rich.console import Console

    trajectory = await play(writing(100), say("submit"))
    tasks = TaskSet("acme/writing-v1", {"held_out": [trajectory.task]})
    evaluation = from_trajectories([trajectory], label="x", task_set=tasks, split="held_out", policy="script")
    assert evaluation.usage()["written_bytes"] == about(600)
    assert type(evaluation).from_json(evaluation.to_json()).usage() == evaluation.usage()
    console = Console(width=300, file=open(os.devnull, "w"), record=True)  # noqa: ASYNC230, SIM115
    with console.file:
        print_episode(trajectory, console)
        console.print(episodes_table([trajectory]), evaluation_table(evaluation))
    text = console.export_text()
    assert "took CPU" in text
    assert text.count("586 KiB written") == 3, "of the episode, of the episodes, of the evaluation"


def test_figures_are_told_format_usage():
    usage = {
        "prompt_tokens": 1234,
        "cost": 0.5,
        "cpu_s": 0.0123,
        "wall_s": 7200.0,
        "peak_memory_mib": 2048.0,
        "written_bytes": 5 * 2**20,
        "started": 1,
        "disk_bytes": 9,
    }
    assert format_usage(usage) == [
        "1,234 prompt tokens",
        "cost 0.5",
        "CPU 12.3 ms",
        "wall 2.0 h",
        "peak 2.0 GiB",
        "5 MiB written",
        "1 process",
    ]
    assert format_usage({}) == []
