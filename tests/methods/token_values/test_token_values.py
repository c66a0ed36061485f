"""Values of tokens come to the exact ones on the small decision problems, and decoding follows them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from by_day import cases
from problem_episodes import (
    ACTIONS,
    BEHAVIOUR,
    EPISODES,
    PROMPT,
    Names,
    TableModel,
    action_chances,
    episodes,
    exact,
    trajectory_of,
)

from agentgym.methods.stored_turns.transitions import ReturnSpec, StoredEpisode
from agentgym.methods.token_values.fitting import Descent, fit_implicit_q, fit_outcomes
from agentgym.methods.token_values.networks import AdvantageHead, OutcomeHead
from agentgym.methods.token_values.stages import describe_equal_returns

SEARCH, ANSWER = ACTIONS["search"], ACTIONS["answer"]


def stored(name: str = "flip", names: Names | None = None) -> list[StoredEpisode]:
    return [StoredEpisode.of(t, ReturnSpec()) for t in episodes(BEHAVIOUR[name], EPISODES[name], names or Names())]


def implicit_q(expectile: float, recorded: list[StoredEpisode], *, steps: int) -> AdvantageHead:
    network = AdvantageHead(TableModel().base_model, 64, 20)
    descent = Descent(steps=steps, batch_size=500, learning_rate=0.05)
    fit_implicit_q(network, recorded, descent, expectile=expectile, gamma=1.0, conservative=0.0, follow=0.2)
    return network


def test_episodes_that_all_fared_alike_teach_nothing_and_that_is_said():
    alike = [episode for episode in stored() if sum(episode.rewards) == 1.0]
    assert describe_equal_returns(stored()) == ""
    assert describe_equal_returns(alike).startswith(f"all {len(alike)} stored episodes have the return 1, so their")


def values(network: AdvantageHead, ids: list[int]) -> tuple[np.ndarray, float]:
    row = torch.tensor([ids])
    with torch.no_grad():
        actions, value = network(row, torch.ones_like(row))
    return actions[0, -1].numpy(), float(value[0, -1])


def every_turn(name: str, names: Names):
    """Of each turn of each path: the tokens up to the action, the action, its exact value, and that of the state."""
    problem = exact(BEHAVIOUR[name])
    chances = action_chances(problem)
    for path in problem.paths:
        episode = StoredEpisode.of(trajectory_of(path, "x", names, chances), ReturnSpec())
        for k, (begin, _, _) in enumerate(episode.bounds):
            ids = [int(token) for token in episode.ids[: begin + 1]]
            yield ids[:-1], ids[-1], path.signals["action_values"][k], path.signals["values"][k]


STEPS = {"flip": 150, "stop_or_go": 120, "lucky_tool": 120, "back_and_forth": 250}


@pytest.mark.parametrize("name", cases(STEPS, by_day=("flip", "lucky_tool")))
def test_at_one_half_the_values_are_those_of_the_policy_that_sampled(name: str):
    """Exact Q and V of every turn of the four problems; in flip 0.65 for a search, 0.5 for an answer at once."""
    names = Names()
    network = implicit_q(0.5, stored(name, names), steps=STEPS[name])
    for before, token, action_value, state_value in every_turn(name, names):
        actions, value = values(network, before)
        assert actions[token] == pytest.approx(action_value, abs=2e-2)
        assert value == pytest.approx(state_value, abs=2e-2)


def test_towards_one_the_values_are_those_of_the_best_stored_tokens_without_sampling_any():
    """Searching twice pays 0.5 + 0.4 = 0.9, and the value of the start is that of the search: nobody played it so."""
    actions, value = values(implicit_q(0.99, stored(), steps=400), [PROMPT])
    assert value == pytest.approx(actions[SEARCH], abs=0.02)
    assert actions[SEARCH] > 0.85
    assert actions[ANSWER] == pytest.approx(0.5, abs=1e-2)


def test_tokens_that_no_episode_holds_are_kept_low():
    network = AdvantageHead(TableModel().base_model, 64, 20)
    descent = Descent(steps=100, batch_size=100, learning_rate=0.05)
    fit_implicit_q(network, stored(), descent, expectile=0.5, gamma=1.0, conservative=0.1, follow=0.2)
    actions, _ = values(network, [PROMPT])
    assert max(np.delete(actions, [SEARCH, ANSWER])) < min(actions[SEARCH], actions[ANSWER]) - 0.5


@pytest.mark.parametrize("name", cases(STEPS, by_day=("flip", "lucky_tool")))
def test_the_mean_of_the_distribution_after_each_turn_is_its_exact_action_value(name: str):
    names = Names()
    network = OutcomeHead(TableModel().base_model, 64, -2.0, 3.0, 6)
    fit_outcomes(network, stored(name, names), Descent(steps=100, batch_size=500, learning_rate=0.2))
    for before, token, action_value, _ in every_turn(name, names):
        row = torch.tensor([[*before, token]])
        with torch.no_grad():
            chances = network(row, torch.ones_like(row))[0, -1].double().softmax(-1)
        assert float(chances @ network.support) == pytest.approx(action_value, abs=1e-2)


def test_the_distribution_after_each_token_is_that_of_the_returns_of_the_episodes_that_hold_it():
    """After a search: 0 or 1 with chances 0.6 and 0.4, and half of the time 0.5 more for another search."""
    network = OutcomeHead(TableModel().base_model, 64, 0.0, 1.5, 4)
    fit_outcomes(network, stored(), Descent(steps=300, batch_size=100, learning_rate=0.1))
    row = torch.tensor([[PROMPT, SEARCH]])
    with torch.no_grad():
        after_search = network(row, torch.ones_like(row))[0, -1].softmax(-1).numpy()
    np.testing.assert_allclose(after_search, [0.3, 0.3, 0.2, 0.2], atol=1e-2)
    gains = network.gains([PROMPT], [SEARCH, ANSWER], 2.0).numpy()
    exact = [np.log(0.3 + 0.3 * np.e + 0.2 * np.e**2 + 0.2 * np.e**3), np.log(0.5 + 0.5 * np.e**2)]
    np.testing.assert_allclose(gains, exact, atol=2e-2)
