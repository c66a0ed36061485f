"""Simulated users: scripted, of a chat API and local; what they never tell, how they err, and how they fail."""

from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest
from model_server import serving

from agentgym import (
    Budgets,
    Call,
    Checkpoint,
    EpisodeManager,
    Message,
    Policy,
    PolicyError,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    ToolError,
    tool,
)
from agentgym.bridges.chat_api import ChatApiPolicy
from agentgym.environment import EnvironmentWrapper
from agentgym.errors import ConformanceError, ContextFull
from agentgym.messages import StopReason
from agentgym.methods.users import END, SimulatedUser, UserBehaviour, UserEnvironment, with_user
from agentgym.policy import (
    Hermes,
    Reply,
    TemplateRenderer,
    TransformersPolicy,
    make_model,
    make_tokenizer,
)
from agentgym.testing import check_environment
from agentgym.testing.counter import CounterWithState, TargetReached

GOAL = "Count to three and hand that in."
TASK = Task("t", "counter", GOAL, truth=3)


def answering(messages):
    """A user who tells the target when it is asked for a number, and leaves once it is done."""
    question = messages[-1].text.casefold()
    if "done" in question:
        return f"Thank you. {END}"
    return "Up to 3, please." if "how far" in question else "I need somebody who counts."


def counting(user=answering, **options):
    """A counter with a scripted user."""
    return with_user(
        CounterWithState, lambda task: SimulatedUser(ScriptedPolicy(user), "A child.", task.prompt, **options)
    )


def agent(messages):
    """Asks how far, counts there, and says so."""
    turn = sum(message.role == "assistant" for message in messages)
    if turn == 0:
        return "How far?"
    if turn == 1:
        number = int("".join(filter(str.isdigit, messages[-1].text)))
        return Message("assistant", "", (Call("add", {"amount": number}),))
    return Message("assistant", "", (Call("submit", {}),))


async def play(make, script=agent, **budgets):
    config = RolloutConfig(environment=make, reward=TargetReached(), budgets=Budgets(**{"infra_retries": 0, **budgets}))
    (trajectory,) = await EpisodeManager(ScriptedPolicy(script), config).collect([TASK])
    return trajectory


async def test_an_agent_hears_the_task_from_the_user_alone():
    trajectory = await play(counting())
    assert trajectory.success == 1.0
    assert [message.text for message in trajectory.opening] == ["I need somebody who counts."]
    assert trajectory.turns[0].replies[0].text == "Up to 3, please."
    assert not any(GOAL in message.text for message in trajectory.messages())
    assert trajectory.provenance.environment.endswith("CounterWithState")


async def test_an_episode_ends_when_the_user_leaves():
    trajectory = await play(counting(), lambda messages: "It is done.")
    assert trajectory.stop_reason is StopReason.ANSWERED
    assert len(trajectory.turns) == 1


async def test_a_goal_that_the_user_is_made_to_tell_is_not_sent_and_the_agent_gains_nothing_by_asking():
    """The check that every environment passes finds a goal in a user's words; with SimulatedUser there is none."""
    telling = counting(lambda messages: f"I was told: {GOAL.upper()}")
    trajectory = await play(telling, lambda messages: "Tell me all.", max_turns=3)
    assert trajectory.error is None
    assert {message.text for turn in trajectory.turns for message in turn.replies} == {"I would rather not say that."}
    await check_environment(telling, [TASK], lambda task: agent_that_knows, reward=Submitted())

    class Leaking(UserEnvironment):
        """A counter whose user tells everything. Nothing is isolated."""

        async def respond(self, message):
            return [Message("user", self.user.goal)]

    def leaking():
        return Leaking(CounterWithState(), lambda task: SimulatedUser(ScriptedPolicy(answering), goal=task.prompt))

    with pytest.raises(ConformanceError, match="asks for it is shown what the environment's private_texts holds"):
        await check_environment(leaking, [TASK], reward=Submitted())


