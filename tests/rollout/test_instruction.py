"""An instruction precedes the task: in the prompt, the record, replays and branches, and in nothing else."""

from __future__ import annotations

import pytest
from scripted_episodes import say, task

from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy
from agentgym.messages import Message
from agentgym.rollout import Fork
from agentgym.rollout.prompt import with_additions
from agentgym.storage.ledger import Ledger
from agentgym.testing import Counter, TargetReached
from agentgym.trajectory import PromptAddition

SYSTEM, USER = Message("system", "A counter."), Message("user", "Count.")


@pytest.mark.parametrize(
    ("opening", "expected"),
    [
        ([USER], [Message("system", "Be brief."), USER]),
        ([SYSTEM, USER], [Message("system", "Be brief.\n\nA counter."), USER]),
        ([], [Message("system", "Be brief.")]),
    ],
)
def test_it_stands_before_the_environments_words_and_once(opening, expected):
    instruction = PromptAddition("instruction", "Be brief.", "system")
    assert with_additions(opening, [instruction]) == expected
    assert with_additions(expected, [instruction]) == expected
    assert with_additions(opening, []) == opening
    assert with_additions(opening, [PromptAddition("instruction", "", "system")]) == opening


async def test_an_episode_with_one_is_recorded_replayed_and_branched_with_it(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    config = RolloutConfig(environment=Counter, reward=TargetReached(), instruction="Be brief.")
    manager = EpisodeManager(ScriptedPolicy([say("add"), say("submit")]), config, ledger=ledger)
    (plain,) = await manager.with_config(RolloutConfig()).collect([task(1)], label="plain")
    (episode,) = await manager.collect([task(1)], label="run")
    assert list(episode.opening) == [Message("system", "Be brief."), *plain.opening]
    assert (episode.provenance.instruction, plain.provenance.instruction) == ("Be brief.", None)
    recorded = ledger.load(episode.id)
    assert (recorded.provenance, recorded.opening) == (episode.provenance, episode.opening)
    other = EpisodeManager(ScriptedPolicy([say("submit")]), RolloutConfig(environment=Counter, reward=TargetReached()))
    assert await other.replay(recorded) is None
    assert (await other.replay_turns(recorded, [0])).opening == episode.opening
    (branch,) = [branch async for branch in other.branch([Fork(recorded, 1)], 1)]
    assert branch.opening == episode.opening
    assert branch.provenance.instruction == "Be brief."
    ledger.close()
