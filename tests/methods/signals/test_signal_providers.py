"""Sources of signals: critics that learn, gold answers scored token by token, other endings and turns left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from agentgym import Policy, RolloutConfig, ScriptedPolicy, Task, TaskSet, Trajectory, Turn
from agentgym.credit import Group, define_estimator, estimator
from agentgym.credit.batch import groups_of
from agentgym.credit.signals import Array
from agentgym.errors import CreditError, MissingSignalError
from agentgym.messages import Call, Message, StopReason
from agentgym.methods.signals.branching import Branching
from agentgym.methods.signals.contributions import ContributionModel
from agentgym.methods.signals.gold_answer import GoldAnswer, prefixes
from agentgym.methods.signals.hindsight import OUTCOME_TEXTS, LearnedHindsight, PromptedHindsight
from agentgym.methods.signals.replays import BranchLabels, LeaveOneOutReplays, MonteCarloContinuations
from agentgym.methods.signals.token_critic import TokenCritic
from agentgym.methods.signals.turn_critic import Critic
from agentgym.methods.stored_turns.transitions import ReturnSpec
from agentgym.policy import Reply, Request, make_model, make_tokenizer
from agentgym.testing import ByteRenderer, CounterWithState, TargetReached
from agentgym.training import Rollouts
from agentgym.training.gatherers import StepRequest
from agentgym.training.recipe.train_section import SignalsSection
from agentgym.training.signals import SignalSources

GOOD, BAD, PLAIN, SEEN = 40, 41, 42, 43


@pytest.fixture(scope="module")
def model() -> Any:
    return make_model(make_tokenizer(["a b c"] * 20, vocab_size=300), seed=0, hidden=32, layers=2, heads=2, kv_heads=1)


def episode(number: int, good: bool, *, truth: str = "", stop: StopReason = StopReason.ANSWERED) -> Trajectory:
    """Two turns; the token of turn 0 says how it will end."""
    turns = [
        Turn(0, Message("assistant", "x"), token_ids=[GOOD if good else BAD], observation_ids=[SEEN]),
        Turn(1, Message("assistant", "x"), token_ids=[PLAIN]),
    ]
    task = Task("t", "test/none-v1", "question", truth=truth)
    return Trajectory(
        f"t#{number}",
        task,
        number,
        prompt_ids=[10, 11],
        turns=turns,
        outcome={"success": float(good)},
        stop_reason=stop,
    )


def batch(rng: np.random.Generator, size: int = 16, **options: Any) -> list[Trajectory]:
    return [episode(number, bool(rng.random() < 0.5), **options) for number in range(size)]


@pytest.mark.parametrize("double", [False, True], ids=["returns", "double"])
def test_a_critic_learns_what_each_state_is_worth(model: Any, double: bool):
    """Before turn 0 about half the episodes will succeed; after it the token tells which."""
    rng = np.random.default_rng(0)
    critic = Critic(model, double=double, learning_rate=3e-3, epochs=4, follow=0.5)
    figures = {}
    for _ in range(16):
        figures = critic.update(batch(rng))
    good, bad = (critic.signals([episode(0, x)], 0) for x in (True, False))
    assert good["values"][0][1] > 0.75
    assert bad["values"][0][1] < 0.25
    assert 0.2 < good["values"][0][0] < 0.8
    assert good["values"][0][0] == bad["values"][0][0]  # the same state
    assert good["values"][0][2] == 0.0  # the task is over
    assert good["action_values"][0][0] > 0.75 > 0.25 > bad["action_values"][0][0]
    assert figures["critic/explained_variance"] > 0.3


def test_a_truncated_episode_is_worth_something_after_its_last_turn(model: Any):
    critic = Critic(model, learning_rate=3e-3, epochs=4)
    for _ in range(6):
        critic.update(batch(np.random.default_rng(1)))
    cut = critic.signals([episode(0, True, stop=StopReason.MAX_TURNS)], 0)
    assert cut["values"][0][2] != 0.0


def test_a_privileged_critic_reads_what_the_policy_may_not(model: Any):
    """Success follows the hidden truth alone, which is in no token of the episode."""
    rng = np.random.default_rng(2)

    def hidden(size: int) -> list[Trajectory]:
        trajectories = []
        for number in range(size):
            right = bool(rng.random() < 0.5)
            trajectory = episode(number, True, truth="yes" if right else "no")
            trajectory.outcome = {"success": float(right)}
            trajectories.append(trajectory)
        return trajectories

    def encode(text: str) -> list[int]:
        return [50] if "yes" in text else [51]

    critic = Critic(model, privileged=lambda task: str(task.truth), encode=encode, learning_rate=3e-3, epochs=4)
    for _ in range(16):
        critic.update(hidden(16))
    yes, no = (critic.signals([episode(0, True, truth=truth)], 0)["values"][0][0] for truth in ("yes", "no"))
    assert yes > 0.75 > 0.25 > no
    with pytest.raises(ValueError, match="needs `encode`"):
        Critic(model, privileged=lambda task: "")


def test_a_critic_learns_the_return_that_its_estimator_weighs(model: Any):
    """Turn rewards 1 and 2 at half their weight, the outcome 1, decay 0.5: 1 + 1 at the last, 0.5 + 0.5 * 2 before."""
    trajectory = episode(0, True)
    trajectory.turns[0].rewards, trajectory.turns[1].rewards = {"found": 1.0}, {"found": 2.0}
    np.testing.assert_allclose(ReturnSpec(gamma=0.5, turn_weight=0.5).returns_to_go(trajectory), [1.5, 2.0])


def test_a_critic_of_tokens_knows_the_end_once_the_telling_token_was_said(model: Any):
    """Turn 0 is one token, valued before it was said; turn 1 another, valued after."""
    rng = np.random.default_rng(6)
    critic = TokenCritic(model, ReturnSpec(), learning_rate=3e-3, epochs=4)
    figures = {}
    for _ in range(16):
        figures = critic.update(batch(rng))
    good, bad = (critic.signals([episode(0, x)], 0)["token_values"][0] for x in (True, False))
    assert [len(turn) for turn in good] == [1, 1]
    assert good[0] == bad[0]  # the same state
    assert 0.2 < good[0][0] < 0.8
    assert good[1][0] > 0.75 > 0.25 > bad[1][0]
    assert figures["critic/explained_variance"] > 0.3


def test_hindsight_is_learnt_where_a_turn_tells_the_end_and_nowhere_else(model: Any):
    """Half the episodes say GOOD; of those that succeed all do: log(1 / 0.5) = 0.69. Turn 1 is the same for all."""
    rng = np.random.default_rng(7)
    learnt = LearnedHindsight(
        model, lambda text: [60 if text == OUTCOME_TEXTS[True] else 61], learning_rate=3e-3, epochs=4
    )
    for _ in range(24):
        figures = learnt.update(batch(rng))
    typical, wrong = episode(0, True), episode(1, False)
    wrong.outcome = {"success": 1.0}  # said BAD, and succeeded all the same: unlikely to one who knows
    given = learnt.signals([typical, wrong], 0)["hindsight"]
    assert given[0][0] == pytest.approx(np.log(2), abs=0.3)
    assert given[0][1] == pytest.approx(0.0, abs=0.1)
    assert given[1][0] < -1
    assert figures["hindsight/loss"] < 1


def test_the_policy_itself_can_be_asked_in_hindsight():
    """The scorer says -1 / (length of the prefix) for each token, and the sentence makes the prefix longer by three."""
    with Rollouts() as rollouts:
        source = PromptedHindsight(Scorer(), rollouts, lambda text: [1, 2, 3])
        given = source.signals([episode(0, False), episode(1, True, stop=StopReason.INFRA_ERROR)], 0)["hindsight"]
    np.testing.assert_allclose(given[0], [1 / 2 - 1 / 5, 1 / 4 - 1 / 7])
    assert given[1] == [0.0, 0.0]


def test_contributions_come_to_sum_to_the_outcome_and_lie_on_the_turn_that_tells(model: Any):
    rng = np.random.default_rng(3)
    progress = ContributionModel(model, learning_rate=3e-3, epochs=4)
    for _ in range(16):
        figures = progress.update(batch(rng))
    good, bad = (progress.signals([episode(0, x)], 0)["contributions"][0] for x in (True, False))
    assert sum(good) == pytest.approx(1, abs=0.25)
    assert sum(bad) == pytest.approx(0, abs=0.25)
    assert figures["progress/explained_variance"] > 0.3


def test_a_failed_trajectory_gets_placeholders_and_teaches_nothing(model: Any):
    failed = episode(0, True, stop=StopReason.INFRA_ERROR)
    critic, progress, tokens = Critic(model), ContributionModel(model), TokenCritic(model, ReturnSpec())
    hindsight = LearnedHindsight(model, lambda text: [60])
    assert critic.signals([failed], 0) == {"values": [[0.0] * 3], "action_values": [[0.0] * 2]}
    assert progress.signals([failed], 0) == {"contributions": [[0.0] * 2]}
    assert tokens.signals([failed], 0) == {"token_values": [[[0.0]] * 2]}
    assert hindsight.signals([failed], 0) == {"hindsight": [[0.0] * 2]}
    for source in (critic, progress, tokens, hindsight):
        assert source.update([failed]) == {}


def test_the_policy_is_left_alone_by_its_critic(model: Any):
    before = [parameter.clone() for parameter in model.parameters()]
    Critic(model, epochs=1).update(batch(np.random.default_rng(4)))
    LearnedHindsight(model, lambda text: [60], epochs=1).update(batch(np.random.default_rng(4)))
    assert all((old == new).all() for old, new in zip(before, model.parameters(), strict=True))


class Scorer(Policy):
    """Scores a continuation by the length of its prefix, so that each boundary can be told."""

    name = "scorer"
    renderer = ByteRenderer()

    async def score(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int]) -> list[float]:
        return [-1.0 / len(prefix_ids)] * len(continuation_ids)


ANSWERS = TaskSet("acme/answers", {"train": [Task("t", "x/y-v1", "q")]}, answer=lambda task: Message("assistant", "42"))


def test_the_gold_answer_is_scored_before_each_turn_and_after_the_last():
    """Prefixes of 2, 4 and 5 tokens: prompt; + turn 0 and its observation; + turn 1."""
    trajectory = episode(0, True)
    assert [len(prefix) for prefix in prefixes(trajectory)] == [2, 4, 5]
    with Rollouts() as rollouts:
        source = GoldAnswer(Scorer(), ANSWERS, rollouts)
        given = source.signals([trajectory, episode(1, False, stop=StopReason.INFRA_ERROR)], 0)
    np.testing.assert_allclose(given["gold_logprobs"][0], [-1 / 2, -1 / 4, -1 / 5])
    assert given["gold_logprobs"][1] == [0.0] * 3


def test_a_task_set_without_an_answer_has_no_information_to_gain():
    with Rollouts() as rollouts:
        with pytest.raises(CreditError, match="has no `answer`"):
            GoldAnswer(Scorer(), TaskSet("acme/none", {}), rollouts)
        with pytest.raises(CreditError, match="no renderer"):
            GoldAnswer(ScriptedPolicy([]), ANSWERS, rollouts)


class Gambler(Policy):
    """Adds 1 or 2 by chance, then 0, then submits: only turn 0 decides whether the counter ends at 2."""

    name = "gambler"

    async def generate(self, request: Request) -> Reply:
        amount = int(np.random.default_rng(request.sampling.seed).integers(1, 3))
        calls = [Call("add", {"amount": amount}), Call("add", {"amount": 0}), Call("submit", {})]
        return Reply(Message("assistant", "", (calls[min(request.turn, 2)],)))


class Outcome(TargetReached):
    """Success alone."""

    weights = {"ok": 0.0}


@pytest.fixture
def counted():
    """Rollouts over a counter, and a group of eight gamblers."""
    with Rollouts(RolloutConfig(environment=CounterWithState, reward=Outcome())) as rollouts:
        tasks = [Task("t0", "test/counter-v1", "Count to 2.", parameters={"target": 2}, truth=2)]
        yield rollouts, rollouts.play(Gambler(), tasks, label="r", group_size=8, record=False)


def test_playing_on_values_every_state(counted: Any):
    """After turn 0 the end is certain, so every continuation has the trajectory's own return."""
    rollouts, trajectories = counted
    given = MonteCarloContinuations(Gambler(), rollouts, samples=3).signals(trajectories, 0)["continuations"]
    assert {t.outcome_reward for t in trajectories} == {0.0, 1.0}
    for trajectory, values in zip(trajectories, given, strict=True):
        assert len(values) == 4
        assert values[0] == [t.outcome_reward for t in trajectories]
        assert values[1] == values[2] == [trajectory.outcome_reward] * 3
        assert values[3] == [trajectory.outcome_reward]


