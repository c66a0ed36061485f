"""`user_judge`: what the judge reads of a conversation, and that it tells nothing of the agent."""

from __future__ import annotations

import re

import pytest

from agentgym import EpisodeManager, JudgeError, Message, ScriptedPolicy, load_reward, load_task_set
from agentgym.rewards.user_judge import UserJudge


@pytest.fixture
async def served():
    task_set = load_task_set("service/desk-v1")
    task = next(task for task in task_set["train"] if task.tags[0] == "retail")
    (trajectory,) = await EpisodeManager(ScriptedPolicy(task_set.oracle(task))).collect([task])
    return trajectory


async def test_the_judge_reads_the_goal_and_the_words_alone(served):
    requests = []

    def judge(messages):
        requests.append(messages[-1].text)
        return Message("assistant", "It did.\nVERDICT: YES")

    reward = UserJudge(ScriptedPolicy(judge, name="judge"))
    assert await reward.outcome(served) == {"user_faithful": 1.0}
    assert reward.total({"user_faithful": 1.0}) == 0.0
    (request,) = requests
    assert served.task.parameters["customer"]["wants"] in request
    assert f"USER: {served.task.prompt}" in request
    assert "AGENT: What is your mail address?" in request
    assert not re.search(r"Record|find_customer|changes", request)


async def test_a_user_that_the_judge_finds_at_fault_is_told_apart(served):
    reward = UserJudge(ScriptedPolicy(lambda messages: "VERDICT: NO", name="judge"))
    assert await reward.outcome(served) == {"user_faithful": 0.0}
    with pytest.raises(JudgeError, match="has no judge"):
        await load_reward("user_judge").outcome(served)
