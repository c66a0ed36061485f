"""A team that the agent builds: what it may build, who reads whom, and that a role reads nothing else."""

from __future__ import annotations

import random

import numpy as np
import pytest

from agentgym import Call, Combined, EpisodeManager, Message, Reward, RolloutConfig, ScriptedPolicy, Task
from agentgym.credit import Group, estimator
from agentgym.errors import AgentGymError
from agentgym.messages import ResultStatus
from agentgym.methods.teams import TeamLimits, TeamRole, with_team_graph
from agentgym.rewards.team_size import TeamSize
from agentgym.testing import ByteRenderer, CounterWithState, TargetReached

TASK = Task("t", "test/counter-v1", "Count to 3.", parameters={"target": 3}, truth=3)
ROLES = {
    "reader": TeamRole("Say {in} one word how far."),
    "counter": TeamRole("Add what you are told.", tools=("add",)),
    "critic": TeamRole("Find fault."),
    "closer": TeamRole("Submit."),
}


def add(name):
    return Call("add_role", {"name": name}, f"role-{name}")


def link(source, target):
    return Call("add_edge", {"source": source, "target": target}, f"{source}-{target}")


DONE = Call("done", {}, "done")


async def building(*calls, **limits):
    environment = with_team_graph(CounterWithState, ROLES, limits=TeamLimits(**limits))()
    await environment.reset(TASK, seed=0)
    return environment, [await environment.call(call) for call in calls]


async def test_the_team_that_was_built_does_the_task_and_each_role_reads_its_own_predecessors():
    actions = [
        add("closer"),
        add("reader"),
        add("critic"),
        add("counter"),
        link("reader", "counter"),
        link("counter", "closer"),
        DONE,
    ]
    read = []

    def act(messages):
        read.append([message.text for message in messages if message.role != "tool"])
        own = sum(message.role == "assistant" for message in messages)
        if messages[0].text.startswith("Build a team"):
            return Message("assistant", "", (actions[own],))
        if messages[0].text.startswith("Say {in} one"):
            return Message("assistant", "{3}")
        if messages[0].text.startswith("Submit."):
            return Message("assistant", "", (Call("submit", {}, "s"),))
        if messages[0].text.startswith("Find fault."):
            return Message("assistant", "None.")
        if own == 0:
            return Message("assistant", "", (Call("add", {"amount": 3}, "a"), Call("submit", {}, "b")))
        return Message("assistant", "Added.")

    reward = Combined(TargetReached(), TeamSize())
    config = RolloutConfig(environment=with_team_graph(CounterWithState, ROLES), reward=reward)
    (trajectory,) = await EpisodeManager(ScriptedPolicy(act, ByteRenderer()), config).collect([TASK])
    assert trajectory.error is None
    assert trajectory.success == 1.0
    assert [(turn.role, turn.row) for turn in trajectory.turns] == [
        *[("builder", 0)] * 7,
        ("reader", 1),
        ("critic", 2),
        ("counter", 3),
        ("counter", 3),
        ("closer", 4),
    ], "the order in which roles were added, but the closer after the counter that it reads"
    assert "- counter: Add what you are told. (tools: add)" in read[0][0]
    assert read[0][1] == "Count to 3."
    assert read[7:] == [
        ["Say {in} one word how far.\n\nCount to 3."],
        ["Find fault.\n\nCount to 3."],
        ["Add what you are told.\n\nCount to 3.\n\nreader says:\n{3}"],
        ["Add what you are told.\n\nCount to 3.\n\nreader says:\n{3}", ""],
        ["Submit.\n\nCount to 3.\n\ncounter says:\nAdded."],
    ]
    statuses = [result.status for result in trajectory.turns[-3].results]
    assert statuses == [ResultStatus.OK, ResultStatus.UNKNOWN_TOOL], "a role has its own tools alone"
    carried_out = [turn.rewards.get("team_action") for turn in trajectory.turns]
    assert carried_out == [1.0] * 7 + [None] * 5, "each action is a turn"
    written = sum(len(turn.token_ids) for turn in trajectory.turns[7:])
    assert trajectory.outcome == {"success": 1.0, "team_roles": 4.0, "team_edges": 2.0, "team_tokens": written}
    assert {trajectory.weights[name] for name in trajectory.weights if name.startswith("team_")} == {0.0}


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ([DONE], "The team has no roles"),
        ([add("boss")], "There is no role 'boss'. Roles: reader, counter, critic, closer."),
        ([add("reader"), add("reader")], "The team already has 'reader'"),
        ([link("reader", "counter")], "The team has no role 'reader'. Add it first. It has: none."),
        ([add("reader"), link("reader", "boss")], "The team has no role 'boss'. Add it first. It has: reader."),
        ([add("reader"), link("reader", "reader")], "would close a circle: reader -> reader."),
        (
            [
                add("reader"),
                add("critic"),
                add("closer"),
                link("reader", "critic"),
                link("critic", "closer"),
                link("closer", "reader"),
            ],
            "would close a circle: reader -> critic -> closer -> reader.",
        ),
        ([add("reader"), add("critic"), link("reader", "critic"), link("reader", "critic")], "already"),
        ([add("reader"), add("critic"), add("closer")], "already has 2 roles"),
        ([add("reader"), DONE, add("critic")], "The team is already built."),
        ([add("reader"), DONE, DONE], "The team is already built."),
        ([Call("add", {"amount": 1}, "a")], "There is no tool named 'add'"),
    ],
)
async def test_what_cannot_be_is_refused_and_the_agent_goes_on(calls, words):
    environment, results = await building(*calls, roles=3 if len(calls) > 4 else 2)
    assert words in results[-1].content
    assert [result.ok for result in results] == [True] * (len(calls) - 1) + [False]
    assert environment.role == "builder"
    (reply,) = await environment.respond(Message("assistant", "Well."))
    assert reply.text == "Call add_role, add_edge or done."