def test_leaving_a_turn_out_shows_what_it_was_for(counted: Any):
    """Without its addition the counter is at 0; without the addition of 0 nothing changes; without submit no end."""
    rollouts, trajectories = counted
    given = LeaveOneOutReplays(rollouts, exact=3).signals(trajectories, 0)["counterfactuals"]
    for trajectory, returns in zip(trajectories, given, strict=True):
        won = trajectory.outcome_reward
        assert len(returns) == 8
        assert returns[frozenset()] == 0.0
        assert returns[frozenset({0, 1, 2})] == won
        assert returns[frozenset({0, 2})] == won
        assert returns[frozenset({1, 2})] == returns[frozenset({0, 1})] == 0.0
    fewer = LeaveOneOutReplays(rollouts).signals(trajectories[:1], 0)["counterfactuals"][0]
    assert set(fewer) == {frozenset(), frozenset({0, 1, 2}), frozenset({0, 1}), frozenset({0, 2}), frozenset({1, 2})}


def test_a_group_is_grown_as_trees_whose_branches_share_what_they_repeat(counted: Any):
    """Two trunks of three turns each; a branch leaves before turn 1 or 2, where the end is already certain."""
    rollouts, _ = counted
    task = [Task(f"t{i}", "test/counter-v1", "Count to 2.", parameters={"target": 2}, truth=2) for i in range(2)]
    trees = Branching(root_episodes=2, before=2, seed=1).grow(StepRequest(rollouts, Gambler(), task, "trees", 6))
    grown = [trajectory for tree in trees for trajectory in tree.trained]
    assert [t.task.id for t in grown] == ["t0"] * 6 + ["t1"] * 6
    assert len({t.id for t in grown}) == 12
    for start in (0, 6):
        group = grown[start : start + 6]
        assert [t.provenance.branch is not None for t in group] == [False] * 2 + [True] * 4
        labels = BranchLabels().signals(group, 0)["branches"]
        trunks = {t.id: row for t, row in zip(group, labels, strict=True)}
        for branch, row in zip(group[2:], labels[2:], strict=True):
            origin = branch.provenance.branch
            labels_of_trunk = trunks[origin.trajectory]
            assert row[: origin.turn] == labels_of_trunk[: origin.turn]
            assert row[origin.turn] != labels_of_trunk[origin.turn]
            assert branch.outcome == next(t for t in group if t.id == origin.trajectory).outcome
        credit = estimator("sibling")(Group.from_trajectories(group).with_signals(branches=labels))
        assert all(np.isfinite(row).all() for row in credit)


