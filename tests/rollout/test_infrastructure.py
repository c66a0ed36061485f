"""What is not the agent's fault: retried where it can be, else failed, kept and told apart."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from scripted_episodes import counting, play, say, task

from agentgym import Budgets, Policy, Reward, RolloutConfig, ScriptedPolicy, Trajectory, tool
from agentgym.errors import FilesNotCaptured, JudgeError, PolicyError, SandboxDied, SandboxExhausted
from agentgym.messages import StopReason
from agentgym.policy import Reply
from agentgym.rollout.environments import EnvironmentFactory
from agentgym.rollout.episode import Episode
from agentgym.rollout.episodes import EpisodeConfig
from agentgym.testing import ByteRenderer, Counter, CounterWithState, FakeClock

FILE = str(Path(__file__).relative_to(Path.cwd()))


def failing(times: int, base: type[Counter] = Counter, error: Exception | None = None) -> type[Counter]:
    """A counter whose `add` fails the given number of times, over all its instances, when it stands at 1."""

    class Failing(base):  # type: ignore[misc, valid-type]
        left = times
        opened = closed = 0

        def __init__(self) -> None:
            super().__init__()
            Failing.opened += 1

        @tool
        async def add(self, amount: int = 1) -> str:
            """Add."""
            if self.value == 1 and Failing.left:
                Failing.left -= 1
                self.value = 999  # the world is broken, so it must not be used again
                raise error or SandboxDied("the machine ended")
            self.value += amount
            return str(self.value)

        async def close(self) -> None:
            Failing.closed += 1

    return Failing


async def test_a_dead_sandbox_is_retried_from_the_checkpoint_and_nothing_is_said_twice():
    environment = failing(1, CounterWithState)
    policy = Counting(counting(3))
    trajectory = await play(policy, target=3, environment=environment)
    assert trajectory.outcome == {"success": 1.0}
    assert [turn.results[0].content for turn in trajectory.turns] == ["1", "2", "3", "submitted 3"]
    assert policy.requests == 4  # turn 1 was not sampled again
    assert environment.opened == environment.closed == 2
    assert trajectory.provenance.retries == ["SandboxDied: the machine ended (while running the tool 'add' in turn 1)"]


class Counting(ScriptedPolicy):
    """A script that counts how often it was asked."""

    requests = 0

    def __init__(self, script):
        super().__init__(script, ByteRenderer())

    async def generate(self, request):
        self.requests += 1
        return await super().generate(request)


async def test_without_a_checkpoint_the_episode_starts_over():
    environment = failing(1)
    policy = Counting(counting(3))
    trajectory = await play(policy, target=3, environment=environment)
    assert trajectory.outcome == {"success": 1.0}
    assert len(trajectory.turns) == 4
    assert policy.requests == 2 + 4
    assert environment.opened == environment.closed == 2
    ids = list(trajectory.arrays().ids)
    assert ids[: len(trajectory.prompt_ids)] == trajectory.prompt_ids


@pytest.mark.parametrize("base", [Counter, CounterWithState])
async def test_when_retries_are_used_up_the_episode_failed_is_kept_and_is_not_valid(base):
    trajectory = await play(counting(3), target=3, environment=failing(5, base), budgets=Budgets(infra_retries=2))
    assert trajectory.stop_reason is StopReason.INFRA_ERROR
    assert trajectory.error == "SandboxDied: the machine ended (while running the tool 'add' in turn 1)"
    assert not trajectory.valid
    assert trajectory.outcome == {}
    assert len(trajectory.turns) == 1  # what had been finished is kept
    assert trajectory.turns[0].observation_ids == []
    assert len(trajectory.provenance.retries) == 2


async def test_a_tool_that_raises_anything_is_our_fault_and_not_the_agents():
    trajectory = await play(counting(2), environment=failing(9, error=ZeroDivisionError("1 / 0")))
    assert trajectory.stop_reason is StopReason.INFRA_ERROR
    location = rf"{re.escape(FILE)}:\d+"
    assert re.fullmatch(
        rf"ZeroDivisionError: 1 / 0 at {location} \(while running the tool 'add' in turn 1\)", trajectory.error
    )


class Forgetful(Counter):
    """Its reset ends without a return."""

    async def reset(self, task, *, seed):
        await super().reset(task, seed=seed)


async def test_a_reset_that_forgets_to_return_is_an_error_that_says_what_to_write():
    trajectory = await play(ScriptedPolicy([say("done")]), environment=Forgetful)
    assert (
        "Forgetful.reset returned None, but it must return a list of messages, for example `return task.opening()`"
        in trajectory.error
    )


class Plain(Counter):
    """Its reset is a plain method."""

    def reset(self, task, *, seed):
        return task.opening()


class Yielding(Counter):
    """Its reset yields the messages."""

    async def reset(self, task, *, seed):
        yield task.opening()


async def test_a_reset_that_cannot_be_awaited_is_an_error_that_says_what_to_write():
    for environment, given in ((Plain, "list"), (Yielding, "async_generator")):
        trajectory = await play(ScriptedPolicy([say("done")]), environment=environment)
        assert (
            f"{environment.__name__}.reset must be a coroutine, but it returned a {given}. Define it"
            in trajectory.error
        )
        assert f"See {FILE}:" in trajectory.error


async def test_of_parallel_calls_the_broken_tool_is_named_and_the_others_are_not_left_running():
    finished = []

    class Mixed(Counter):
        @tool
        async def slow(self) -> str:
            """Take a moment."""
            await asyncio.sleep(0.01)
            finished.append(True)
            return "done"

        @tool(inline=True)
        def broken(self) -> str:
            """Break."""
            raise OSError("disk on fire")

    trajectory = await play([say("slow", "broken")], environment=Mixed, budgets=Budgets(infra_retries=0))
    assert trajectory.error.startswith("OSError: disk on fire at ")
    assert trajectory.error.endswith("(while running the tool 'broken' in turn 0)")
    assert finished == [True]


@pytest.mark.parametrize("code", [SystemExit(3), asyncio.CancelledError("stray"), StopIteration("x")])
@pytest.mark.parametrize("inline", [True, False])
async def test_a_tool_that_raises_what_ends_programs_fails_its_episode_alone(code, inline):
    class Rude(Counter):
        @tool(inline=inline)
        def leave(self) -> str:
            """Leave."""
            raise code

    trajectory = await play([say("leave")], environment=Rude)
    assert trajectory.stop_reason is StopReason.INFRA_ERROR


async def test_a_policy_that_fails_once_is_asked_again_and_the_environment_is_untouched():
    class Flaky(ScriptedPolicy):
        failures = 1

        async def generate(self, request):
            if request.turn == 1 and self.failures:
                self.failures -= 1
                raise PolicyError("the server answered 503")
            return await super().generate(request)

    environment = failing(0)
    trajectory = await play(Flaky(counting(2)), environment=environment)
    assert trajectory.outcome == {"success": 1.0}
    assert environment.opened == 1


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(say("add")), "has a renderer but returned no token ids"),
        (Reply(say("add"), [1, 2], [0.0]), "2 token ids, but 1 log-prob"),
        (None, "AttributeError"),
    ],
)
async def test_a_policy_that_breaks_its_contract_is_an_error_that_says_how(reply, words):
    class Broken(Policy):
        name = "broken"
        renderer = ByteRenderer()

        async def generate(self, request):
            return reply

    trajectory = await play(Broken())
    assert trajectory.stop_reason is StopReason.INFRA_ERROR
    assert words in trajectory.error
    assert "asking the policy 'broken' for turn 0" in trajectory.error


class Judge(Reward):
    """Fails to judge the outcome, or a turn, so many times; or returns what is no reward."""

    def __init__(self, *, outcome_failures=0, turn_failures=0, value=1.0):
        self.outcome_failures, self.turn_failures, self.value, self.requests = outcome_failures, turn_failures, value, 0

    async def turn(self, turn, episode):
        if self.turn_failures:
            self.turn_failures -= 1
            raise JudgeError("the judge is asleep")
        return {}

    def outcome(self, episode):
        self.requests += 1
        if self.outcome_failures:
            self.outcome_failures -= 1
            raise JudgeError("the judge is asleep")
        return {"success": self.value}


@pytest.mark.parametrize("reward", [Judge(outcome_failures=1), Judge(turn_failures=1)])
async def test_a_judge_that_fails_once_is_asked_again_and_the_episode_is_not_replayed(reward):
    environment = failing(0)
    trajectory = await play(counting(2), environment=environment, reward=reward)
    assert trajectory.outcome == {"success": 1.0}
    assert environment.opened == 1


async def test_a_judge_that_cannot_judge_fails_the_episode_and_never_scores_0():
    trajectory = await play(counting(2), reward=Judge(outcome_failures=9))
    assert trajectory.stop_reason is StopReason.INFRA_ERROR
    assert trajectory.error == "JudgeError: the judge is asleep (while judging the outcome)"
    assert trajectory.outcome == {}
    assert trajectory.success is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", None])
async def test_a_reward_that_is_no_number_fails_the_episode_at_once(value):
    reward = Judge(value=value)
    trajectory = await play(counting(2), reward=reward)
    assert trajectory.stop_reason is StopReason.INFRA_ERROR
    assert trajectory.error.startswith(f"RewardError: Judge returned {value!r} for the component 'success'")
    assert reward.requests == 1


async def test_an_environment_that_cannot_reset_or_be_made_fails_the_episode():
    class NoReset(Counter):
        async def reset(self, task, *, seed):
            raise RuntimeError("no database")

    def unmakeable():
        raise RuntimeError("no machine")

    for environment, doing in ((NoReset, "resetting the environment"), (unmakeable, "making the environment")):
        trajectory = await play(counting(2), environment=environment)
        assert trajectory.stop_reason is StopReason.INFRA_ERROR
        assert trajectory.error.endswith(f"(while {doing})")
        assert trajectory.turns == []


async def test_an_environment_that_fails_to_close_leaves_the_result_standing_and_a_note():
    class Stuck(Counter):
        async def close(self):
            raise OSError("busy")

    trajectory = await play(counting(2), environment=Stuck)
    assert trajectory.outcome == {"success": 1.0}
    assert trajectory.provenance.close_error == "OSError: busy"


def test_a_judge_that_hangs_fails_the_episode_in_the_time_of_an_episode():
    class Asleep(Reward):
        async def outcome(self, episode):
            await asyncio.sleep(1e9)

    clock = FakeClock()
    trajectory = clock.run(play(counting(2), reward=Asleep(), budgets=Budgets(time_s=30, infra_retries=0)))
    assert trajectory.error == "JudgeError: Asleep gave no verdict in 30 s (while judging the outcome)"
    assert clock.now == pytest.approx(30)


def test_an_environment_that_is_never_ready_is_infrastructure_and_not_the_agents_time():
    class Never(Counter):
        async def reset(self, task, *, seed):
            await asyncio.sleep(1e9)

    trajectory = FakeClock().run(play(counting(2), environment=Never, budgets=Budgets(time_s=30)))
    assert trajectory.stop_reason is StopReason.INFRA_ERROR
    assert (
        trajectory.error == "TimeoutError: the environment was not ready after 30 s (while resetting the environment)"
    )


def test_an_environment_that_never_closes_is_given_up_and_noted():
    class Stuck(Counter):
        async def close(self):
            await asyncio.sleep(1e9)

    trajectory = FakeClock().run(play(counting(2), environment=Stuck))
    assert trajectory.outcome == {"success": 1.0}
    assert "longer than 60 s" in trajectory.provenance.close_error


def test_cancelling_while_the_judge_thinks_records_no_end():
    class Thinking(Reward):
        async def outcome(self, episode):
            await asyncio.sleep(100)
            return {}

    async def cancelled():
        policy = ScriptedPolicy(counting(2))
        factory = EnvironmentFactory(RolloutConfig(environment=Counter, reward=Thinking()), policy)
        trajectory = Trajectory("r/t#0", task())
        playing = asyncio.ensure_future(Episode(EpisodeConfig(factory, Budgets()), policy, trajectory).play())
        await asyncio.sleep(10)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        return trajectory

    trajectory = FakeClock().run(cancelled())
    assert trajectory.stop_reason is None
    assert not trajectory.valid


def spoiled(error: Exception) -> type[Counter]:
    """A counter whose state cannot be read once it stands at 2."""

    class Spoiled(CounterWithState):
        async def state_key(self) -> str | None:
            if self.value == 2:
                raise error
            return await super().state_key()

    return Spoiled


async def test_a_state_that_the_agent_made_unreadable_is_named_by_its_calls_and_the_episode_goes_on():
    """Not by None: an estimator that compares states would have nothing to compare in the whole group."""
    environment = spoiled(FilesNotCaptured("too deep"))
    trajectories = [await play(counting(3), target=3, environment=environment) for _ in range(2)]
    first, second = ([turn.state_key for turn in trajectory.turns] for trajectory in trajectories)
    assert trajectories[0].outcome == {"success": 1.0}
    assert [str(key).startswith("unread ") for key in first] == [False, False, True, False]
    assert first == second


async def test_a_sandbox_that_the_agent_used_up_ends_the_episode_as_its_own_failure():
    trajectory = await play(counting(3), target=3, environment=spoiled(SandboxExhausted("out of memory")))
    assert trajectory.stop_reason is StopReason.ENVIRONMENT
    assert trajectory.outcome == {"success": 0.0}
    assert len(trajectory.turns) == 2
    assert not trajectory.provenance.retries


async def test_a_sandbox_that_is_used_up_before_the_agent_acts_is_a_failure_of_ours():
    class Broken(CounterWithState):
        async def state_key(self) -> str | None:
            raise SandboxExhausted("out of memory")

    trajectory = await play(counting(3), target=3, environment=Broken, budgets=Budgets(infra_retries=0))
    assert trajectory.stop_reason is StopReason.INFRA_ERROR
