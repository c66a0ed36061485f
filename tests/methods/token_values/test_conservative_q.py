"""Values of tokens are bootstrapped from tokens that the policy finds likely, and from no others."""

from __future__ import annotations

import math

import pytest
import torch
from problem_episodes import ACTIONS, EPISODES, PROMPT, TARGET, Names, TableModel, episodes

from agentgym.methods.stored_turns.transitions import ReturnSpec, StoredEpisode
from agentgym.methods.token_values.conservative_q import fit_conservative_q, likely_tokens, mean_value
from agentgym.methods.token_values.fitting import Descent
from agentgym.methods.token_values.networks import AdvantageHead

SEARCH, ANSWER, UNSEEN, VOCABULARY = ACTIONS["search"], ACTIONS["answer"], 6, 20


def fitted(chances: dict[int, float], top_p: float) -> AdvantageHead:
    """With a behaviour policy of these chances, which only answers where two searches found something.

    A token that no episode holds begins with value 5.
    """
    network = AdvantageHead(TableModel().base_model, 64, VOCABULARY)
    with torch.no_grad():
        network.action.bias[UNSEEN] = 5.0
    names = Names()
    stored = [StoredEpisode.of(t, ReturnSpec()) for t in episodes(TARGET["flip"], EPISODES["flip"], names)]

    def behaviour(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        logits = torch.full((*ids.shape, VOCABULARY), -30.0)
        for token, chance in chances.items():
            logits[..., token] = math.log(chance)
        logits[ids == names("1 found")] = torch.nn.functional.one_hot(torch.tensor(ANSWER), VOCABULARY) * 30.0
        return logits

    descent = Descent(steps=300, batch_size=100, learning_rate=0.05)
    fit_conservative_q(network, stored, descent, behaviour=behaviour, gamma=1.0, follow=0.2, top_p=top_p)
    return network


def values(network: AdvantageHead, ids: list[int]) -> torch.Tensor:
    row = torch.tensor([ids])
    with torch.no_grad():
        return network(row, torch.ones_like(row))[0][0, -1]


def test_the_maximum_is_over_what_the_policy_finds_likely():
    """In flip two searches pay 0.5 + 0.4, an answer after one search 0.4 on average, an answer at once 0.5."""
    start = values(fitted({SEARCH: 0.5, ANSWER: 0.49, UNSEEN: 0.01}, top_p=0.9), [PROMPT])
    assert float(start[SEARCH]) == pytest.approx(0.9, abs=2e-2)
    assert float(start[ANSWER]) == pytest.approx(0.5, abs=1e-2)


def test_with_its_likeliest_token_alone_the_values_are_those_of_what_the_policy_would_write():
    start = values(fitted({SEARCH: 0.4, ANSWER: 0.6}, top_p=0.1), [PROMPT])
    assert float(start[SEARCH]) == pytest.approx(0.4, abs=2e-2)


def test_over_all_tokens_a_value_that_no_episode_supports_spreads():
    start = values(fitted({SEARCH: 0.5, ANSWER: 0.49, UNSEEN: 0.01}, top_p=1.0), [PROMPT])
    assert float(start[SEARCH]) > 3.0


def test_likely_tokens_are_the_smallest_set_that_holds_the_share():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert likely_tokens(logits, 0.6).tolist() == [[True, True, False, False]]
    assert likely_tokens(logits, 0.01).tolist() == [[True, False, False, False]]
    assert likely_tokens(logits, 1.0).tolist() == [[True] * 4]


def test_an_episode_is_worth_the_mean_value_of_its_own_tokens():
    network = fitted({SEARCH: 0.5, ANSWER: 0.5}, top_p=0.9)
    trajectory = episodes(TARGET["flip"], EPISODES["flip"], Names())[0]
    ids, expected = list(trajectory.prompt_ids), []
    for turn in trajectory.turns:
        for token in turn.token_ids:
            expected.append(float(values(network, ids)[token]))
            ids.append(token)
        ids += turn.observation_ids
    assert mean_value(network, trajectory) == pytest.approx(sum(expected) / len(expected), abs=1e-5)
