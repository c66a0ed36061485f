"""What the hidden states of the model that is trained say about an episode: how they spread, and how they go."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from agentgym import Task, Trajectory, Turn
from agentgym.credit import estimator
from agentgym.messages import Message, StopReason
from agentgym.methods.signals.hidden_states import hidden_states, own_spans
from agentgym.methods.signals.state_flow import StateFlow
from agentgym.methods.signals.state_ranks import (
    DEVIATIONS,
    StateRanks,
    effective_rank,
    rank_dynamics,
    ranks_after_turns,
    ranks_of_chunks,
)
from agentgym.policy import make_model, make_tokenizer


@pytest.fixture(scope="module")
def model():
    return make_model(make_tokenizer(["a text"] * 3, vocab_size=280), seed=0, hidden=32, layers=2, heads=2, kv_heads=1)


def episode(*turns: list[int], success: float = 1.0, failed: bool = False) -> Trajectory:
    """Of turns with these tokens, each followed by two tokens of a result."""
    all_turns = [
        Turn(k, Message("assistant", ""), token_ids=ids, observation_ids=[7, 8] if k + 1 < len(turns) else [])
        for k, ids in enumerate(turns)
    ]
    reason = StopReason.INFRA_ERROR if failed else StopReason.ANSWERED
    outcome = {} if failed else {"success": success}
    return Trajectory(
        "t", Task("t", "test/none-v1", "?"), prompt_ids=[1, 2, 3], turns=all_turns, outcome=outcome, stop_reason=reason
    )


def test_states_at_right_angles_have_one_rank_less_than_states_and_equal_ones_none():
    assert effective_rank(torch.eye(5)) == pytest.approx(4.0)
    line = torch.arange(6.0)[:, None] * torch.tensor([[1.0, -2.0, 0.5]])
    assert effective_rank(line) == pytest.approx(1.0)
    assert effective_rank(torch.ones(4, 3)) == 0.0
    assert effective_rank(torch.eye(5)[:1]) == 0.0


def test_the_rank_of_two_directions_is_the_exponential_of_their_entropy():
    """Singular values 3 and 1 of centred states: shares 3/4 and 1/4, exp(0.5623) = 1.7548."""
    states = torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    assert effective_rank(states) == pytest.approx(1.7548, abs=1e-4)


def test_velocity_compares_with_all_turns_before_and_acceleration_with_the_last_difference():
    """Ranks 2, 4, 3: 4 - 2 = 2 and 3 - (2 + 4) / 2 = 0, so 1 on average; from 2 to 0 is -2."""
    np.testing.assert_allclose(rank_dynamics([2.0, 4.0, 3.0]), [3.0, 1.0, -2.0])
    np.testing.assert_allclose(rank_dynamics([2.0, 4.0]), [4.0, 2.0, 0.0])
    np.testing.assert_allclose(rank_dynamics([2.0]), [2.0, 0.0, 0.0])


def test_ranks_are_those_of_the_agents_own_tokens(model):
    trajectory = episode([10, 11, 12], [13, 14])
    [(_, _, states)] = hidden_states(model, [trajectory])
    assert own_spans(trajectory) == [(3, 6), (8, 10)]
    own = states[[3, 4, 5, 8, 9]]
    expected = [effective_rank(own[:3]), effective_rank(own)]
    assert ranks_after_turns(states, own_spans(trajectory)) == pytest.approx(expected)


def test_ranks_after_every_few_tokens_end_with_all_of_them(model):
    trajectory = episode([10, 11, 12], [13, 14])
    [(_, _, states)] = hidden_states(model, [trajectory])
    own = states[[3, 4, 5, 8, 9]]
    of_two = [effective_rank(own[:end]) for end in (2, 4, 5)]
    assert ranks_of_chunks(states, own_spans(trajectory), 2) == pytest.approx(of_two)
    assert ranks_of_chunks(states, own_spans(trajectory), 5) == pytest.approx(of_two[-1:])
    assert ranks_of_chunks(states, [], 5) == []
    by_tokens, by_turns = (StateRanks(model, every=every) for every in (2, 0))
    for ranks in (by_tokens, by_turns):
        ranks.signals([trajectory], 0)
    expected = rank_dynamics(of_two)
    assert by_tokens.update([trajectory])["states/rank_velocity"] == pytest.approx(expected[1])
    assert by_turns.update([trajectory])["states/rank_velocity"] != pytest.approx(expected[1])


def test_the_scale_falls_with_the_running_mean_of_success_and_is_resumed(model, tmp_path):
    """0.5 at first; then success 0.3 x 0.5 + 0.7 x 0.5 = 0.5, and 0.3 x 0.5 + 0.7 x 1 = 0.85."""
    solved, lost = episode([10, 11]), episode([12, 13], success=0.0)
    ranks = StateRanks(model)
    scales = []
    for batch in ([solved, lost, episode([9], failed=True)], [solved], [solved]):
        scales.append(ranks.signals(batch, 0)["rank_scales"])
        ranks.update(batch)
    assert [row[0] for row in scales] == pytest.approx([0.5, 0.5, 0.15])
    assert len(set(scales[0])) == 1
    ranks.save(tmp_path)
    resumed = StateRanks(model)
    resumed.restore(tmp_path)
    assert resumed.signals([solved], 3) == ranks.signals([solved], 3)
    (tmp_path / "state_ranks.json").write_text("[1.0, 0.5, 0.25]")  # of an earlier version
    resumed.restore(tmp_path)
    assert resumed.signals([solved], 3)["rank_scales"] == [0.5]


def test_deviations_are_against_the_running_mean_of_earlier_batches(model, tmp_path):
    """The first mean is that of the first batch; then 0.3 of it and 0.7 of the next."""
    narrow, wide = episode([10] * 2), episode([10, 30, 90, 150, 200, 9])
    ranks = StateRanks(model)
    first = ranks.signals([narrow, episode([9], failed=True)], 0)
    assert first["rank_deviations"] == [0.0, 0.0]
    metrics = ranks.update([narrow])
    usual = metrics["states/rank"]
    second = ranks.signals([wide], 1)["rank_deviations"]
    [(_, _, states)] = hidden_states(model, [wide])
    rank = effective_rank(states[3:])
    assert second == pytest.approx([min((rank - usual) / usual, 5.0)])
    ranks.update([wide])
    ranks.save(tmp_path)
    resumed = StateRanks(model)
    resumed.restore(tmp_path)
    mean = 0.3 * usual + 0.7 * rank
    for provider in (ranks, resumed):
        assert provider.signals([wide], 2)["rank_deviations"] == pytest.approx([(rank - mean) / mean])


def test_no_token_deviates_before_a_success_and_those_of_failures_deviate_more_after_some(model, tmp_path):
    flow = StateFlow(model, epochs=60, learning_rate=3e-3)
    solved, lost = episode([10, 11, 12], [13, 14]), episode([200, 90, 250], [30, 170], success=0.0)
    assert flow.signals([lost], 0)["flow_deviations"] == [[[], []]]
    assert flow.update([lost]) == {"flow/episodes": 0.0}
    assert flow.signals([lost, solved, episode([9], failed=True)], 1)["flow_deviations"][1] == [[], []]
    assert flow.update([lost, solved])["flow/episodes"] == 1.0
    flow.save(tmp_path)
    resumed = StateFlow(model, epochs=60, learning_rate=3e-3, seed=5)
    resumed.restore(tmp_path)
    of_solved, of_lost, of_failed = flow.signals([solved, lost, episode([9], failed=True)], 2)["flow_deviations"]
    assert [len(row) for row in of_solved] == [3, 2]
    assert of_failed == [[]]
    assert np.concatenate(of_solved).max() < np.concatenate(of_lost).min()
    flow.update([solved])
    resumed.signals([solved], 2)
    resumed.update([solved])
    for name, weights in flow.network.state_dict().items():
        assert torch.equal(weights, resumed.network.state_dict()[name]), name


def test_learning_a_flow_draws_no_number_from_the_global_generator(model):
    before = torch.random.get_rng_state()
    flow = StateFlow(model)
    flow.signals([episode([10, 11])], 0)
    flow.update([episode([10, 11])])
    assert torch.equal(before, torch.random.get_rng_state())


def test_an_estimator_asks_for_hidden_states_by_the_names_of_their_signals():
    assert set(estimator("rloo | rank_shaped").requires) > set(DEVIATIONS)
    assert set(estimator("rloo | rank_shaped(scale='falling')").requires) > set(StateRanks.provides)
    assert set(estimator("rloo | flow_tokens").requires) > set(StateFlow.provides)
