"""The losses of preferences against values computed by hand, on trajectories of two turns."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from agentgym import Message, Task, Trajectory, Turn
from agentgym.errors import RecipeError
from agentgym.messages import StopReason
from agentgym.methods.preferences.losses import KtoLoss, PairLoss, RankLoss, dmpo_weights
from agentgym.methods.preferences.options import PreferSection
from agentgym.methods.preferences.pairs import outcome_pairs, segment_pairs, turn_pairs, worst_turns
from agentgym.methods.preferences.prefer import require_better_branch, undesirable_weight
from agentgym.policy import make_model, make_tokenizer
from agentgym.training.loss.scored_rows import ScoredRow, fixed_scores, scores_of
from agentgym.trajectory import ForkPoint


def episode(name: str, *turns: tuple[list[int], list[int]], success: float = 0.0, prompt=(0,)) -> Trajectory:
    """An episode of the same task; each turn is its own tokens and those of what it observed."""
    turn_records = [
        Turn(index, Message("assistant", name), token_ids=own, observation_ids=observed)
        for index, (own, observed) in enumerate(turns)
    ]
    task = Task("task", "test/none-v1", "go")
    return Trajectory(
        name,
        task,
        prompt_ids=list(prompt),
        turns=turn_records,
        outcome={"success": success},
        stop_reason=StopReason.ANSWERED,
    )


CHOSEN = episode("chosen", ([1, 2], [3, 4]), ([5], []), success=1.0)
REJECTED = episode("rejected", ([2], [3, 4]), ([5, 5], []))


class Bigrams(torch.nn.Module):
    """Six tokens whose next one depends on the last: every log-probability is a line of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(6, 6))

    def forward(self, input_ids, labels, **_):
        logps = torch.log_softmax(self.table[input_ids[:, :-1]], dim=-1)
        labels = labels[:, 1:]
        picked = logps.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
        return SimpleNamespace(log_probs=picked.masked_fill(labels == -100, 0.0))


def test_the_weights_of_dmpo_are_those_of_the_paper():
    assert dmpo_weights(2, 0.7) == pytest.approx([1.0, 0.7 * 0.3 / 0.51])
    assert dmpo_weights(4, 1.0) == [1.0, 0.75, 0.5, 0.25]
    assert dmpo_weights(4, 1 - 1e-7) == pytest.approx(dmpo_weights(4, 1.0), abs=1e-6)


# Log-ratios of turns, policy less reference: chosen 0.2 and -0.1, rejected -0.3 and 0.4; beta is 0.5.
@pytest.mark.parametrize(
    ("chosen_weights", "rejected_weights", "margin"),
    [
        ([1.0, 1.0], [1.0, 1.0], 0.5 * ((0.2 - 0.1) - (-0.3 + 0.4))),  # DPO: 0
        (dmpo_weights(2, 0.7), dmpo_weights(2, 0.7), 0.5 * ((0.2 - 0.0411765) - (-0.3 + 0.1647059))),  # DMPO
        ([0.0, 1.0], [0.0, 1.0], 0.5 * (-0.1 - 0.4)),  # SDPO, a segment of one turn from turn 1 on
        ([1.0, 0.0], [1.0, 0.0], 0.5 * (0.2 + 0.3)),  # DPO by turn, of the first one
    ],
)
def test_a_pair_has_the_loss_that_the_formula_gives_by_hand(chosen_weights, rejected_weights, margin):
    """-log sigmoid of the margin, through rows whose turns have these log-ratios."""
    sides = {"chosen": ([0.2, -0.1], chosen_weights), "rejected": ([-0.3, 0.4], rejected_weights)}
    scores = torch.tensor([np.dot(*sides[side]) for side in ("chosen", "rejected")])
    loss, metrics = PairLoss(0.5)(scores, torch.zeros(2), torch.tensor([1.0, 0.0]), 0.0)
    assert float(loss) == pytest.approx(log(1 + exp(-margin)), abs=1e-6)
    assert metrics["margin"] == pytest.approx(margin, abs=1e-6)


