"""The shares of the advantages that the components of the reward cause."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym import registry
from agentgym.credit import Group, estimator
from agentgym.credit.batch import credit_of_groups
from agentgym.credit.reward_parts import OTHER, reward_shares
from agentgym.errors import CreditError

RETURN = estimator("return_to_go", baseline="loo")


def group_of(success: list[float], form: list[list[float]], *, weight: float = 1.0, **signals: object) -> Group:
    """Return a group whose outcomes are `success` and whose turn rewards are `weight` x `form`."""
    return Group.from_arrays(
        turns=[len(row) for row in form],
        weights={"form": weight},
        outcomes=success,
        outcome_components={"success": success},
        turn_rewards=[[weight * x for x in row] for row in form],
        components={"form": form},
        **signals,
    )


def shares(groups: list[Group], chosen=RETURN) -> dict[str, float]:
    return reward_shares(groups, chosen, credit_of_groups(groups, chosen).advantages)


def test_shares_of_a_sum_are_those_of_its_parts():
    # Advantages of the first episode: 1 + (0.2 - 0.1) and 1 + (0.1 - 0); of the second the same, negative.
    group = group_of([1.0, 0.0], [[1.0, 1.0], [1.0, 0.0]], weight=0.1)
    assert shares([group]) == pytest.approx({"success": 4 / 4.4, "form": 0.4 / 4.4})


def test_tokens_weigh_the_turns():
    group = group_of([1.0, 0.0], [[0.0, 0.0], [1.0, 0.0]], lengths=[[3, 3], [12, 1]])
    assert shares([group]) == pytest.approx({"success": 19 / 34, "form": 15 / 34})


def test_form_has_all_influence_where_only_form_varies_however_small_its_weight():
    grpo = estimator("grpo")
    equal_success = group_of([0.0, 0.0], [[1.0], [0.0]], weight=1e-3)
    assert shares([equal_success], grpo) == pytest.approx({"form": 1.0, "success": 0.0})
    both = shares([group_of([0.0, 0.0], [[1.0], [0.0]]), group_of([1.0, 0.0], [[1.0], [1.0]])], grpo)
    assert both == pytest.approx({"form": 0.5, "success": 0.5})


def test_a_component_of_the_outcome_and_of_the_turns_is_one_component():
    group = Group.from_arrays(
        outcomes=[1.0, 0.0],
        outcome_components={"success": [1.0, 0.0]},
        turn_rewards=[[1.0], [0.0]],
        components={"success": [[1.0], [0.0]]},
    )
    assert shares([group]) == {"success": 1.0}


def test_what_no_reward_causes_is_other():
    shaped = estimator("potential_shaping")
    assert shares([group_of([0.0, 0.0], [[0.0], [0.0]], potentials=[[0.5], [0.0]])], shaped) == {
        "success": 0.0,
        "form": 0.0,
        OTHER: 1.0,
    }


def test_failed_episodes_and_equal_groups_move_nothing():
    failed = Group.from_arrays(
        turns=[1, 1], valid=[True, False], outcomes=[0.0, None], outcome_components={"success": [0.0, 0.0]}
    )
    assert shares([failed]) == {}
    assert shares([group_of([1.0, 1.0], [[0.0], [0.0]])], estimator("rloo")) == {}


def test_an_estimator_that_rejects_a_group_without_success_gives_no_shares():
    def without_constants(group: Group) -> list[np.ndarray]:
        if not group.outcomes.any():
            raise CreditError("There is no success to learn from.")
        return [np.ones(turns) for turns in group.turns]

    assert shares([group_of([1.0, 0.0], [[1.0], [0.0]])], without_constants) == {}


@pytest.mark.filterwarnings("ignore::agentgym.credit.CreditWarning")
def test_shares_sum_to_one_for_every_estimator_of_rewards():
    varied = group_of([1.0, 0.0, 1.0], [[0.2, 0.0], [0.1, 0.4], [0.0, 0.3]], lengths=[[2, 3], [4, 5], [1, 1]])
    groups = [varied, group_of([0.0, 0.0], [[0.1], [0.3]], lengths=[[1], [2]])]
    tried = [
        name
        for name in registry.names("estimators")
        if all(getattr(varied, signal) is not None for signal in estimator(name).requires)
    ]
    assert len(tried) >= 20
    for name in tried:
        result = shares(groups, estimator(name))
        assert not result or sum(result.values()) == pytest.approx(1.0), name