def test_where_a_trunk_was_over_its_branch_begins_anew(counted: Any):
    """Three turns a trunk, and branches that want to leave before turns 1 to 40: nearly all begin again."""
    rollouts, _ = counted
    tasks = [Task("t0", "test/counter-v1", "Count to 2.", parameters={"target": 2}, truth=2)]
    (tree,) = Branching(root_episodes=2, before=40, seed=3).grow(StepRequest(rollouts, Gambler(), tasks, "anew", 16))
    grown = tree.trained
    fresh = [t for t in grown if t.provenance.branch is None]
    assert len(grown) == 16
    assert len(fresh) > 8
    assert {t.outcome_reward for t in fresh} == {0.0, 1.0}
    with pytest.raises(CreditError, match=r"root_episodes"):
        Branching(root_episodes=4).grow(StepRequest(rollouts, Gambler(), tasks, "small", 4))


@define_estimator(requires=("values",), bias="unbiased", source="our own", minimum_group=1)
def rising(group: Group) -> Array:
    """How much the value rises with each turn."""
    values = group.signal("values")
    return np.nan_to_num(values[:, 1:] - values[:, :-1])


def test_a_group_gets_the_signals_of_its_own_trajectories(model: Any):
    trajectories = batch(np.random.default_rng(5), size=4)
    with pytest.raises(MissingSignalError, match="values"):
        rising(groups_of(trajectories, 2)[0])
    signals = Critic(model).signals(trajectories, 0)
    with_values = groups_of(trajectories, 2, signals=signals)
    np.testing.assert_array_equal(with_values[1].values[0], signals["values"][2])  # type: ignore[index]
    assert np.isfinite(np.concatenate(rising(with_values[1]))).all()