class Submitted(TargetReached):
    """Nothing is paid on the way."""

    def turn(self, turn, episode):
        return {}


def agent_that_knows(messages):
    turn = sum(message.role == "assistant" for message in messages)
    return Message("assistant", "", (Call("submit", {}) if turn else Call("add", {"amount": 3}),))


async def test_a_user_of_a_chat_api_sees_the_conversation_from_the_other_side():
    reply = {"choices": [{"message": {"role": "assistant", "content": "Up to 3."}, "finish_reason": "stop"}]}
    with serving(reply) as server:
        policy = ChatApiPolicy(server.url + "/v1", "m")
        trajectory = await play(with_user(CounterWithState, lambda task: SimulatedUser(policy, "Old.", task.prompt)))
        await policy.close()
    assert trajectory.success == 1.0
    first, second = (body["messages"] for body in server.bodies[:2])
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert "Old." in first[0]["content"]
    assert GOAL in first[0]["content"]
    assert second[-1]["content"] == "How far?"


async def test_a_local_model_plays_a_user():
    """Random weights write anything, a few tokens of it: the user is bounded whatever it says."""
    tokenizer = make_tokenizer(["the user says what it wants to have counted"] * 4, 300)
    policy = TransformersPolicy(make_model(tokenizer, hidden=64, layers=2), TemplateRenderer(tokenizer, Hermes()))
    make = with_user(CounterWithState, lambda task: SimulatedUser(policy, goal=task.prompt, max_tokens=8))
    trajectory = await play(make, lambda messages: "Say more.", max_turns=3)
    await policy.close()
    assert trajectory.error is None
    assert len(trajectory.turns) == 3
    assert all(turn.replies[0].role == "user" and turn.replies[0].text for turn in trajectory.turns)


# ---- departures from a perfect user


def test_departures_depend_on_the_seed_alone():
    behaviour = UserBehaviour(mistakes=0.5, noise=0.3, impatience=0.3)
    text = "Please change order 1234 to the green jacket."
    written = [behaviour.write(random.Random(seed), text) for seed in range(50)]
    assert written == [behaviour.write(random.Random(seed), text) for seed in range(50)]
    assert 10 < sum(bool(correction) for _, correction in written) < 40
    assert UserBehaviour().write(random.Random(0), text) == (text, "")
    assert not UserBehaviour(impatience=1.0).leaves(random.Random(0), 2)
    assert UserBehaviour(impatience=1.0).leaves(random.Random(0), 3)


async def test_a_mistake_is_corrected_in_the_next_message():
    user = SimulatedUser(ScriptedPolicy(lambda messages: "It is 1234."), behaviour=UserBehaviour(mistakes=1.0))
    wrong, _ = await user.answer("Which order?")
    assert "1234" not in wrong
    corrected, _ = await user.answer("There is no such order.")
    assert corrected.startswith(f"Sorry, I wrote {wrong.removeprefix('It is ').removesuffix('.')}, but it is 1234.")
    assert user.report()["user_mistakes"] == 2


async def test_an_impatient_user_leaves_and_one_who_never_would_is_bounded():
    for behaviour, messages in ((UserBehaviour(impatience=1.0), 3), (UserBehaviour(max_messages=5), 5)):
        user = SimulatedUser(ScriptedPolicy(lambda messages: "And?"), behaviour=behaviour)
        answers = [await user.answer("Hm.") for _ in range(messages + 1)]
        assert answers == [("And?", False)] * messages + [("", True)]
        assert user.report()["user_left_early"] == 1


@pytest.mark.parametrize("options", [{"mistakes": 1.5}, {"noise": -0.1}, {"max_messages": 0}])
def test_chances_are_from_0_to_1(options):
    with pytest.raises(ValueError, match="the chances of a user must be from 0"):
        UserBehaviour(**options)


# ---- checkpoints, tools, failures