class ThreeWords(torch.nn.Module):
    """Three tokens, each with one probability wherever it stands."""

    def __init__(self, *chances: float) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor(chances).log())

    def forward(self, input_ids, labels, **_):
        picked = self.logits.log_softmax(-1)[labels[:, 1:].clamp(min=0)]
        return SimpleNamespace(log_probs=picked.masked_fill(labels[:, 1:] == -100, 0.0))


@pytest.mark.parametrize(
    ("method", "margin"),
    [
        ("dpo", 0.0),  # chosen ln 2 + ln 1.2, rejected ln 1.2 + ln 2
        ("dmpo", (log(2) - log(1.2)) * (1 - 0.7 * 0.3 / 0.51)),  # the second turn counts 0.4118
        ("sdpo", log(1.2) - log(2)),  # the second turn alone
        ("dpo by turn", log(2) - log(1.2)),  # the first one
    ],
)
def test_a_pair_of_two_turn_trajectories_has_its_loss_by_hand_under_a_model_of_three_tokens(method, margin):
    """Token 1 is 0.5 against 0.25 of the reference, so ln 2; token 2 is 0.3 against 0.25; results are tokens, too."""
    turns = {"dpo": [1.0, 1.0], "dmpo": dmpo_weights(2, 0.7), "sdpo": [0.0, 1.0], "dpo by turn": [1.0, 0.0]}[method]
    chosen = episode("chosen", ([1], [2, 0]), ([2], []), success=1.0)
    rejected = episode("rejected", ([2], [1, 1, 0]), ([1], []))
    rows = [ScoredRow.of(trajectory, turns) for trajectory in (chosen, rejected)]
    reference = scores_of(ThreeWords(0.5, 0.25, 0.25), rows).detach()
    loss, _ = PairLoss(1.0)(scores_of(ThreeWords(0.2, 0.5, 0.3), rows), reference, torch.tensor([1.0, 0.0]), 0.0)
    assert float(loss.detach()) == pytest.approx(log(1 + exp(-margin)), abs=1e-6)


def test_towards_gamma_1_episodes_of_equal_length_are_ordered_as_by_the_turns_that_are_left():
    """With l = (0.2, -0.1, 0.3) and (0.1, 0.4, -0.2), weights 1, 2/3, 1/3 give 7/30 and 3/10: the second is ahead."""
    scores = [np.dot(dmpo_weights(3, 1 - 1e-6), turns) for turns in ([0.2, -0.1, 0.3], [0.1, 0.4, -0.2])]
    assert scores == pytest.approx([7 / 30, 3 / 10], abs=1e-5)
    weights = [dmpo_weights(3, gamma) for gamma in (0.3, 0.7, 1.0)]
    assert all(earlier > later > 0 for row in weights for earlier, later in pairwise(row))


def test_the_chosen_row_may_be_imitated_beside_the_comparison():
    """log 2 for equal policies, and 2 nats over 4 tokens at half the weight."""
    scores = torch.tensor([-2.0, -8.0])
    loss = PairLoss(0.1, imitation_weight=0.5)(scores, scores, torch.tensor([4.0, 0.0]), 0.0)[0]
    assert float(loss) == pytest.approx(log(2) + 0.5 * 2.0 / 4)


def test_equal_policies_have_the_loss_log_2():
    scores = torch.tensor([-3.0, -8.0])
    assert float(PairLoss(0.1)(scores, scores, torch.tensor([1.0, 0.0]), 0.0)[0]) == pytest.approx(log(2))
    assert float(KtoLoss()(scores, scores, torch.tensor([1.0, 0.0]), 0.0)[0]) == pytest.approx(0.5)


def test_kto_pulls_a_good_episode_up_and_a_bad_one_down():
    """Good: 2 (1 - sigmoid(0.5 (0.6 - 0.2))); bad: 1 - sigmoid(-0.5 (0.6 - 0.2))."""
    scores, reference = torch.tensor([-1.0, -9.0]), torch.tensor([-1.6, -9.0])
    loss = KtoLoss(0.5, desirable_weight=2.0)
    good = loss(scores, reference, torch.tensor([1.0, 0.0]), 0.2)[0]
    bad = loss(scores, reference, torch.tensor([0.0, 0.0]), 0.2)[0]
    assert float(good) == pytest.approx(2 * (1 - 1 / (1 + exp(-0.2))), abs=1e-6)
    assert float(bad) == pytest.approx(1 - 1 / (1 + exp(0.2)), abs=1e-6)