def test_only_what_the_estimator_requires_is_made(model: Any):
    with Rollouts() as rollouts:

        def providers(chosen: Any, **options: Any) -> list[Any]:
            return SignalSources(
                model=model,
                policy=Scorer(),
                rollouts=rollouts,
                task_set=ANSWERS,
                encode=lambda text: [1],
                estimator=chosen,
                options=SignalsSection(**options),
            ).providers()

        assert providers(estimator("rloo")) == []
        (critic,) = providers(rising, double=True, privileged=True)
        assert isinstance(critic, Critic)
        assert critic.double
        wrapped = estimator("turn_gae(gamma=0.9, turn_weight=0.5) | gated | off_policy")
        (critic,) = providers(wrapped)
        assert isinstance(critic, Critic)
        assert critic.return_spec == ReturnSpec(0.9, 1.0, 0.5)

        @define_estimator(
            requires=(
                "gold_logprobs",
                "contributions",
                "counterfactuals",
                "continuations",
                "token_values",
                "hindsight",
                "branches",
            ),
            bias="heuristic",
            source="x",
        )
        def everything(group: Group) -> Array:
            """Needs all there is."""
            return np.zeros(group.turn_mask.shape)

        assert {type(provider) for provider in providers(everything)} == {
            GoldAnswer,
            ContributionModel,
            LeaveOneOutReplays,
            MonteCarloContinuations,
            TokenCritic,
            LearnedHindsight,
            BranchLabels,
        }
        prompted = providers(estimator("hca"), hindsight="prompted")
        assert [type(provider) for provider in prompted] == [PromptedHindsight]
