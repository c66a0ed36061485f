"""Saved episodes judged again: what changes is the verdict alone, and a judge that fails gives no zero."""

from __future__ import annotations

import asyncio

import pytest

from agentgym import Call, Message, Reward, RolloutConfig, ScriptedPolicy, Task, TaskSet, evaluate
from agentgym.errors import EvaluationError, JudgeError, RewardError
from agentgym.evaluation.rescore import rescore, rescore_evaluation
from agentgym.storage.ledger import Ledger
from agentgym.testing import Counter, TargetReached

TASKS = [Task(f"h{i}", "acme/counter-v1", f"Count to {i}.", truth=i, split="held_out") for i in range(1, 7)]
SET = TaskSet("acme/c-v1", {"held_out": TASKS})


class Near(TargetReached):
    """One off counts as well; and turns earn by how many came before, so that the order shows."""

    weights = {"before": 0.5}

    def turn(self, turn, episode):
        assert episode.stop_reason is None
        return {"before": float(len(episode.turns) - 1)}

    def outcome(self, episode):
        amounts = [call.arguments["amount"] for turn in episode.turns for call in turn.calls if call.name == "add"]
        return {
            "success": float(abs(amounts[0] - episode.task.truth) <= 1),
            "exact": float(amounts[0] == episode.task.truth),
        }


def off_by(task: Task) -> ScriptedPolicy:
    amount = task.truth + {1: 0, 2: 1, 3: 2}.get(task.truth % 4, 0)
    return ScriptedPolicy(
        [Message("assistant", "", (Call("add", {"amount": amount}),)), Message("assistant", "", (Call("submit"),))]
    )


@pytest.fixture
async def evaluated(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    evaluation = await evaluate(
        off_by, SET, config=RolloutConfig(environment=Counter, reward=TargetReached(), group_size=2), ledger=ledger
    )
    yield evaluation, ledger
    ledger.close()


async def test_another_reward_judges_the_same_episodes(evaluated):
    before, ledger = evaluated
    rescored = await rescore_evaluation(before, ledger, Near(), label="near")
    assert before.success().value == pytest.approx(3 / 6)
    assert rescored.after.success().value == pytest.approx(5 / 6)
    assert rescored.after.label == "near"
    assert [row.hash for row in rescored.after.rows] == [row.hash for row in before.rows]
    assert rescored.after.manifest == before.manifest
    assert rescored.after.success(also="exact").value == before.success().value
    assert {name.split("/")[-1].split("#")[0] for name, *_ in rescored.changed} == {"h2", "h6"}
    assert all((old, new) == (0.0, 1.0) for _, old, new in rescored.changed)
    assert rescored.after.rows[0].reward == [1.0 + 1.0 + 0.5 * (0 + 1)] * 2  # success, exact, and two turns
    [first] = await rescore([ledger.load(before.run + "/h1#0")], Near())
    assert [turn.rewards for turn in first.turns] == [{"before": 0.0}, {"before": 1.0}]


async def test_judging_again_with_the_same_reward_changes_nothing(evaluated):
    before, ledger = evaluated
    rescored = await rescore_evaluation(before, ledger, TargetReached(), label=before.label)
    assert rescored.changed == []
    assert rescored.after.rows == before.rows
    assert rescored.after == before


class Beside(TargetReached):
    """Also sees the two episodes of a task beside each other, and its turns when all is over."""

    def hindsight(self, episode):
        return [{"late": episode.outcome["success"]} for _ in episode.turns]

    def group(self, episodes):
        if episodes[0].task.id == "h5":
            raise JudgeError("cannot compare")
        return [{"among": float(len(episodes))} for _ in episodes]


async def test_a_reward_that_judges_groups_and_in_hindsight_does_so_again(evaluated):
    before, ledger = evaluated
    got = await rescore([ledger.load(f"{before.run}/h{i}#{s}") for i in (4, 5) for s in (0, 1)], Beside())
    assert [trajectory.valid for trajectory in got] == [True, True, False, False]
    assert got[0].outcome == {"success": 1.0, "among": 2.0}
    assert [turn.rewards for turn in got[0].turns] == [{"ok": 1.0, "late": 1.0}] * 2
    assert "cannot compare" in (got[2].error or "")


async def test_a_judge_that_cannot_judge_gives_no_observation(evaluated):
    before, ledger = evaluated

    class Shy(Reward):
        """Judges only what it knows."""

        async def outcome(self, episode):
            if episode.task.id == "h3":
                raise JudgeError("no idea")
            if episode.task.id == "h4":
                await asyncio.sleep(60)
            return {"success": 1.0}

    originals = [ledger.load(f"{before.run}/h{i}#0") for i in (2, 3, 4)]
    got = await rescore(originals, Shy(), time_s=0.05)
    assert [trajectory.valid for trajectory in got] == [True, False, False]
    assert "no idea" in (got[1].error or "")
    assert all(trajectory.valid for trajectory in originals)  # the originals are as they were
    rescored = await rescore_evaluation(before, ledger, _Without("h3"), label="x")
    assert rescored.after.failed == 2
    assert rescored.after.success().n == 5


class _Without(Reward):
    def __init__(self, task: str) -> None:
        self.task = task

    def outcome(self, episode):
        if episode.task.id == self.task:
            raise JudgeError("not this one")
        return {"success": 1.0}


async def test_what_cannot_be_judged_again_is_said(evaluated):
    before, ledger = evaluated

    class Wrong(Reward):
        """No reward."""

        def outcome(self, episode):
            return {"success": float("nan")}

    with pytest.raises(RewardError):
        await rescore_evaluation(before, ledger, Wrong(), label="x")
    before.rows[0].task = "gone"
    with pytest.raises(EvaluationError, match=r"2 of its episodes .*gone#0"):
        await rescore_evaluation(before, ledger, TargetReached(), label="x")
