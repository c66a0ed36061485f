"""`subgoal_feedback`: what a turn earned, where it is paid, and what cannot be judged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import called, make_trajectory

from agentgym import JudgeError
from agentgym.messages import ResultStatus
from agentgym.rewards.subgoal_feedback import SubgoalFeedback, accumulated, delayed


def episode_of(potentials, progress, **parameters):
    """An episode whose environment had these potentials before its turns, and this progress after them."""
    episode = make_trajectory(*([called("a")] for _ in potentials))
    for turn, potential in zip(episode.turns, potentials, strict=True):
        turn.potential = potential
    episode.outcome = {} if progress is None else {"progress": progress}
    episode.task.parameters.update(parameters)
    return episode


def paid(judge, episode):
    return [components["subgoal"] for components in judge.hindsight(episode)]


EPISODE = [0.0, 0.25, 0.25, 0.5], 1.0  # the turns earn 1/4, nothing, 1/4 and 1/2


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.25, 0.0, 0.25, 0.5]),
        ({"placement": "last"}, [0.0, 0.0, 0.0, 1.0]),
        ({"placement": "even"}, [0.25, 0.25, 0.25, 0.25]),
        ({"placement": "wrong"}, [0.25, 0.5, 0.25, 0.0]),
        ({"every": 3}, [0.0, 0.0, 0.5, 0.5]),
        ({"delay": 1}, [0.0, 0.25, 0.0, 0.75]),
        ({"every": 2, "delay": 1}, [0.0, 0.0, 0.25, 0.75]),
        ({"basis": "calls"}, [0.25, 0.25, 0.25, 0.25]),
    ],
)
def test_the_same_gains_are_paid_where_the_options_say(options, expected):
    assert paid(SubgoalFeedback(**options), episode_of(*EPISODE, horizon=4)) == pytest.approx(expected)


def test_a_call_that_did_not_run_is_not_paid_for():
    episode = make_trajectory([called("a", "no", ResultStatus.WRONG_ARGUMENTS)], [called("a")], "only words")
    episode.task.parameters["horizon"] = 2
    assert paid(SubgoalFeedback(basis="calls"), episode) == [0.0, 0.5, 0.0]


@given(st.lists(st.floats(-1, 1), max_size=8), st.integers(1, 9), st.integers(0, 9))
def test_no_placement_changes_the_total(earned, every, delay):
    assert sum(delayed(accumulated(earned, every), delay)) == pytest.approx(sum(earned))


@pytest.mark.parametrize("placement", ["own", "last", "even", "wrong"])
@pytest.mark.parametrize("turns", [0, 1, 5])
def test_all_placements_pay_the_gain_of_the_episode(placement, turns):
    episode = episode_of([k / 5 for k in range(turns)], 0.9)
    assert sum(paid(SubgoalFeedback(placement=placement), episode)) == pytest.approx(0.9 if turns else 0.0)


def test_noise_depends_on_the_episode_alone():
    judge, episode, other = SubgoalFeedback(noise=0.5), episode_of(*EPISODE), episode_of(*EPISODE)
    other.id = "another episode"
    assert paid(judge, episode) == paid(judge, episode) != paid(judge, other)


@pytest.mark.parametrize(
    ("potentials", "progress", "options", "message"),
    [
        ([0.0, None], 1.0, {}, "its environment has no potential"),
        ([0.0, 0.5], None, {}, "no other reward gives `progress`"),
        ([0.0], 1.0, {"basis": "calls"}, "parameters\\['horizon'\\] must be .* not None"),
    ],
)
def test_what_cannot_be_judged_is_said(potentials, progress, options, message):
    with pytest.raises(JudgeError, match=message):
        SubgoalFeedback(**options).hindsight(episode_of(potentials, progress))


@pytest.mark.parametrize(
    "options", [{"basis": "luck"}, {"placement": "first"}, {"every": 0}, {"delay": -1}, {"noise": -0.1}]
)
def test_options_that_mean_nothing_are_refused(options):
    with pytest.raises(ValueError, match=r"must be|choose"):
        SubgoalFeedback(**options)
