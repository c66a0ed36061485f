"""A ledger that holds another measurement under a label is refused: no agent is credited with another's episodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agentgym import (
    Budgets,
    Call,
    EpisodeManager,
    Message,
    Reward,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    TaskSet,
    evaluate,
)
from agentgym.errors import EvaluationError, LedgerError
from agentgym.methods.attempts import Attempts
from agentgym.storage import Ledger
from agentgym.testing import Counter, TargetReached

TASKS = [Task(f"count-{i}", "acme/counter-v1", f"Count to {i}.", truth=i, split="held_out") for i in range(4)]
SET = TaskSet("acme/counts-v1", {"held_out": TASKS})


def perfect(messages):
    if len(messages) > 1 and messages[-1].role == "tool":
        return Message("assistant", "", (Call("submit"),))
    target = next(m.text for m in reversed(messages) if m.role == "user").split()[-1].rstrip(".")
    return Message("assistant", "", (Call("add", {"amount": int(target)}),))


def hopeless(messages):
    return Message("assistant", "", (Call("submit"),))


class Stingy(Reward):
    """Pays `most` for whatever the agent did."""

    def __init__(self, most: float = 0.0) -> None:
        self.most = most

    def outcome(self, episode):
        return {"success": self.most}


class Limited(Counter):
    """A counter with an option."""

    def __init__(self, limit: int = 100) -> None:
        super().__init__()
        self.limit = limit


@dataclass
class Play:
    """Plays with a ledger; what a call does not give is as in every other."""

    ledger: Ledger

    async def __call__(self, policy=None, *, label=None, limit=None, group_size=1, tasks=SET, **options):
        options = {"environment": Limited, "reward": TargetReached(), "temperature": 0.0} | options
        config = RolloutConfig(group_size=group_size, **options)
        policy = policy or ScriptedPolicy(perfect)
        return await evaluate(policy, tasks, config=config, label=label, limit=limit, ledger=self.ledger)


@pytest.fixture
def play(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    yield Play(ledger)
    ledger.close()


@pytest.mark.parametrize(
    ("changed", "key", "before", "now"),
    [
        ({"policy": ScriptedPolicy(hopeless, name="another agent")}, "policy.name", "'scripted'", "'another agent'"),
        ({"policy": ScriptedPolicy(hopeless)}, "policy.script", "'perfect'", "'hopeless'"),
        ({"reward": Stingy()}, "reward.class", "TargetReached'", "Stingy'"),
        ({"top_p": 0.5}, "top_p", "1.0", "0.5"),
        ({"temperature": 0.7}, "temperature", "0.0", "0.7"),
        ({"seed": 1}, "seed", "0", "1"),
        ({"budgets": Budgets(max_turns=1)}, "max_turns", "16", "1"),
        ({"budgets": Budgets(max_turn_tokens=8)}, "max_turn_tokens", "512", "8"),
        ({"instruction": "Be brief."}, "instruction", "''", "'Be brief.'"),
        ({"environment_options": {"limit": 7}}, "environment_options.limit", "nothing", "7"),
        ({"environment": Counter}, "environment", "Limited'", "Counter'"),
        ({"attempts": Attempts(n=2)}, "attempts", "None", "2"),
        ({"tasks": TaskSet("acme/others-v1", {"held_out": TASKS})}, "task_set", "acme/counts-v1", "acme/others-v1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_another_agent_reward_or_sampling_under_one_label_is_refused(play, changed, key, before, now):
    await play()
    with pytest.raises(EvaluationError) as refused:
        await play(**changed)
    message = str(refused.value)
    assert isinstance(refused.value, LedgerError)
    assert f"{key} was " in message
    was, _, is_now = message.partition(f"{key} was ")[2].partition(";")[0].partition(", now ")
    assert before in was
    assert now in is_now
    assert "'evaluation/held_out'" in message
    assert "another label or another folder" in message


async def test_the_options_of_a_reward_are_part_of_what_was_played(play):
    await play(reward=Stingy(0.0))
    with pytest.raises(EvaluationError, match=r"reward\.most was 0\.0, now 1\.0"):
        await play(reward=Stingy(1.0))
    assert (await play(reward=Stingy(0.0))).success().value == 0.0


async def test_each_key_that_differs_is_named(play):
    await play()
    with pytest.raises(EvaluationError, match=r"seed was 0, now 3; .*max_turns was 16, now 2"):
        await play(seed=3, budgets=Budgets(max_turns=2))


async def test_more_tasks_more_samples_and_another_label_stay_allowed(play):
    assert len((await play(limit=2)).rows) == 2
    assert len((await play(limit=4)).rows) == 4
    more = await play(group_size=2)
    assert [len(row.success) for row in more.rows] == [2] * 4
    another = ScriptedPolicy(hopeless, name="another agent")
    assert (await play(another, label="another")).policy == "another agent"
    grown = TaskSet(SET.name, {"held_out": [*TASKS, Task("count-9", "acme/counter-v1", "Count to 9.", truth=9)]})
    assert len((await play(tasks=grown)).rows) == 5


async def test_what_does_not_change_an_episode_may_change(play):
    await play()
    other = {"concurrency": 1, "max_failures_in_a_row": None, "state_keys": False, "budgets": Budgets(infra_retries=0)}
    assert (await play(**other)).success().value == 1.0


async def test_another_task_of_the_same_id_is_refused(play):
    await play()
    changed = [replace(task, prompt="Count to 1.", truth=1) for task in TASKS]
    with pytest.raises(LedgerError, match=r"count-\d.*of another task than this .* its prompt, truth differ"):
        await play(tasks=TaskSet(SET.name, {"held_out": changed}))


async def test_a_manager_refuses_another_policy_and_goes_on_with_the_same(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")

    def manager(script, **options):
        config = RolloutConfig(environment=Counter, reward=TargetReached(), **options)
        return EpisodeManager(ScriptedPolicy(script), config, ledger=ledger, label="mine")

    first = await manager(perfect).collect(TASKS[:2])
    with pytest.raises(LedgerError, match=r"policy\.script was .*perfect', now .*hopeless'"):
        await manager(hopeless).collect(TASKS)
    with pytest.raises(LedgerError, match=r"temperature was 1\.0, now 0\.0"):
        await manager(perfect, temperature=0.0).collect(TASKS)
    assert [t.success async for t in manager(perfect).run(TASKS)] == [1.0] * 4
    assert await manager(hopeless).collect(TASKS[:2], label="other") != first
    assert len(await manager(hopeless).collect(TASKS[:2], record=False)) == 2
    ledger.close()


async def test_a_label_that_is_renamed_takes_its_identity_along(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    play = Play(ledger)
    await play()
    ledger.relabel("evaluation/held_out", "evaluation/first")
    await play(ScriptedPolicy(hopeless, name="another agent"))
    with pytest.raises(EvaluationError, match=r"policy\.name was 'scripted', now 'another agent'"):
        await play(ScriptedPolicy(hopeless, name="another agent"), label="first")
    ledger.close()


async def test_records_of_an_older_ledger_are_compared_as_far_as_they_go(tmp_path, caplog):
    """A ledger without an identity holds the policy, the seed and the sampling of each episode, and not the reward."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    play = Play(ledger)
    await play()
    _forget_identities(ledger.path)
    with pytest.raises(EvaluationError, match=r"policy was 'scripted', now 'another agent'"):
        await play(ScriptedPolicy(perfect, name="another agent"))
    with pytest.raises(EvaluationError, match=r"top_p was 1\.0, now 0\.5"):
        await play(top_p=0.5)
    assert not caplog.records
    assert (await play(reward=Stingy(1.0))).success().value is not None
    (noted,) = caplog.records
    assert "could be compared" in noted.getMessage()
    with pytest.raises(EvaluationError, match="reward"):  # from now on it is known
        await play()
    ledger.close()


def _forget_identities(path: Path) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE claim")
        connection.commit()
