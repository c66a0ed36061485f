"""State keys are made where somebody reads them."""

from __future__ import annotations

import pytest

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task
from agentgym.rollout import Fork
from agentgym.testing.counter import Counter, CounterWithState

SCRIPT = [Message("assistant", "", (Call("add", {}),)), Message("assistant", "", (Call("submit", {}),))]
TASK = Task("t", "test/counter-v1", "Count.", truth={"target": 1})


class Slow(Counter):
    """A counter whose key nobody should ask for."""

    async def state_key(self) -> str | None:
        raise AssertionError("the state was hashed")


async def test_no_state_is_hashed_where_nobody_reads_its_key():
    manager = EpisodeManager(ScriptedPolicy(SCRIPT), RolloutConfig(environment=Slow, state_keys=False))
    (trajectory,) = await manager.collect([TASK])
    assert trajectory.error is None
    assert [turn.state_key for turn in trajectory.turns] == [None, None]


async def test_a_branch_from_a_checkpoint_counts_its_turns_without_state_keys():
    """The environment that repeats a record goes on to the next turn when it is asked for the key."""
    checkpoints = {("t", 0, 1): None}
    manager = EpisodeManager(ScriptedPolicy(SCRIPT), RolloutConfig(environment=CounterWithState, state_keys=False))
    (record,) = await manager.collect([TASK], checkpoints=checkpoints)
    fork = Fork(record, 1, checkpoints["t", 0, 1])
    branches = [branch async for branch in manager.branch([fork], 1)]
    assert [branch.error for branch in branches] == [None]
    assert branches[0].turns[0].results == record.turns[0].results


RECIPES = [
    ((), False),
    (("train.estimator=gigpo",), True),
    (("train.estimator=vine",), True),
    (("train.parts.credit_audit.every=5",), True),
    (("episode.state_keys=true",), True),
]


@pytest.mark.parametrize(("changes", "recorded"), RECIPES)
def test_a_recipe_records_state_keys_where_its_estimator_or_audit_reads_them(changes, recorded):
    from agentgym.training import Recipe

    recipe = Recipe.load("recipes/quickstart.toml", changes)
    assert recipe.rollout_config(recipe.tasks.load()).state_keys is recorded
