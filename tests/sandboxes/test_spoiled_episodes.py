"""Whatever an agent does to its sandbox, its episode is played to an end that counts."""

from __future__ import annotations

import pytest
from scripted_episodes import make_manager, say

from agentgym import Budgets, ScriptedPolicy, StopReason, Task, load_task_set

pytestmark = pytest.mark.needs_namespaces
TASK = Task("t", "agentgym/code-bash-v1", "Do it.", truth={"files": {"a": "1\n"}})
DEEP = "for i in $(seq 60); do mkdir -p $(printf 'd%.0s' $(seq 200)); cd d*; done; cd /work"
SPOILING = {
    "holes": "truncate -s 60M a b",
    "more holes than are looked at": "for i in $(seq 200); do truncate -s 1M $i; done",
    "many names": "head -c 4M /dev/urandom > a; for i in $(seq 50); do ln a $i; done",
    "folders too deep": DEEP,
    "a shut folder": "mkdir b; chmod 000 b /work",
}


@pytest.mark.parametrize("command", SPOILING.values(), ids=SPOILING)
async def test_an_agent_that_spoils_its_files_fails_and_its_episode_counts(command):
    await play_and_check(TASK, "bash", command)


@pytest.mark.parametrize("name", ["holes", "many names", "folders too deep"])
async def test_so_does_one_that_spoils_a_repository(name):
    (task,) = load_task_set("swe/one-line-shell-v1")["train"][:1]
    await play_and_check(task, "shell", SPOILING[name].removesuffix("; cd /work"))


async def play_and_check(task, shell, command):
    """Play three turns: the agent spoils its files, runs another command, and answers."""
    policy = ScriptedPolicy(
        [say((shell, {"command": command})), say((shell, {"command": "echo still here"})), say("done")]
    )
    manager = make_manager(policy, environment=task.environment, budgets=Budgets(max_turns=3))
    (trajectory,) = await manager.collect([task])
    assert trajectory.stop_reason in (StopReason.ANSWERED, StopReason.MAX_TURNS), trajectory.error
    assert trajectory.outcome["success"] == 0.0
    assert not trajectory.provenance.retries
    assert all(turn.state_key for turn in trajectory.turns)
    assert "still here" in trajectory.turns[1].results[0].content
