"""Stop rules: when each ends an episode, what is recorded, and what estimators and the loss make of it."""

from __future__ import annotations

import numpy as np
import pytest
from scripted_episodes import counting, make_manager, play, say

from agentgym import Budgets, EpisodeManager, Outlook, RolloutConfig, ScriptedPolicy
from agentgym.credit import Group, estimator
from agentgym.errors import ToolError
from agentgym.evaluation.report.episode_data import episode_data
from agentgym.evaluation.rescore import rescore
from agentgym.messages import StopReason
from agentgym.methods.attempts import Attempts
from agentgym.methods.stop_rules import Hopeless, InvalidCalls, NoProgress, OutOfReach, RepeatedState
from agentgym.registry import load_task_set
from agentgym.rollout import Fork
from agentgym.storage import Ledger
from agentgym.testing import ByteRenderer, CounterWithState, TargetReached

ADD, BACK, SUBMIT = say(("add", {"amount": 1})), say(("add", {"amount": -1})), say("submit")
UNKNOWN, WRONG, HALF = say("wish"), say(("add", {"amount": "one"})), say("wish", ("add", {"amount": 1}))


class Guided(CounterWithState):
    """A counter to 3 that knows how near it is, and that it cannot count down."""

    async def potential(self):
        return float(self.value)

    async def outlook(self):
        hopeless = f"{self.value} is past 3" if self.value > 3 else None
        return Outlook(hopeless, turns_needed=max(0, 3 - self.value) + 1)