def test_kto_imitates_good_episodes_alone():
    """-0.5 times the mean log-probability, -9 / 6, beside what it is without."""
    scores = torch.tensor([-9.0, -9.0])
    for tokens, added in ((6.0, 0.5 * 9 / 6), (0.0, 0.0)):
        plain, imitating = (
            KtoLoss(imitation_weight=weight)(scores, scores, torch.tensor([tokens, 0.0]), 0.0)[0] for weight in (0, 0.5)
        )
        assert float(imitating - plain) == pytest.approx(added)


def test_ranking_pays_for_each_pair_in_the_wrong_order_and_imitates_the_best():
    """Mean log-probabilities -1, -0.5, -2 of episodes worth 1, 0, 0: 0.5 too much for the second; the best has -1."""
    scores = torch.tensor([-1.0, -0.5, -2.0])
    loss, metrics = RankLoss(2.0)(scores, torch.zeros(3), torch.tensor([1.0, 0.0, 0.0]), 0.0)
    assert float(loss) == pytest.approx(0.5 + 2.0)
    assert metrics["misordered"] == 0.5


def test_observation_tokens_have_no_gradient_and_the_agents_own_have():
    """Contexts 0, 1 and 4 precede own tokens of the chosen episode; 2 and 3 precede what it observed."""
    model = Bigrams()
    rows = [ScoredRow.of(CHOSEN, [1.0, 1.0]), ScoredRow.of(REJECTED, dmpo_weights(2, 0.7))]
    scores = scores_of(model, rows[:1])
    assert float(scores[0].detach()) == pytest.approx(-3 * log(6))
    PairLoss()(torch.cat([scores, scores.detach()]), torch.zeros(2), torch.zeros(2), 0.0)[0].backward()
    per_context = model.table.grad.abs().sum(1)
    assert (per_context[[0, 1, 4]] > 0).all()
    assert (per_context[[2, 3, 5]] == 0).all()
    assert [float(w) for w in rows[1].weights] == pytest.approx([0, 1, 0, 0, 0.4117647, 0.4117647])


def test_by_default_all_bad_episodes_count_as_much_as_all_good_ones():
    rows = [{"episode": str(n), "good": n < 2} for n in range(10)]
    assert undesirable_weight(rows, PreferSection(loss="kto")) == pytest.approx(2 / 8)
    assert undesirable_weight(rows, PreferSection(loss="kto", desirable_weight=2.0)) == pytest.approx(4 / 8)
    assert undesirable_weight(rows, PreferSection(loss="kto", undesirable_weight=1.0)) == 1.0


@pytest.mark.parametrize("loss", [KtoLoss(), RankLoss()], ids=["kto", "rrhf"])
def test_neither_kto_nor_ranking_has_a_gradient_on_observation_tokens(loss):
    model = Bigrams()
    rows = [ScoredRow.mean_of(trajectory) for trajectory in (CHOSEN, REJECTED)]
    loss(scores_of(model, rows), torch.zeros(2), torch.tensor([1.0, 0.0]), 0.0)[0].backward()
    per_context = model.table.grad.abs().sum(1)
    assert (per_context[[2, 3]] == 0).all(), "after 2 and 3 stands what was observed"
    assert per_context[0] > 0


def test_the_score_of_a_row_is_the_weighted_log_probability_of_its_own_tokens():
    """Under a transformer with padding, as its own logits give it."""
    model = make_model(make_tokenizer(["one two three"]), hidden=16, layers=1, heads=1, kv_heads=1, seed=0)
    weights = {"chosen": [1.0, 0.5], "rejected": [2.0, 0.0]}
    rows = [ScoredRow.of(episode, weights[episode.id]) for episode in (CHOSEN, REJECTED)]
    for row, score in zip(rows, fixed_scores(model, rows, 1000), strict=True):
        with torch.no_grad():
            logps = torch.log_softmax(model(torch.tensor(row.ids)[None]).logits[0], -1)
        expected = sum(w * logps[i, t] for i, (t, w) in enumerate(zip(row.ids[1:], row.weights[1:], strict=True)))
        assert score == pytest.approx(float(expected), abs=1e-5)
    assert "forward" not in vars(model), "the model's own forward pass is back"