async def test_a_user_goes_on_from_a_checkpoint_as_the_original_does():
    make = counting(behaviour=UserBehaviour(mistakes=0.5, noise=0.5))
    original, copy = make(), make()
    await original.reset(TASK.public(), seed=3)
    await original.respond(Message("assistant", "How far?"))
    checkpoint = await original.checkpoint()
    await copy.restore(TASK.public(), Checkpoint(dict(checkpoint.data)), seed=3)
    for text in ("How far?", "Really?", "How far?"):
        assert await original.respond(Message("assistant", text)) == await copy.respond(Message("assistant", text))
    assert copy.user.report() == original.user.report()


class Phone(CounterWithState):
    """A phone in the user's hand. Nothing is isolated."""

    @tool(inline=True)
    def look(self) -> str:
        """Look at the screen."""
        return f"screen {self.value}"

    @tool(inline=True)
    def press(self) -> str:
        """Press a button that is broken."""
        raise ToolError("broken")


async def test_a_user_has_tools_of_its_own_which_the_agent_does_not_see():
    def user_with_phone(messages):
        if messages[-1].role == "tool":
            return f"It says {messages[-1].text}."
        return Message("assistant", "", (Call("press", {}, "a"), Call("look", {}, "b")))

    user = SimulatedUser(ScriptedPolicy(user_with_phone), environment=Phone())
    assert await user.answer("What does it say?") == ("It says screen 0.", False)
    assert user.report()["user_calls"] == 2
    assert set(EnvironmentWrapper.unwrap(counting()()).tools) == {"add", "slow_add", "refuse", "submit"}


async def test_an_agent_that_talks_too_much_for_the_user_ends_the_conversation_and_voids_nothing():
    """The user's context is full: had the episode failed, an agent could escape from being judged."""

    class Narrow(ScriptedPolicy):
        async def generate(self, request):
            if sum(len(message.text) for message in request.messages) > 5_000:
                raise ContextFull("too long")
            return await super().generate(request)

    make = with_user(CounterWithState, lambda task: SimulatedUser(Narrow(answering), goal=task.prompt))
    trajectory = await play(make, lambda messages: "blah " * 2_000, max_turns=10)
    assert trajectory.stop_reason is StopReason.ANSWERED
    assert trajectory.success == 0.0
    too_narrow = SimulatedUser(Narrow(answering), goal="g" * 6_000)
    with pytest.raises(PolicyError, match="The goal does not fit"):
        await too_narrow.answer("Hello?")


class Busy(Policy):
    """Calls as long as it has tools; sleeps in every call but the first where it is asked to."""

    def __init__(self, sleeps=False):
        self.sleeps, self.requests = sleeps, 0

    async def generate(self, request):
        self.requests += 1
        if self.sleeps and self.requests > 1:
            await asyncio.Event().wait()
        if request.tools:
            return Reply(Message("assistant", "", (Call("look", {}),)))
        return Reply(Message("assistant", "I have looked often enough."))


async def test_half_a_character_does_not_reach_a_user():
    reply = {"choices": [{"message": {"role": "assistant", "content": "What?"}, "finish_reason": "stop"}]}
    with serving(reply) as server:
        policy = ChatApiPolicy(server.url + "/v1", "m")
        assert await SimulatedUser(policy).answer("Hello \ud800!") == ("What?", False)
        await policy.close()
    assert server.bodies[0]["messages"][-1]["content"] == "Hello ?!"


async def test_an_agent_that_keeps_a_user_at_its_tools_is_answered_or_left_and_voids_nothing():
    busy = SimulatedUser(Busy(), environment=Phone())
    assert await busy.answer("Look at it, again and again.") == ("I have looked often enough.", False)
    slow = SimulatedUser(Busy(sleeps=True), environment=Phone(), timeout_s=0.05)
    assert await slow.answer("Look at it, again and again.") == ("", True)
    assert slow.report()["user_left_early"] == 1


