"""Votes without gold: the majority, ties, silence, and pairs of phrasings that judge each other."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from judging import answered, make_trajectory

from agentgym import Environment, EpisodeManager, JudgeError, Message, RolloutConfig, ScriptedPolicy, Task, tool
from agentgym.rewards.by_task import ByTask
from agentgym.rewards.majority_vote import CoReward, MajorityVote


def group(*answers, truth=None, task="t"):
    episodes = [
        make_trajectory(*([] if a is None else [[answered(a)]]), truth=truth, name=f"{task}#{n}")
        for n, a in enumerate(answers)
    ]
    return [replace(episode, task=replace(episode.task, id=task)) for episode in episodes]


def votes(components):
    return [row.get("vote") for row in components]


def test_who_answers_as_most_do_gets_the_vote_however_it_is_written():
    components = MajorityVote().group(group("4", "4.0", "5", None))
    assert votes(components) == [1.0, 1.0, 0.0, 0.0]
    assert components[0]["agreement"] == 0.5
    assert votes(MajorityVote(compare="maths").group(group("1/2", r"\frac{2}{4}", "3"))) == [1.0, 1.0, 0.0]


def test_of_a_tie_the_first_given_counts_and_fewer_than_two_answers_decide_nothing():
    assert votes(MajorityVote().group(group("a", "b"))) == [1.0, 0.0]
    assert MajorityVote().group(group("a", None)) == [{"vote": 0.0}] * 2, (
        "a group without a verdict would end a training"
    )
    assert MajorityVote().group(group("", "")) == [{"vote": 0.0}] * 2


async def test_two_phrasings_are_judged_by_each_others_majority():
    """The first group says mostly 4, the second mostly 5: in each, who says what the other says is paid."""
    judge, truth = CoReward(), {"pair": "p"}
    first, second = await asyncio.gather(
        judge.group(group("4", "4", "5", truth=truth, task="a")),
        judge.group(group("5", "5", "4", truth=truth, task="b")),
    )
    assert votes(first) == [0.0, 0.0, 1.0]
    assert votes(second) == [0.0, 0.0, 1.0]
    assert judge._waiting == {"p": []}


async def test_pairs_met_again_in_a_later_step_begin_anew_and_one_task_is_no_pair_of_its_own():
    judge, truth = CoReward(), {"pair": "p"}
    first, second = (asyncio.ensure_future(judge.group(group("4", "4", truth=truth, task="a"))) for _ in range(2))
    await asyncio.sleep(0)
    assert not first.done()
    for answer in "45":
        assert votes(await judge.group(group(answer, answer, truth=truth, task="b"))) == [float(answer == "4")] * 2
    assert (votes(await first), votes(await second)) == ([1.0, 1.0], [0.0, 0.0])


async def test_a_phrasing_without_its_other_gives_up_when_it_is_cancelled_and_without_a_pair_at_once():
    judge = CoReward()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(judge.group(group("4", "4", truth={"pair": "p"})), 0.01)
    assert judge._waiting == {"p": []}
    with pytest.raises(JudgeError, match=r"no truth\['pair'\]"):
        await judge.group(group("4", "4"))


async def test_each_task_says_who_judges_it_with_its_weights_in_whole_runs():
    """One task is judged as maths, another by word overlap, a third by a group's vote."""

    class Say(Environment):
        """Answer. Nothing to be isolated."""

        @tool(final=True, inline=True)
        def answer(self, text: str) -> str:
            """Answer."""
            return "Answered."

    cases = {
        "maths": ({"reward": "symbolic_maths", "answer": "1/2"}, {"success": 1.0}),
        "words": ({"reward": "token_overlap", "answer": "0.5 apples"}, {"success": 0.0, "f1": pytest.approx(2 / 3)}),
        "votes": ({"reward": "majority_vote"}, {"vote": 1.0, "agreement": 1.0}),
    }
    tasks = [Task(name, "x/y-v1", "How many?", truth=truth) for name, (truth, _) in cases.items()]
    script = ScriptedPolicy([Message("assistant", "", (answered("0.5")[0],))])
    trajectories = await EpisodeManager(script, RolloutConfig(environment=Say, reward=ByTask())).collect(tasks, 2)
    for trajectory in trajectories:
        assert trajectory.error is None
        assert trajectory.outcome == cases[trajectory.task.id][1]
    assert {t.task.id: dict(t.weights) for t in trajectories} == {
        "maths": {},
        "words": {"f1": 0.0},
        "votes": {"agreement": 0.0},
    }


@pytest.mark.parametrize(
    ("truth", "says"),
    [
        (None, "must be the name of another reward"),
        ({"reward": "nobody"}, "nobody"),
        ({"reward": "by_task"}, "must be the name of another reward"),
    ],
)
async def test_a_task_whose_verifier_is_not_there_is_not_judged(truth, says):
    with pytest.raises(JudgeError, match=says):
        await ByTask().outcome(make_trajectory([answered("x")], truth=truth))
