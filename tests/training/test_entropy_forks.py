"""Forks where the entropy after a result is high: as often as the formula says, and where it says."""

from __future__ import annotations

import json
import math
import shutil
from bisect import bisect_right
from collections import Counter
from pathlib import Path

import pytest
from locks_environment import LOCKS, AllOpen, Locks
from lookup_runs import RECIPE, assert_equal_weights, execute
from staged_runs import finished, forget_episodes, killed_run

from agentgym import Call, Message, Policy, RolloutConfig, ScriptedPolicy, Task, Trajectory, load_task_set
from agentgym.errors import AgentGymError, CreditError, RecipeError
from agentgym.messages import StopReason
from agentgym.methods.supply.entropy_forks import EntropyForks
from agentgym.policy import Hermes, TemplateRenderer, make_tokenizer
from agentgym.policy.contract import Reply, Request
from agentgym.rollout.rollouts import Rollouts
from agentgym.storage.checkpoints import latest_checkpoint
from agentgym.storage.ledger import Ledger
from agentgym.training import Recipe
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.gatherers import StepRequest, make_gatherer, play_groups

GROUP = 8
TASK = Task("t", "test/locks-v1", "Open all.", parameters={"keys": [0] * LOCKS})


class OfKnownEntropy(Policy):
    """Turns the right key, and is as unsure at each turn as it is told: `levels`, in shares of the highest entropy."""

    name = "known"

    def __init__(self, renderer: TemplateRenderer, levels: dict[int, float]) -> None:
        self.renderer, self.levels = renderer, levels
        self.starts: dict[int, int] = {}
        self.written = 0

    async def generate(self, request: Request) -> Reply:
        self.written += 1
        self.starts[len(request.prefix_ids)] = request.turn
        message = Message("assistant", "", (Call("turn", {"key": 0}),))
        ids = self.renderer.encode(message)
        return Reply(message, ids, [-0.1] * len(ids))

    async def entropies(self, prefix_ids, continuation_ids, top):
        assert top == 10
        starts = sorted(self.starts)
        positions = range(len(prefix_ids), len(prefix_ids) + len(continuation_ids))
        turns = [self.starts[starts[bisect_right(starts, position) - 1]] for position in positions]
        return [self.levels.get(turn, 0.0) * math.log(len(self.renderer.tokenizer)) for turn in turns]


@pytest.fixture(scope="module")
def renderer():
    texts = ['Open all. Turn a key in the next lock. A click. It breaks. {"name": "turn", "arguments": {"key": 0}}']
    return TemplateRenderer(make_tokenizer(texts * 4, 300), Hermes())