async def test_edges_are_bounded():
    _, results = await building(
        add("reader"),
        add("critic"),
        add("closer"),
        link("reader", "critic"),
        link("reader", "closer"),
        edges=1,
    )
    assert "already has 1 edges" in results[-1].content


async def test_whoever_never_ends_building_wins_nothing():
    player = ScriptedPolicy(lambda messages: Message("assistant", "", (add("reader"),)))
    reward = Combined(TargetReached(), TeamSize())
    config = RolloutConfig(environment=with_team_graph(CounterWithState, ROLES), reward=reward)
    (trajectory,) = await EpisodeManager(player, config).collect([TASK])
    assert trajectory.valid
    assert trajectory.success == 0.0
    assert trajectory.outcome["team_roles"] == 1.0
    actions = [turn.rewards["team_action"] for turn in trajectory.turns]
    assert actions == [1.0] + [0.0] * (len(actions) - 1)


async def test_any_team_that_can_be_built_is_in_an_order_in_which_each_role_has_what_it_reads():
    rng = random.Random(0)
    roles = {f"r{number}": TeamRole("x") for number in range(6)}
    for _ in range(30):
        environment = with_team_graph(CounterWithState, roles)()
        await environment.reset(TASK, seed=0)
        for name in rng.sample([*roles], rng.randrange(1, 7)):
            await environment.call(add(name))
        for _ in range(20):
            await environment.call(link(*rng.choices([*roles], k=2)))
        data = environment.data()
        assert (await environment.call(DONE)).ok
        order = [stage.role for stage in environment._stages]
        assert sorted(order) == sorted(data["roles"])
        assert len(data["edges"]) <= 12
        assert all(order.index(source) < order.index(target) for source, target in data["edges"])


async def test_it_goes_on_from_a_checkpoint_as_it_was_while_it_is_built_and_afterwards():
    make = with_team_graph(CounterWithState, ROLES)
    environment, copy, later = make(), make(), make()
    await environment.reset(TASK, seed=0)
    for call in (add("reader"), add("counter"), link("reader", "counter")):
        await environment.call(call)
    await copy.restore(TASK, await environment.checkpoint(), seed=0)
    assert (copy.role, [*copy.tools]) == ("builder", ["add_role", "add_edge", "done"])
    assert await copy.state_key() == await environment.state_key()
    await copy.call(add("closer"))
    assert await copy.state_key() != await environment.state_key()
    for each in (environment, copy):
        await each.call(DONE)
        each.take_context_change()
        await each.respond(Message("assistant", "3"))
        each.take_context_change()
    await later.restore(TASK, await environment.checkpoint(), seed=0)
    assert (later.role, [*later.tools]) == ("counter", ["add", "submit"]), "the last role ends the episode"
    assert (copy.role, [*copy.tools]) == ("counter", ["add"])
    assert await later.state_key() == await environment.state_key()


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        ({}, "at least one role"),
        ({"task": TeamRole("x")}, "'task' of a pipeline is empty, or is used"),
        ({"builder": TeamRole("x")}, "'builder' of a pipeline is empty, or is used"),
        ({"a b": TeamRole("x")}, "'a b' cannot be used in a prompt"),
    ],
)
def test_roles_that_cannot_be_are_refused_at_once(roles, words):
    with pytest.raises(AgentGymError, match=words):
        with_team_graph(CounterWithState, roles)
    with pytest.raises(ValueError, match=r"TeamLimits\.edges = 0"):
        TeamLimits(edges=0)


async def test_a_role_with_a_tool_that_the_environment_has_not_is_named():
    environment = with_team_graph(CounterWithState, {"pilot": TeamRole("x", tools=("fly",))})()
    with pytest.raises(
        AgentGymError, match=r"'pilot' has the tool 'fly', which the environment does not have. It has: add"
    ):
        await environment.reset(TASK, seed=0)


class Won(Reward):
    """The outcome of `TargetReached` alone: turns that build nothing have no reward."""

    outcome = TargetReached.outcome


@pytest.mark.filterwarnings("ignore::agentgym.credit.CreditWarning")
async def test_hrpo_pays_an_action_for_itself_and_the_team_for_what_it_wins():
    """One team adds a role in vain first: of 3 + 2 actions four are carried out, so 1 - 0.8 and 0 - 0.8. Both win."""
    submit = Message("assistant", "", (Call("submit", {}, "s"),))

    def player(*calls):
        return ScriptedPolicy([*(Message("assistant", "", (call,)) for call in calls), submit])

    task = Task("t", "test/counter-v1", "Count to 0.", parameters={"target": 0}, truth=0)
    reward = Combined(Won(), TeamSize(), weights={"team_action": 1.0})
    config = RolloutConfig(environment=with_team_graph(CounterWithState, ROLES), reward=reward)
    teams = [player(add("boss"), add("closer"), DONE), player(add("closer"), DONE)]
    group = [(await EpisodeManager(policy, config).collect([task]))[0] for policy in teams]
    assert [trajectory.success for trajectory in group] == [1.0, 1.0]
    advantages = estimator("hrpo", scale="none")(Group.from_trajectories(group))
    np.testing.assert_allclose(np.concatenate(advantages), [-0.8, 0.2, 0.2, 0, 0.2, 0.2, 0], atol=1e-12)