@pytest.mark.parametrize("trick", ["Say nothing.", "long"])
async def test_an_agent_that_silences_its_user_with_the_first_word_is_left_and_voids_nothing(trick):
    """The policy answers a plain word, so what the agent has said is to blame."""

    class Obedient(ScriptedPolicy):
        async def generate(self, request):
            if "long" in request.messages[-1].text:
                raise ContextFull("too long")
            return await super().generate(request)

    policy = Obedient(lambda messages: " " if "nothing" in messages[-1].text else "I need help.")
    user = SimulatedUser(policy, goal="A lamp.")
    user.begin(0, opening="A lamp, please.")
    assert await user.answer(trick) == ("", True)
    assert user.report()["user_left_early"] == 1


@pytest.mark.parametrize("lines", [["I need help.", "Up to 3.", "Go on."], ["I need help.", "Up to 3.", "Go on.", " "]])
async def test_an_agent_that_talks_until_its_user_has_nothing_more_to_say_is_judged(lines):
    """A user's script that is over, or a model that falls silent, after it has answered well."""
    script = ScriptedPolicy([*lines, *[" "] * 3] if lines[-1] == " " else lines)
    make = with_user(CounterWithState, lambda task: SimulatedUser(script, goal=task.prompt))
    trajectory = await play(make, lambda messages: "Really?", max_turns=10)
    assert trajectory.error is None
    assert trajectory.stop_reason is StopReason.ANSWERED
    assert trajectory.success == 0.0
    assert len(trajectory.turns) == 3


async def test_a_user_that_fails_once_is_asked_again_and_the_conversation_is_the_same():
    class Shaky(ScriptedPolicy):
        failures = 0

        async def generate(self, request):
            if len(request.messages) > 2 and not self.failures:
                self.failures += 1
                raise PolicyError("The server was restarted.")
            return await super().generate(request)

    policy = Shaky(answering)
    make = with_user(CounterWithState, lambda task: SimulatedUser(policy, goal=task.prompt))
    trajectory = await play(make, infra_retries=1)
    assert policy.failures == 1
    assert trajectory.success == 1.0
    steady = await play(counting())
    assert [m.text for m in trajectory.messages()] == [m.text for m in steady.messages()]


class Sleeper(Policy):
    """Says nothing for ever."""

    async def generate(self, request):
        await asyncio.Event().wait()


CALLING = ScriptedPolicy(lambda messages: Message("assistant", "", (Call("look", {}),)))
FAILURES = {
    "silent": (ScriptedPolicy(lambda messages: " "), "said nothing in 3 attempts"),
    "broken": (ScriptedPolicy([]), "The script has only 0 message"),
    "asleep": (Sleeper(), "said nothing in 0.01 s"),
    "calling": (CALLING, "kept calling its tools and said nothing"),
}


@pytest.mark.parametrize("kind", FAILURES)
async def test_a_user_that_fails_or_never_ends_fails_the_episode_which_nobody_trains_on(kind):
    """Also after it has begun well: what its user does is not the agent's fault."""
    policy, message = FAILURES[kind]

    def make_user(task):
        timeout_s = 0.01 if kind == "asleep" else 60.0
        return SimulatedUser(ScriptedPolicy(answering), goal=task.prompt, environment=Phone(), timeout_s=timeout_s)

    make = with_user(CounterWithState, make_user)

    class Failing(UserEnvironment):
        """A counter whose user fails once it has spoken. Nothing is isolated."""

        async def reset(self, task, *, seed):
            opening = await super().reset(task, seed=seed)
            self.user.policy = policy
            return opening

    trajectory = await play(partial(Failing, CounterWithState(), make_user))
    assert trajectory.stop_reason is StopReason.INFRA_ERROR
    assert message in trajectory.error
    assert (await play(make)).success == 1.0
    with pytest.raises(PolicyError, match=message):
        await replace_policy(make_user(TASK), policy).answer("Hello?")


def replace_policy(user, policy):
    user.policy = policy
    return user
