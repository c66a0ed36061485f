"""Beginning in the middle: ten locks that nobody opens by trying are opened by those who begin at the last of them."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from locks_environment import GROUP, KEYS, LOCKS, AllOpen, Locks
from lookup_runs import RECIPE, execute

from agentgym import Call, Message, Policy, RolloutConfig, ScriptedPolicy, Task, Trajectory, Turn
from agentgym.errors import AgentGymError, RecipeError
from agentgym.messages import StopReason
from agentgym.policy.contract import Reply, Request
from agentgym.rollout.rollouts import Rollouts
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.gatherers import StepRequest, make_gatherer, play_groups
from agentgym.training.gatherers.groups import GatheredGroup
from agentgym.training.loss.grpo_batches import trl_rows


class Trying(Policy):
    """Draws a key by a softmax of one number for each lock and key; `learn` moves these by the policy gradient."""

    name = "trying"

    def __init__(self) -> None:
        self.logits = np.zeros((LOCKS, KEYS))

    async def generate(self, request: Request) -> Reply:
        draws = np.random.default_rng(request.sampling.seed)
        key = int(draws.choice(KEYS, p=self.probabilities(request.turn)))
        return Reply(Message("assistant", "", (Call("turn", {"key": key}),)))

    def probabilities(self, lock: int) -> np.ndarray:
        weights = np.exp(self.logits[lock] - self.logits[lock].max())
        return weights / weights.sum()

    def learn(self, groups, rate: float = 1.0) -> None:
        for group in groups:
            mean = np.mean([t.success for t in group.trained])
            for trajectory in group.trained:
                for turn in trajectory.turns[group.untrained_turns.get(trajectory.id, 0) :]:
                    step = -self.probabilities(turn.index)
                    step[turn.calls[0].arguments["key"]] += 1
                    self.logits[turn.index] += rate * (trajectory.success - mean) * step


@pytest.fixture
def locked(tmp_path):
    """Rollouts whose ledger holds the oracle's episode of each of two tasks, and the tasks."""
    keys = np.random.default_rng(0).integers(KEYS, size=LOCKS).tolist()
    tasks = [Task(f"t{i}", "test/locks-v1", f"Open all, {i}.", parameters={"keys": keys}) for i in range(2)]
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with Rollouts(RolloutConfig(environment=Locks, reward=AllOpen()), ledger=ledger) as rollouts:
        script = [Message("assistant", "", (Call("turn", {"key": key}),)) for key in keys]
        rollouts.play(ScriptedPolicy(script), tasks, label="collect", group_size=1)
        yield rollouts, tasks


def trained(gather, rollouts, tasks, steps: int) -> tuple[Trying, list]:
    """A policy after so many steps, and the metrics and groups of each."""
    policy, history = Trying(), []
    for number in range(steps):
        groups = gather(StepRequest(rollouts, policy, tasks, f"train-{number:06d}", GROUP))
        history.append(groups)
        policy.learn(groups)
    return policy, history


@pytest.mark.thorough
def test_what_is_never_solved_from_the_start_in_200_groups_is_solved_with_starts(locked):
    rollouts, tasks = locked
    _, plain = trained(make_gatherer(play_groups, []), rollouts, tasks, 100)
    assert sum(len(groups) for groups in plain) == 200
    assert max(t.success for groups in plain for group in groups for t in group.trained) == 0
    gather = make_gatherer(play_groups, ["starts(share=1.0, groups=2)"])
    policy, history = trained(gather, rollouts, tasks, 60)
    first_turns = [turn for groups in history for group in groups for turn in set(group.untrained_turns.values())]
    assert first_turns[:2] == [LOCKS - 1] * 2, "one turn is left at first"
    assert sorted(first_turns, reverse=True) == first_turns, "the beginning moves back, step by step"
    assert set(first_turns) == set(range(LOCKS)), "to the start"
    solved = rollouts.play(policy, tasks, label="after", group_size=20, record=False)
    assert np.mean([t.success for t in solved]) > 0.5


def test_a_group_begins_where_all_of_it_begins_and_only_a_share_does(locked):
    rollouts, tasks = locked
    gather = make_gatherer(play_groups, ["starts(share=0.5)"])
    _, history = trained(gather, rollouts, [*tasks, tasks[0]], 12)
    begun = [bool(group.untrained_turns) for groups in history for group in groups]
    assert 0.2 < np.mean(begun) < 0.6
    for groups in history:
        assert [len(group.trained) for group in groups] == [GROUP] * 3
        assert all(bool(group.unaided) != bool(group.untrained_turns) for group in groups), (
            "samplers see whole episodes"
        )
        assert GatheredGroup.metrics(groups)["gather/episodes"] == 3 * GROUP
        for group in groups:
            if group.untrained_turns:
                assert group.untrained_turns.keys() == {t.id for t in group.trained}
                (turn,) = {t.provenance.branch.turn for t in group.trained}
                assert set(group.untrained_turns.values()) == {turn}