@pytest.fixture
def rollouts(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with Rollouts(RolloutConfig(environment=Locks, reward=AllOpen()), ledger=ledger) as created:
        yield created


def grown(rollouts, policy, text: str, label: str = "train-000000", tasks=(TASK,)):
    return make_gatherer(play_groups, [text])(StepRequest(rollouts, policy, list(tasks), label, GROUP))


def places(group) -> list[int]:
    return [t.provenance.branch.turn for t in group.trained if t.provenance.branch is not None]


@pytest.mark.parametrize("rise", [-0.6, -0.1, 0.0, 0.2, 0.7])
def test_an_episode_forks_as_often_as_the_formula_says(rise):
    forks = EntropyForks(play_groups, weight=0.8)
    episodes = [Trajectory(f"train-000000/t{number}#0", TASK) for number in range(400)]
    count = sum(forks.is_fork(episode, turn, rise) for episode in episodes for turn in range(1, 6))
    expected = min(1.0, max(0.0, 0.5 + 0.8 * rise))
    assert count / 2000 == pytest.approx(expected, abs=4 * math.sqrt(0.25 / 2000))


def test_groups_branch_where_the_entropy_rises_and_their_branches_branch_again(rollouts, renderer):
    """Half of the group plays from the start; all fork before the turns 3 and 6, and nowhere else."""
    policy = OfKnownEntropy(renderer, {0: 0.3, 3: 1.0, 6: 1.0} | dict.fromkeys((1, 2, 4, 5, 7, 8, 9), -1.0))
    (group,) = grown(rollouts, policy, "entropy_forks(weight=1.0)")
    assert len(group.trained) == GROUP
    assert places(group) == [3] * 4, "the earliest turns come first"
    (group,) = grown(rollouts, policy, "entropy_forks(weight=1.0, roots=0.25)", "train-000001")
    assert Counter(places(group)) == {3: 2, 6: 4}, "two episodes fork at both places, and their branches at the second"
    by_id = {t.id: t for t in group.trained}
    origins = [t.provenance.branch.trajectory for t in group.trained if t.provenance.branch is not None]
    assert set(origins) <= by_id.keys()
    assert any(by_id[origin].provenance.branch is not None for origin in origins)
    for branch in group.trained[2:]:
        origin, turn = by_id[branch.provenance.branch.trajectory], branch.provenance.branch.turn
        assert [t.token_ids for t in branch.turns[:turn]] == [t.token_ids for t in origin.turns[:turn]]
        assert branch.valid
        assert branch.success == 1


def test_without_a_rise_the_group_is_filled_from_the_start_and_is_read_back_by_the_same_step(rollouts, renderer):
    policy = OfKnownEntropy(renderer, {0: 1.0})
    tasks = [TASK, TASK, Task("u", "test/locks-v1", "All.", parameters={"keys": [0] * LOCKS})]
    groups = grown(rollouts, policy, "entropy_forks(weight=1.0)", tasks=tasks)
    assert [len(group.trained) for group in groups] == [GROUP] * 3
    assert [places(group) for group in groups] == [[]] * 3
    assert [{t.task.id for t in group.trained} for group in groups] == [{"t"}, {"t"}, {"u"}]
    names = [t.id for group in groups for t in group.trained]
    assert len(set(names)) == len(names)
    written = policy.written
    repeated = grown(rollouts, policy, "entropy_forks(weight=1.0)", tasks=tasks)
    assert [t.id for group in repeated for t in group.trained] == names
    assert policy.written == written


def test_a_policy_without_tokens_a_small_group_and_another_backend_are_refused(rollouts, renderer):
    script = [Message("assistant", "", (Call("turn", {"key": 0}),))] * LOCKS
    with pytest.raises(AgentGymError, match=r"entropy_forks: .* has no tokenizer"):
        grown(rollouts, ScriptedPolicy(script), "entropy_forks")
    with pytest.raises(CreditError, match="a group of 2 is too small"):
        make_gatherer(play_groups, ["entropy_forks"])(StepRequest(rollouts, ScriptedPolicy(script), [TASK], "x", 2))
    data = json.loads(json.dumps(RECIPE))
    data["train"] |= {"gather": ["entropy_forks"], "generation": "trl"}
    with pytest.raises(RecipeError, match=r"measures entropies, which .*'trl' does not offer"):
        check_before_start(Recipe.parse(data), load_task_set(RECIPE["tasks"]["set"]))


@pytest.mark.thorough
def test_a_run_that_is_killed_grows_the_same_groups_by_entropies_and_from_prefixes_as_an_unbroken_one(tmp_path):
    data = json.loads(json.dumps(RECIPE))
    data["warm_start"] |= {"steps": 150, "validate_every": 150, "learning_rate": 3e-3}
    data["train"] |= {
        "steps": 4,
        "save_every": 1,
        "keep_checkpoints": 9,
        "sampler": "ucb(over='environment')",
        "gather": ["entropy_forks(threshold=1.0)", "prefix_buffer(share=0.8)"],
    }
    chosen, unbroken, killed = Recipe.parse(data), tmp_path / "unbroken", tmp_path / "killed"
    execute(chosen, unbroken)
    episodes = recorded(unbroken)
    assert len(episodes) == 4 * 2 * 4
    branches = Counter(name.partition("/")[0] for name, (branch, _) in episodes.items() if branch is not None)
    assert any("-fork" in label for label in branches), branches
    assert any("-prefix" in label for label in branches), branches
    shutil.copytree(unbroken, killed)
    for name in ("checkpoint-2", "checkpoint-3", "checkpoint-4", "final"):
        shutil.rmtree(killed / "checkpoints" / name)
    for number in (1, 2, 3):
        forget_episodes(killed, f"train-00000{number}")
    killed_run(chosen, killed, lambda: finished(killed, "train-000002") > 0)  # in the middle of the third step
    assert latest_checkpoint(killed / "checkpoints").name == "checkpoint-2"
    execute(chosen, killed, resume=True)
    assert_equal_weights(unbroken, killed)
    assert recorded(killed) == episodes
    first, second = (
        json.loads((f / "checkpoints/checkpoint-4/gatherers.json").read_text()) for f in (unbroken, killed)
    )
    assert first == second
    assert first[1]["prefixes"]


def recorded(folder: Path) -> dict[str, tuple]:
    """Of each training episode, where it branched off, and what it wrote."""
    ledger = Ledger(folder / "ledger.sqlite")
    episodes = [t for t in ledger.trajectories("train-") if t.stop_reason is not StopReason.INFRA_ERROR]
    ledger.close()
    return {t.id: (t.provenance.branch, [turn.token_ids for turn in t.turns]) for t in episodes}