@pytest.mark.parametrize(
    ("rule", "script", "turns", "reason"),
    [
        (Hopeless(), [ADD] * 6, 4, "4 is past 3"),
        (NoProgress(turns=2), [ADD, BACK, ADD, BACK], 3, "no progress in 2 turns: the potential has not risen above 1"),
        (NoProgress(turns=3), [ADD, BACK, ADD, BACK], 4, "no progress in 3 turns: the potential has not risen above 1"),
        (RepeatedState(times=2), [ADD, BACK, ADD], 2, "the same state 2 times"),
        (RepeatedState(times=3), [ADD, BACK, ADD, BACK, ADD], 4, "the same state 3 times"),
        (InvalidCalls(turns=2), [UNKNOWN, ADD, UNKNOWN, WRONG, ADD], 4, "2 turns in a row without a valid call"),
        (InvalidCalls(turns=2), [HALF, UNKNOWN, UNKNOWN], 3, "2 turns in a row without a valid call"),
        (OutOfReach(), [ADD, BACK, BACK, ADD, ADD], 2, "4 turns needed and 3 left"),
    ],
)
async def test_a_rule_ends_the_episode_at_once_and_its_reason_is_recorded(rule, script, turns, reason, tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    budgets = Budgets(max_turns=5)
    trajectory = await play(script, environment=Guided, target=3, budgets=budgets, stop_if=(rule,), ledger=ledger)
    assert (trajectory.stop_reason, len(trajectory.turns)) == (StopReason.HOPELESS, turns)
    assert trajectory.stop_reason.truncated
    assert (trajectory.valid, trajectory.outcome) == (True, {"success": 0.0}), "scored as it stands"
    assert trajectory.provenance.hopeless == reason
    assert trajectory.turns[-1].observation_ids == [], "the policy never read what came back last"
    recorded = ledger.load(trajectory.id)
    ledger.close()
    assert recorded == trajectory
    assert episode_data(recorded)["stop"] == "hopeless"
    assert episode_data(recorded)["provenance"]["hopeless"] == reason, "the page shows it"


@pytest.mark.parametrize(
    "rule", [Hopeless(), NoProgress(turns=2), RepeatedState(times=2), InvalidCalls(turns=1), OutOfReach()]
)
async def test_an_episode_that_goes_on_well_is_not_touched(rule):
    options = {"environment": Guided, "target": 3, "budgets": Budgets(max_turns=4)}
    plain = await play(counting(3), **options)
    ruled = await play(counting(3), stop_if=(rule,), **options)
    assert ruled.arrays().ids.tolist() == plain.arrays().ids.tolist()
    assert (ruled.stop_reason, ruled.outcome, ruled.provenance) == (plain.stop_reason, plain.outcome, plain.provenance)
    assert ruled.success == 1


async def test_no_rule_applies_where_the_environment_tells_nothing_or_cannot_tell():
    class Unreadable(Guided):
        async def outlook(self):
            raise ToolError("what the agent did hides the state")

    rules = (Hopeless(), NoProgress(turns=1), OutOfReach())
    for environment in (CounterWithState, Unreadable):
        trajectory = await play([*[ADD] * 6, SUBMIT], environment=environment, target=6, stop_if=rules[:1])
        assert trajectory.stop_reason is StopReason.ANSWERED
    silent = await play([*[ADD] * 6, SUBMIT], environment=CounterWithState, target=6, stop_if=rules)
    assert silent.stop_reason is StopReason.ANSWERED


@pytest.mark.parametrize("rule", [NoProgress(turns=2), RepeatedState(times=2)])
async def test_each_attempt_is_looked_at_by_itself(rule):
    script = [ADD, SUBMIT, *counting(3)]
    options = {"environment": Guided, "target": 3, "attempts": Attempts(feedback="none"), "stop_if": (rule,)}
    solved = await play(script, **options)
    assert (solved.stop_reason, solved.outcome["first"], solved.outcome["last"]) == (StopReason.ANSWERED, 0.0, 1.0)
    stopped = await play([ADD, SUBMIT, ADD, BACK, ADD, BACK], **options)
    assert (stopped.stop_reason, stopped.outcome["last"]) == (StopReason.HOPELESS, 0.0)


async def test_a_hopeless_attempt_ends_and_the_next_one_begins(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    script = [*[ADD] * 4, *counting(3)]
    attempts = Attempts(feedback="none", earlier=0.5)
    options = {"environment": Guided, "target": 3, "attempts": attempts, "stop_if": (Hopeless(),)}
    episode = await play(script, ledger=ledger, **options)
    recorded = ledger.load(episode.id)
    ledger.close()
    assert recorded == episode
    assert (episode.stop_reason, episode.provenance.hopeless) == (StopReason.ANSWERED, None)
    assert (episode.outcome["first"], episode.outcome["last"]) == (0.0, 1.0)
    assert (episode.first_attempt_turns, len(episode.turns)) == (4, 8)
    assert [turn.rewards.get("attempt_1") for turn in episode.turns] == [None] * 3 + [0.0] + [None] * 4
    assert [turn.potential for turn in episode.turns] == [0, 1, 2, 3, 0, 1, 2, 3]
    ended, observed = episode.turns[3], ByteRenderer().observation
    assert [reply.text for reply in ended.replies] == [
        "This attempt was ended early. Attempt 2 of 2: everything is as at the start."
    ]
    assert ended.observation_ids == observed([*(r.message() for r in ended.results), *ended.replies])
    both = await play([ADD] * 8, **options)
    assert (both.stop_reason, both.provenance.hopeless, len(both.turns)) == (StopReason.HOPELESS, "4 is past 3", 8)
    no_room = await play(script, budgets=Budgets(max_turns=4), **options)
    assert (no_room.stop_reason, no_room.outcome["last"]) == (StopReason.MAX_TURNS, 0.0)
    assert no_room.first_attempt_turns == len(no_room.turns) == 4


async def test_an_attempt_that_was_ended_early_is_replayed_branched_and_judged_again():
    options = {"environment": Guided, "attempts": Attempts(feedback="none"), "stop_if": (Hopeless(),)}
    record = await play([*[ADD] * 4, *counting(3)], target=3, **options)
    policy = ScriptedPolicy([turn.message for turn in record.turns], ByteRenderer())
    manager = make_manager(policy, reward=TargetReached(), **options)
    assert await manager.replay(record) is None
    for turn in (4, 6):
        [branch] = [episode async for episode in manager.branch([Fork(record, turn)], 1)]
        assert (branch.stop_reason, branch.success) == (StopReason.ANSWERED, 1), branch.error
        assert branch.turns[3].replies == record.turns[3].replies
    [rescored] = await rescore([record], TargetReached())
    assert rescored.outcome == record.outcome


async def test_state_keys_are_read_for_the_rule_that_compares_them():
    options = {"environment": Guided, "state_keys": False}
    assert (await play([ADD, BACK], stop_if=(RepeatedState(times=2),), **options)).stop_reason is StopReason.HOPELESS
    assert (await play([ADD, SUBMIT], **options)).turns[0].state_key is None


async def test_a_branch_is_not_stopped_in_the_turns_that_it_repeats():
    record = await play([ADD, BACK, ADD, BACK, ADD, ADD, ADD, SUBMIT], environment=Guided, target=3)
    assert record.success == 1
    policy = ScriptedPolicy([turn.message for turn in record.turns], ByteRenderer())
    rules = (RepeatedState(times=3),)
    manager = make_manager(policy, environment=Guided, reward=TargetReached(), stop_if=rules)
    [branch] = [episode async for episode in manager.branch([Fork(record, 5)], 1)]
    assert (branch.stop_reason, branch.success) == (StopReason.ANSWERED, 1), branch.error
    assert await manager.replay(record) is None


async def test_estimators_see_a_truncated_episode_and_the_wrapper_masks_it():
    rule = (Hopeless(),)
    episodes = [await play(script, environment=Guided, target=3, stop_if=rule) for script in (counting(3), [ADD] * 6)]
    group = Group.from_trajectories(episodes)
    assert group.truncated.tolist() == [False, True]
    plain = estimator("rloo(turn_weight=0.0)")(group)
    assert [len(row) for row in plain] == [4, 4]
    np.testing.assert_allclose(plain[0], 1.0)
    np.testing.assert_allclose(plain[1], -1.0)
    masked = estimator("rloo(turn_weight=0.0) | masked(hopeless=True)")(group)
    np.testing.assert_allclose(masked[0], 1.0)
    np.testing.assert_allclose(masked[1], 0.0)
    assert estimator("rloo | masked(hopeless=True)").bias == "biased"
    alone = estimator("rloo(turn_weight=0.0) | masked(hopeless=True, statistics='dropped')")(group)
    np.testing.assert_allclose(alone[0], 0.0)


@pytest.mark.parametrize("name", ["text/doors-v1", "text/frozen-lake-v1", "sql/session-inprocess-v1"])
async def test_bundled_environments_never_give_up_on_the_oracle_and_soon_on_one_that_errs(name):
    task_set = load_task_set(name)
    tasks = task_set["train"][:20]

    async def episodes_of(player, turns):
        config = RolloutConfig(stop_if=(Hopeless(), OutOfReach()), budgets=Budgets(max_turns=turns))
        return await EpisodeManager(lambda task: ScriptedPolicy(player(task)), config).collect(tasks)

    solved = await episodes_of(task_set.oracle, 40)
    assert all(episode.success == 1 for episode in solved)
    if name != "text/frozen-lake-v1":  # in which any way can still be left
        stopped = [e for e in await episodes_of(task_set.imperfect_oracle, 40) if e.stop_reason is StopReason.HOPELESS]
        assert stopped
        assert all(episode.success == 0 for episode in stopped)
    longest = max(len(episode.turns) for episode in solved)
    short = await episodes_of(task_set.oracle, longest - 1)
    out_of_reach = [episode for episode in short if episode.stop_reason is StopReason.HOPELESS]
    assert out_of_reach
    assert all(len(episode.turns) == 1 for episode in out_of_reach), "known before the second turn"


def test_a_rule_says_what_it_lacks():
    with pytest.raises(ValueError, match=r"NoProgress.turns is missing"):
        NoProgress()
    with pytest.raises(ValueError, match=r"RepeatedState.times is 1: input should be greater than or equal to 2"):
        RepeatedState(times=1)