def test_uniform_starts_are_at_any_turn_of_any_recorded_episode_alike_also_of_a_failure(locked):
    """10 turns of a success, and 3 of an episode that broke the third lock: 13 places for the first task."""
    rollouts, (task, _) = locked
    keys = [*task.parameters["keys"][:2], (task.parameters["keys"][2] + 1) % KEYS]
    script = [Message("assistant", "", (Call("turn", {"key": key}),)) for key in keys]
    (failure,) = rollouts.play(ScriptedPolicy(script), [task], label="collect-more", group_size=1)
    assert (failure.success, len(failure.turns)) == (0, 3)
    gather = make_gatherer(play_groups, ["starts(share=1.0, uniform=True)"])
    starts: Counter[tuple[str, int]] = Counter()
    for number in range(390):
        (group,) = gather(StepRequest(rollouts, Trying(), [task], f"train-{number:06d}", 1))
        (episode,) = group.trained
        starts[episode.provenance.branch.trajectory, episode.provenance.branch.turn] += 1
    success = f"collect/{task.id}#0"
    assert set(starts) == {(success, turn) for turn in range(LOCKS)} | {(failure.id, turn) for turn in range(3)}
    assert max(abs(count - 30) for count in starts.values()) < 4 * np.sqrt(30)
    assert gather.wrappers[0].turns_left == 1, "there is no curriculum"


def test_it_goes_on_from_a_checkpoint_with_as_many_turns_left(locked, tmp_path):
    rollouts, tasks = locked
    gather = make_gatherer(play_groups, ["starts(share=1.0, groups=2)"])
    trained(gather, rollouts, tasks, 30)
    gather.save(tmp_path)
    resumed = make_gatherer(play_groups, ["starts(share=1.0, groups=2)"])
    resumed.restore(tmp_path)
    assert resumed.wrappers[0].turns_left == gather.wrappers[0].turns_left > 1
    assert resumed.wrappers[0].state() == gather.wrappers[0].state()


def test_without_a_recorded_success_the_remedy_is_named(locked):
    rollouts, tasks = locked
    gather = make_gatherer(play_groups, ["starts(label='other')"])
    with pytest.raises(AgentGymError, match=r"starts\(label='other'\) found no success .* Put a stage"):
        gather(StepRequest(rollouts, Trying(), tasks, "train-000000", GROUP))


@pytest.mark.parametrize(
    ("label", "names"),
    [("collect", ["shown"]), ("shown", ["train"]), ("collect", ["shown", "collect"]), ("demonstration-oracle", [])],
)
def test_a_run_none_of_whose_stages_records_the_successes_is_refused_before_it_starts(label, names):
    data = json.loads(json.dumps(RECIPE))
    data["train"] |= {"gather": [f"starts(label={label!r})"]}
    collected = [{"kind": "collect", "name": name, "options": {"policy": "oracle"}} for name in names]
    data["stage"] = [{"kind": "imitate"}, *collected, {"kind": "reinforce", "name": "practice"}]
    recipe = Recipe.parse(data)
    if label in [*names, "demonstration-oracle"]:
        return check_before_start(recipe, recipe.tasks.load())
    with pytest.raises(RecipeError, match=f"no stage before 'practice' records episodes .* begin with '{label}'"):
        check_before_start(recipe, recipe.tasks.load())


def test_the_turns_that_others_took_are_no_part_of_the_loss():
    turns = [
        Turn(k, Message("assistant", "x"), token_ids=[5, 6], logprobs=[-1.0] * 2, observation_ids=[7]) for k in (0, 1)
    ]
    turns[1].observation_ids = []
    episode = Trajectory(
        "a", Task("t", "test/locks-v1", "?"), prompt_ids=[1], turns=turns, stop_reason=StopReason.ANSWERED
    )
    masks = [trl_rows([episode], 0, untrained)["env_mask"] for untrained in ({}, {"a": 1}, {"a": 2}, {"b": 2})]
    assert masks == [[[1, 1, 0, 1, 1]], [[0, 0, 0, 1, 1]], [[0] * 5], [[1, 1, 0, 1, 1]]]


def test_a_run_collects_begins_in_the_middle_and_does_not_train_on_the_turns_before(tmp_path):
    data = json.loads(json.dumps(RECIPE))
    data["train"] |= {"steps": 2, "gather": ["starts(share=1.0)"], "save_every": 1, "validate_every": 2}
    data["stage"] = [
        {"kind": "imitate"},
        {"kind": "collect", "options": {"policy": "oracle", "tasks": 64, "group_size": 1}},
        {"kind": "reinforce"},
        {"kind": "evaluate", "name": "after"},
    ]
    execute(Recipe.parse(data), tmp_path / "run")
    ledger = Ledger(tmp_path / "run" / "ledger.sqlite")
    begun = [t for t in ledger.trajectories("train-") if t.provenance.branch is not None]
    ledger.close()
    assert begun
    assert all(not turn.logprobs for t in begun for turn in t.turns[: t.provenance.branch.turn])
    rows = RunFolder(tmp_path / "run").metrics("train")
    assert all(np.isfinite(row["loss"]) for row in rows)
