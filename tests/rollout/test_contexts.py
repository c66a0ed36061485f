"""An environment begins a context: the agent goes on in a row of its own, and reads nothing of what was before."""

from __future__ import annotations

import pytest

from agentgym import (
    Budgets,
    Call,
    Checkpoint,
    Environment,
    EpisodeManager,
    Message,
    Reward,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    registry,
    tool,
)
from agentgym.environment import HasContexts
from agentgym.messages import StopReason
from agentgym.storage import Ledger
from agentgym.testing import ByteRenderer

GO_ON, ANSWER = Message("assistant", "", (Call("go_on", {}),)), Message("assistant", "Done.")


class Rooms(HasContexts, Environment):
    """Three rooms; whoever enters one forgets the others. A call may fail once, as infrastructure does."""

    failures = 0

    async def reset(self, task, *, seed):
        self._enter(0)
        return [Message("user", "room 0")]

    def _enter(self, room: int) -> None:
        self.room, self.role = room, ("reader", "writer", "reader")[room]

    @tool(inline=True)
    def go_on(self) -> str:
        """Enter the next room."""
        if self.room == 1 and Rooms.failures:
            Rooms.failures -= 1
            raise ConnectionError("the room is gone")
        self._enter(self.room + 1)
        self.begin_context([Message("user", f"room {self.room}")])
        return f"room {self.room}"

    async def checkpoint(self):
        return Checkpoint({"room": self.room})

    async def restore(self, task, checkpoint, *, seed):
        self._enter(checkpoint.data["room"])


class Half(Reward):
    def outcome(self, episode):
        return {"success": float(len(episode.turns) == 3)}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(registry._registered["environments"], "test/rooms-v1", Rooms)


async def play(script=(GO_ON, GO_ON, ANSWER), ledger=None, policy=None, **options):
    policy = policy or ScriptedPolicy(list(script), ByteRenderer())
    config = RolloutConfig(reward=Half(), **options)
    (trajectory,) = await EpisodeManager(policy, config, **({"ledger": ledger} if ledger else {})).collect(
        [Task("t", "test/rooms-v1", "Go.")]
    )
    return trajectory


async def test_each_context_is_a_row_with_its_role_and_exact_tokens(tmp_path):
    read = []

    def act(messages):
        read.append([message.text for message in messages])
        return ANSWER if messages[0].text == "room 2" else GO_ON

    renderer = ByteRenderer()
    trajectory = await play(policy=ScriptedPolicy(act, renderer))
    assert read == [["room 0"], ["room 1"], ["room 2"]]
    assert [(turn.row, turn.role) for turn in trajectory.turns] == [(0, "reader"), (1, "writer"), (2, "reader")]
    assert [row.parent for row in trajectory.further_rows] == [0, 1]
    assert [turn.observation_ids for turn in trajectory.turns] == [[], [], []]
    assert trajectory.turns[0].results[0].content == "room 1"
    for number, row in enumerate(trajectory.rows()):
        tools = row.tools or trajectory.further_rows[0].tools
        assert row.prompt_ids == renderer.prompt([Message("user", f"room {number}")], tools)
    assert trajectory.success == 1.0


async def test_an_episode_of_several_contexts_is_read_back_as_it_was(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    trajectory = await play(ledger=ledger)
    loaded = ledger.load(trajectory.id)
    ledger.close()
    assert loaded.further_rows == trajectory.further_rows
    assert [row.opening[0].text for row in loaded.rows()] == ["room 0", "room 1", "room 2"]


async def test_the_prompt_of_a_context_counts_and_one_without_room_begins_no_row():
    full = await play()
    spent = sum(len(turn.token_ids) for turn in full.turns[:1]) + len(full.further_rows[0].prompt_ids)
    cut = await play(budgets=Budgets(max_episode_tokens=spent))
    assert cut.stop_reason is StopReason.MAX_TOKENS
    assert (len(cut.turns), cut.further_rows) == (1, [])


async def test_a_failure_within_a_context_goes_on_in_it(monkeypatch):
    monkeypatch.setattr(Rooms, "failures", 1)
    trajectory = await play()
    assert trajectory.error is None
    assert [turn.row for turn in trajectory.turns] == [0, 1, 2]
    assert len(trajectory.provenance.retries) == 1
