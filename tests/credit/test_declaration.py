"""What every estimator declares, its options, and the edge rules that hold for all of them."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from agentgym import registry
from agentgym.credit import CreditWarning, Group, define_estimator, estimator
from agentgym.credit.contract import batch_advantages
from agentgym.errors import CreditError, ShapeError, UnknownNameError
from agentgym.registry import names, register

GROUP = Group.from_arrays(outcomes=[1, 0], turn_rewards=[[0, 1], [0]])


@pytest.fixture(autouse=True)
def _own_names_alone(monkeypatch):
    """What a test registers here is gone after it: other tests look at everything that is registered."""
    monkeypatch.setitem(registry._registered, "estimators", {})


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'return_to_go'\?.*`agentgym list estimators` names all"):
        estimator("return_togo")


def test_an_unknown_option_suggests_the_nearest_and_names_all():
    with pytest.raises(CreditError, match=r"no option 'gama'. Did you mean 'gamma'\? It accepts gamma, baseline"):
        estimator("return_to_go", gama=0.9)
    with pytest.raises(CreditError, match="'rloo' has no option 'scale'"):
        estimator("rloo", scale="std")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gamma": 1.5}, "'gamma' of 'return_to_go' is 1.5: expected less than or equal to 1"),
        ({"gamma": math.nan}, "'gamma' .* is nan: expected a finite number"),
        ({"gamma": "0.9"}, "is '0.9': expected a valid number"),
        ({"gamma": True}, "is True: expected a valid number"),
        ({"scale": "stdev"}, "expected 'none' or 'std'"),
        ({"ddof": 2}, "expected less than or equal to 1"),
        ({"ddof": True}, "expected a valid integer"),
        ({"outcome_weight": 0}, "expected greater than 0"),
        ({"turn_weight": -1.0}, "expected greater than or equal to 0"),
        ({"turn_weight": math.inf}, "expected a finite number"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_when_it_is_set(options, says):
    with pytest.raises(CreditError, match=says):
        estimator("return_to_go", **options)


def test_the_bias_class_follows_the_options():
    assert estimator("return_to_go").bias == "unbiased"
    assert estimator("return_to_go", gamma=0.9).bias == "biased"
    assert estimator("mt_grpo", baseline="mean").bias == "direction"
    assert estimator("mt_grpo", scale="std").bias == "biased"
    assert estimator("mt_grpo", absent="left_out", baseline="loo").bias == "biased"
    assert estimator("agentrl").bias == estimator("reinforce_pp_baseline").bias == "direction"
    assert estimator("agentrl", weigh="tokens").bias == "biased"
    assert estimator("turn_gae", lam=0.9).bias == estimator("turn_gae", truncated="bootstrap").bias == "biased"
    assert estimator("ragen").bias == "biased"
    assert estimator("ragen", gamma=1.0, boundary="first").bias == "unbiased"


def test_choosing_a_misleading_one_warns_and_the_others_do_not():
    with pytest.warns(CreditWarning, match="use 'mt_grpo'"):
        estimator("mt_grpo_reach")
    warned = set()
    for name in names("estimators"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimator(name)
        warned |= {name} if caught else set()
    assert warned == {"mt_grpo_reach", "mt_grpo_two_segment", "gtpo", "kevin", "hrpo"}


def test_a_group_of_one_gets_zero_never_its_raw_reward():
    credit = estimator("rloo").explain(Group.from_arrays(outcomes=[1], turn_rewards=[[1, 1]]))
    assert [a.tolist() for a in credit.advantages] == [[0, 0]]
    assert credit.flags == ("too_few",)


def test_a_group_with_one_survivor_gets_zero():
    group = Group.from_arrays(outcomes=[1, None, None], turn_rewards=[[1], [1], []], valid=[1, 0, 0])
    credit = estimator("return_to_go").explain(group)
    assert [a.tolist() for a in credit.advantages] == [[0], [0], []]
    assert credit.flags == ("too_few", "failed")


def test_a_group_of_failed_trajectories_gets_zero():
    group = Group.from_arrays(outcomes=[None, None], turn_rewards=[[1, 2], []], valid=[False, False])
    credit = estimator("grpo").explain(group)
    assert [a.tolist() for a in credit.advantages] == [[0, 0], []]
    assert credit.flags == ("none_valid", "failed")


def test_a_group_without_any_difference_is_flagged():
    credit = estimator("grpo").explain(Group.from_arrays(outcomes=[0.1, 0.1, 0.1], truncated=[0, 1, 0]))
    assert [a.tolist() for a in credit.advantages] == [[0], [0], [0]]
    assert credit.flags == ("no_spread", "truncated")
    assert credit.zero_share == 1.0


def test_a_truncated_trajectory_is_scored_as_it_stands():
    with_flag = Group.from_arrays(outcomes=[1, 0], turn_rewards=[[0, 1], [0]], truncated=[False, True])
    credit = estimator("return_to_go").explain(with_flag)
    assert [a.tolist() for a in credit.advantages] == [a.tolist() for a in estimator("return_to_go")(GROUP)]
    assert credit.flags == ("truncated",)


def test_advantages_that_overflow_are_refused_with_their_turn():
    @define_estimator(requires=("outcomes",), bias="heuristic", source="our own")
    def broken(group: Group) -> np.ndarray:
        return np.where(np.arange(group.turn_mask.shape[1]) == 1, np.nan, np.ones(group.turn_mask.shape))

    with pytest.raises(CreditError, match="gave turn 1 of the 0th valid trajectory the advantage nan"):
        broken(GROUP)


def test_an_estimator_of_the_wrong_shape_is_refused():
    @define_estimator(requires=("outcomes",), bias="heuristic", source="our own")
    def flat(group: Group) -> np.ndarray:
        return np.asarray(group.outcomes)

    with pytest.raises(
        ShapeError, match=r"'flat' returned an array of shape \(2,\) for 2 trajectories of at most 2 turns"
    ):
        flat(GROUP)


def test_a_declaration_that_makes_no_sense_is_refused():
    with pytest.raises(CreditError, match="names signals that no group has"):
        define_estimator(requires=("outcome",), bias="unbiased", source="our own")
    with pytest.raises(CreditError, match="bias = 'none'"):
        define_estimator(requires=(), bias="none", source="our own")
    with pytest.raises(CreditError, match="source is empty"):
        define_estimator(requires=(), bias="biased", source=" ")
    with pytest.raises(CreditError, match="minimum_group = 0"):
        define_estimator(requires=(), bias="biased", source="our own", minimum_group=0)


def test_a_users_estimator_gets_the_edge_rules_for_free():
    """It sees valid trajectories only, and needs no special case for small groups."""
    sizes = []

    @define_estimator(requires=("outcomes",), bias="unbiased", source="our own")
    def above_half(group: Group, *, half: float = 0.5) -> np.ndarray:
        sizes.append(group.size)
        return np.broadcast_to((group.outcomes - half)[:, None], group.turn_mask.shape)

    register("above_half", above_half, kind="estimators")
    group = Group.from_arrays(outcomes=[1, None, 0], turn_rewards=[[0, 0], [0], [0]], valid=[1, 0, 1])
    actual = estimator("above_half", half=0.25)(group)
    assert [a.tolist() for a in actual] == [[0.75, 0.75], [0], [-0.25]]
    assert sizes == [2]


def test_an_undeclared_function_under_an_estimators_name_is_refused():
    register("undeclared", lambda group: group, kind="estimators")
    with pytest.raises(CreditError, match=r"Decorate its function with agentgym\.credit\.define_estimator"):
        estimator("undeclared")


def test_an_estimator_over_a_batch_sees_the_valid_of_the_groups_that_are_large_enough():
    """A group of one is left out, a failed trajectory is too; both get 0, and everyone else what the batch says."""
    batches = []

    @define_estimator(requires=("outcomes",), bias="biased", source="our own", scope="batch")
    def above_all(groups: list[Group]) -> list[np.ndarray]:
        batches.append([group.size for group in groups])
        mean = np.mean(np.concatenate([group.outcomes for group in groups]))
        return [np.broadcast_to((group.outcomes - mean)[:, None], group.turn_mask.shape) for group in groups]

    three = Group.from_arrays(outcomes=[3, None, 1], turns=[1, 2, 2], valid=[1, 0, 1])
    lone, pair = Group.from_arrays(outcomes=[9]), Group.from_arrays(outcomes=[2, 6])
    actual = above_all.batch([three, lone, pair])
    assert batches == [[2, 2]]
    assert [[a.tolist() for a in credit.advantages] for credit in actual] == [
        [[0], [0, 0], [-2, -2]],
        [[0]],
        [[-1], [3]],
    ]
    assert [credit.flags for credit in actual] == [("failed",), ("too_few",), ()]
    assert above_all.batch([lone, lone])[0].flags == ("too_few",)
    assert above_all.batch([]) == []
    assert batch_advantages(above_all, [pair])[0][1].tolist() == [2]
    assert batch_advantages(lambda group: [np.ones(1)] * group.size, [pair])[0][0].tolist() == [1]


def test_an_estimator_over_a_batch_must_answer_for_every_group():
    @define_estimator(requires=("outcomes",), bias="biased", source="our own", scope="batch")
    def forgetful(groups: list[Group]) -> list[np.ndarray]:
        return [np.zeros(group.turn_mask.shape) for group in groups[1:]]

    with pytest.raises(ShapeError, match="'forgetful' returned advantages for 1 groups, but was given 2"):
        forgetful.batch([GROUP, GROUP])


def test_a_preset_has_its_own_name_and_source_and_its_options_can_still_be_set():
    preset = estimator("return_to_go").preset("patient", source="our own", gamma=0.5)
    assert (preset.name, preset.source, preset.options) == ("patient", "our own", {"gamma": 0.5})
    assert preset.summary == "return_to_go with gamma=0.5"
    assert preset.with_options(gamma=1.0).bias == "unbiased"
    assert estimator("rloo").preset("loop", source="our own").summary == "rloo under another name"
    assert estimator("rloo").summary.startswith("A_ik = R_i - mean")
    with pytest.raises(CreditError, match="no option 'gama'"):
        preset.with_options(gama=1.0)