def test_a_mismatched_row_is_one_episode_behind_the_prompt_of_another():
    row = ScoredRow.mismatched(CHOSEN, [4, 4])
    assert row.ids.tolist() == [4, 4, 1, 2, 3, 4, 5]
    assert row.weights.tolist() == [0, 0, 1, 1, 0, 0, 1]


def test_pairs_of_outcomes_have_a_margin_a_bound_on_lengths_and_no_truncated_winner():
    options = PreferSection(max_length_ratio=1.5)
    (pair,) = outcome_pairs([CHOSEN, REJECTED], options)
    assert (pair.chosen, pair.rejected, pair.chosen_turns) == (CHOSEN, REJECTED, (0, 2))
    assert outcome_pairs([CHOSEN, REJECTED], PreferSection(margin=1.0)) == []
    long = episode("long", ([1] * 9, [3]), ([5], []))
    assert outcome_pairs([CHOSEN, long], options) == []
    cut = episode("cut", ([1, 2], [3, 4]), ([5], []), success=1.0)
    cut.stop_reason = StopReason.MAX_TURNS
    assert outcome_pairs([cut, REJECTED], options) == []
    assert len(outcome_pairs([cut, REJECTED], PreferSection(truncated_winners=True))) == 1
    others = [episode(f"other{i}", ([1], [3]), ([5], [])) for i in range(4)]
    winners = [CHOSEN, episode("winner", ([1, 1], [3]), ([5], []), success=1.0)]
    pairs = outcome_pairs([*winners, *others], PreferSection(max_pairs=2))
    assert {pair.chosen.id for pair in pairs} == {"chosen", "winner"}, "each episode once before one comes twice"
    assert len({pair.rejected.id for pair in pairs}) == 2


def test_turns_after_the_same_tokens_are_ranked_by_their_credit():
    """First turns share the prompt; second turns do not share a history, so they are not compared."""
    same = episode("same", ([1, 2], [3, 4]), ([2], []))
    credit = [np.array([1.0, 0.5]), np.array([-1.0, 0.0]), np.array([0.5, -0.5])]
    pairs = turn_pairs([CHOSEN, REJECTED, same], credit, PreferSection(pairs="turn"))
    assert [(p.chosen.id, p.rejected.id, p.chosen_turns, p.rejected_turns) for p in pairs] == [
        ("chosen", "rejected", (0, 1), (0, 1)),
        ("chosen", "same", (1, 2), (1, 2)),
    ]


def test_a_segment_is_as_long_on_both_sides_and_begins_at_the_worst_turn():
    options = PreferSection(pairs="segment", segment_turns=3)
    lost = episode("lost", ([1], [3]), ([2], [3]), ([5], []))
    forks = worst_turns([CHOSEN, lost], [np.zeros(2), np.array([0.0, -1.0, -1.0])], options)
    assert forks == [(lost, 1)], "what succeeded is not played again"
    branches = [episode(f"branch#{i}", ([1], [3]), ([5], []), success=float(i == 1)) for i in range(3)]
    for branch in branches:
        branch.provenance.branch = ForkPoint("lost", 1)
    (pair,) = segment_pairs(forks, branches, options)
    assert (pair.chosen.id, pair.rejected.id) == ("branch#1", "lost")
    assert pair.chosen_turns == pair.rejected_turns == (1, 2), "the branch has one turn after the fork"
    assert segment_pairs(forks, branches[:1], options) == [], "no branch is better"
    message = r"'prefer' played 1 branch from the worst turns of 1 failed episode, but none was better than its"
    with pytest.raises(RecipeError, match=message):
        require_better_branch("prefer", forks, branches[:1], [], options)
