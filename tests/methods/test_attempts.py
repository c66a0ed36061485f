"""Several attempts at a task in one episode: what is judged, what the agent is told, and what the record keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scripted_episodes import make_manager

from agentgym import (
    Budgets,
    Checkpoint,
    Combined,
    Environment,
    EpisodeManager,
    Reward,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    TaskSet,
    evaluate,
    tool,
)
from agentgym.evaluation import format_evaluation
from agentgym.evaluation.rescore import rescore
from agentgym.messages import Call, Message, StopReason
from agentgym.methods.attempts import Attempts
from agentgym.rollout import Fork
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer


class Press(Environment):
    """Two buttons, and a light that shows how often one was pressed since the reset."""

    async def reset(self, task, *, seed):
        self.pressed = 0
        return task.opening()

    @tool(inline=True)
    def look(self) -> str:
        """See how often a button was pressed."""
        return str(self.pressed)

    @tool(final=True, inline=True)
    def press(self, side: str) -> str:
        """Press a button."""
        self.pressed += 1
        return f"Pressed {self.pressed}."


class Pressed(Reward):
    """1 for the right button."""

    def outcome(self, episode):
        calls = episode.turns[-1].calls
        return {"success": float(bool(calls) and calls[-1].arguments.get("side") == episode.task.truth)}


class Describing(Pressed):
    """Says which button was pressed, and counts the turns that it is shown."""

    weights = {"turns": 0.0}

    def turn(self, turn, episode):
        return {"turns": float(len(episode.turns))}

    async def feedback(self, episode):
        return f"You pressed {episode.turns[-1].calls[-1].arguments['side']}."


TASKS = [
    Task(f"t{index}", "test/press-v1", f"Task {index}.", truth=side) for index, side in enumerate(["left", "right"] * 3)
]


def press(side: str) -> Message:
    return Message("assistant", "", (Call("press", {"side": side}),))


def switching(messages: list[Message]) -> Message:
    """Presses left; then what was right again, or the other button if it was wrong."""
    sides = [call.arguments["side"] for message in messages for call in message.calls]
    if not sides:
        return press("left")
    is_right = messages[-1].text.startswith("That was right.")
    return press(sides[-1] if is_right else {"left": "right", "right": "left"}[sides[-1]])


def repeating(messages: list[Message]) -> Message:
    return press("left")


def manager(script, *, exact: bool = True, reward: Reward | None = None, ledger=None, **options) -> EpisodeManager:
    policy = ScriptedPolicy(script, ByteRenderer() if exact else None)
    own = {"ledger": ledger} if ledger is not None else {}
    options = {"environment": Press} | options
    return make_manager(policy, reward=reward or Pressed(), **own, **options)


async def test_a_policy_that_switches_when_it_was_wrong_is_always_right_at_its_second_attempt():
    task_set = TaskSet("test/press-v1", {"held_out": TASKS})
    config = RolloutConfig(environment=Press, reward=Pressed(), attempts=Attempts())
    switched = await evaluate(ScriptedPolicy(switching), task_set, config=config)
    repeated = await evaluate(ScriptedPolicy(repeating), task_set, config=config)
    assert switched.success().value == 1.0
    assert repeated.success().value == 0.5
    rates = {name: estimate.value for name, estimate in switched.attempts().items()}
    assert rates == {"first": 0.5, "last": 1.0, "fixed": 0.5, "broke": 0.0}
    assert switched.to_summary()["attempts"]["fixed"]["value"] == 0.5
    assert "attempts: first 50%, last 100%, fixed 50%, broke 0%" in format_evaluation(switched)
    once = await evaluate(ScriptedPolicy(repeating), task_set, config=replace(config, attempts=None))
    assert not once.attempts()


async def test_episodes_of_several_attempts_are_judged_again_as_they_were():
    episodes = await manager(switching, attempts=Attempts(earlier=0.5)).collect(TASKS)
    rescored = await rescore(episodes, Pressed())
    assert [(e.outcome, e.weights, [t.rewards for t in e.turns]) for e in rescored] == [
        (e.outcome, e.weights, [t.rewards for t in e.turns]) for e in episodes
    ]


@pytest.mark.parametrize(
    ("sides", "first", "last", "fixed", "broke"),
    [("lr", 0, 1, 1, 0), ("rl", 1, 0, 0, 1), ("rr", 1, 1, 0, 0), ("ll", 0, 0, 0, 0)],
)
async def test_what_was_fixed_and_what_was_broken_are_told_apart(sides, first, last, fixed, broke):
    script = [press({"l": "left", "r": "right"}[side]) for side in sides]
    (episode,) = await manager(script, attempts=Attempts(improvement=10.0, earlier=0.5)).collect(TASKS[1:2])
    rates = {"first": first, "last": last, "fixed": fixed, "broke": broke, "improvement": last - first}
    assert episode.outcome == {"success": last} | rates
    assert [turn.rewards for turn in episode.turns] == [{"attempt_1": first}, {}]
    assert episode.outcome_reward == last + 10 * (last - first)
    assert episode.return_from() == last + 10 * (last - first) + 0.5 * first
    assert episode.stop_reason is StopReason.ANSWERED


async def test_an_attempt_begins_in_a_fresh_environment_and_the_conversation_goes_on():
    look = Message("assistant", "", (Call("look", {}),))
    (episode,) = await manager([press("left"), look, press("right")], attempts=Attempts()).collect(TASKS[1:2])
    results = [turn.results[0].content for turn in episode.turns]
    assert results == ["Pressed 1.", "0", "Pressed 1."]
    (feedback,) = episode.turns[0].replies
    assert feedback.role == "user"
    assert feedback.text == "That was wrong. Attempt 2 of 2: everything is as at the start."
    assert (
        ByteRenderer().observation([*(r.message() for r in episode.turns[0].results), feedback])
        == episode.turns[0].observation_ids
    )


@pytest.mark.parametrize(
    ("feedback", "text"),
    [("none", ""), ("verdict", "That was wrong. "), ("text", "You pressed left.\n")],
)
async def test_the_agent_is_told_only_what_the_feedback_allows(feedback, text):
    describing = manager(
        [press("left"), press("left")], reward=Combined(Describing()), attempts=Attempts(feedback=feedback)
    )
    (episode,) = await describing.collect(TASKS[1:2])
    assert episode.turns[0].replies[0].text == f"{text}Attempt 2 of 2: everything is as at the start."


async def test_each_attempt_is_judged_as_an_episode_of_its_own():
    look = Message("assistant", "", (Call("look", {}),))

    class Own(Describing):
        weights = {"turns": 0.0, "at_end": 1.0}

        def hindsight(self, episode):
            return [{"at_end": float(turn is episode.turns[-1])} for turn in episode.turns]

    script = [look, press("right"), look, look, press("left")]
    (episode,) = await manager(script, reward=Own(), attempts=Attempts()).collect(TASKS[1:2])
    assert [turn.rewards["turns"] for turn in episode.turns] == [1, 2, 1, 2, 3]
    assert [turn.rewards["at_end"] for turn in episode.turns] == [0, 1, 0, 0, 1]
    assert episode.outcome["broke"] == 1.0


async def test_a_solved_episode_ends_where_that_is_wanted():
    attempts = Attempts(n=5, until_solved=True)
    (episode,) = await manager(switching, attempts=attempts).collect(TASKS[1:2])
    assert len(episode.turns) == 2
    assert episode.outcome == {"success": 1, "first": 0, "last": 1, "fixed": 1, "broke": 0, "improvement": 1}


async def test_a_budget_that_is_used_up_leaves_no_further_attempt():
    (episode,) = await manager(switching, attempts=Attempts(), budgets=Budgets(max_turns=1)).collect(TASKS[1:2])
    assert len(episode.turns) == 1
    assert episode.outcome == {"success": 0, "first": 0, "last": 0, "fixed": 0, "broke": 0, "improvement": 0}


async def test_a_reward_without_what_attempts_need_fails_the_episode_with_the_remedy():
    class Silent(Reward):
        def outcome(self, episode):
            return {"length": 1.0}

    (episode,) = await manager(switching, reward=Silent(), attempts=Attempts()).collect(TASKS[:1])
    assert not episode.valid
    assert "which several attempts need" in episode.error
    (episode,) = await manager(switching, attempts=Attempts(feedback="text")).collect(TASKS[:1])
    assert "needs a reward that overrides Reward.feedback" in episode.error
    with pytest.raises(ValueError, match=r"Attempts\.n is 1"):
        Attempts(n=1)


async def test_a_recorded_episode_of_two_attempts_is_replayed_and_branched(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    recording = manager(switching, attempts=Attempts(), ledger=ledger)
    (episode,) = await recording.collect(TASKS[1:2])
    recorded = ledger.load(episode.id)
    ledger.close()
    assert recorded == episode
    assert recorded.provenance.attempts["n"] == 2
    assert await recording.replay(recorded) is None
    branches = [branch async for branch in manager(repeating, attempts=Attempts()).branch([Fork(recorded, 1)], 2)]
    assert [branch.outcome["fixed"] for branch in branches] == [0.0, 0.0]
    assert all(branch.turns[0].message == episode.turns[0].message for branch in branches)


class Rounds(Environment):
    """Three presses of a light, after which the environment itself ends; a wrong side ends it at once."""

    async def reset(self, task, *, seed):
        self.pressed = 0
        return task.opening()

    @tool(inline=True)
    def press(self, side: str) -> str:
        """Press a button."""
        self.pressed += 1
        self.ended = self.pressed == 2
        return f"Pressed {self.pressed}."

    async def state_key(self):
        return str(self.pressed)

    async def checkpoint(self):
        return Checkpoint({"pressed": self.pressed})

    async def restore(self, task, checkpoint, *, seed):
        self.pressed = checkpoint.data["pressed"]


@pytest.mark.parametrize("with_checkpoint", [False, True])
async def test_every_turn_of_three_attempts_that_the_environment_ends_can_be_branched_from(with_checkpoint):
    playing = manager(repeating, environment=Rounds, attempts=Attempts(n=3))
    checkpoints = {(TASKS[1].id, 0, turn): None for turn in range(7)}
    [record] = await playing.collect([TASKS[1]], checkpoints=checkpoints)
    assert [list(turn.rewards) for turn in record.turns] == [[], ["attempt_1"], [], ["attempt_2"], [], []]
    taken = [turn for (_, _, turn), checkpoint in checkpoints.items() if checkpoint is not None]
    assert taken == [0, 1, 2, 3, 4, 5]
    for turn in taken:
        fork = Fork(record, turn, checkpoints[TASKS[1].id, 0, turn] if with_checkpoint else None)
        [branch] = [each async for each in playing.branch([fork], label="branch")]
        assert branch.error is None
        assert [t.message for t in branch.turns] == [t.message for t in record.turns]
        assert [t.observation() for t in branch.turns] == [t.observation() for t in record.turns]
        assert [t.state_key for t in branch.turns] == [t.state_key for t in record.turns]
        assert branch.outcome == record.outcome
