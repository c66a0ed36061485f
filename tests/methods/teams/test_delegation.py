"""A planner and its executors: contexts that share nothing but orders and reports, whatever an executor does."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym import Budgets, Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task
from agentgym.errors import ToolDefinitionError
from agentgym.messages import ResultStatus, StopReason
from agentgym.methods.supply.guided_policy import GuidedPolicy
from agentgym.methods.teams import DelegationLimits, with_delegation
from agentgym.methods.teams.delegation import EXECUTE, MAX_REPORT_CHARS, SAME_ID
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer, CounterWithState, TargetReached

TASK = Task("t", "test/counter-v1", "Count to 3.", parameters={"target": 3}, truth=3)


def say(*calls, text=""):
    calls = (Call(name, arguments, f"c{i}") for i, (name, arguments) in enumerate(calls))
    return Message("assistant", text, tuple(calls))


def team(executor, *, planner=None):
    """A policy that plays both roles: it knows its own by the system message."""
    plan = planner or [
        say(("delegate", {"task": "Add 1."}), ("delegate", {"task": "Add 2."})),
        say(("submit", {})),
    ]

    def act(messages):
        own = sum(message.role == "assistant" for message in messages)
        return executor(messages, own) if messages[0].text == EXECUTE else plan[own]

    return act


def adds(messages, own):
    amount = int(messages[1].text.split()[1].strip("."))
    return [say(("add", {"amount": amount})), say(("report", {"text": f"It stands at {messages[-1].text}."}))][own]


async def play(script, ledger=None, *, limits=None, policy=None, **options):
    options = {"reward": TargetReached(), **options}
    environment = with_delegation(CounterWithState, **({"limits": limits} if limits else {}))
    policy = policy or ScriptedPolicy(script, ByteRenderer())
    config, own = RolloutConfig(environment=environment, **options), {"ledger": ledger} if ledger else {}
    (trajectory,) = await EpisodeManager(policy, config, **own).collect([TASK])
    return trajectory


def text_of(ids):
    return bytes(i for i in ids if i < 256).decode("utf-8", "replace")


async def test_executors_work_one_after_the_other_and_the_planner_reads_their_reports(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    trajectory = await play(team(adds), ledger)
    assert trajectory.success == 1.0
    assert [(turn.role, turn.row) for turn in trajectory.turns] == [
        ("planner", 0),
        ("executor", 1),
        ("executor", 1),
        ("executor", 2),
        ("executor", 2),
        ("planner", 0),
    ]
    assert [row.parent for row in trajectory.further_rows] == [0, 0]
    assert [result.content for result in trajectory.turns[0].results] == ["It stands at 1.", "It stands at 3."]
    stored = ledger.load(trajectory.id)
    ledger.close()
    assert [turn.results for turn in stored.turns] == [turn.results for turn in trajectory.turns]
    assert [turn.observation_ids for turn in stored.turns] == [turn.observation_ids for turn in trajectory.turns]


async def test_no_context_holds_tokens_of_another():
    planner, first, second = (await play(team(adds))).rows()
    read = [text_of(row.arrays().ids.tolist()) for row in (planner, first, second)]
    assert "It stands at 3." in read[0]
    assert "amount" not in read[0]
    assert "Count to 3" not in read[1] + read[2]
    assert "Add 2" not in read[1]
    tools = [[schema["function"]["name"] for schema in row.tools] for row in (planner, first)]
    assert tools == [["delegate", "submit"], ["report", "add", "slow_add", "refuse"]]


@pytest.mark.parametrize("turns", [1, 5])
async def test_the_planners_row_is_as_long_whatever_its_executors_take(turns):
    def slow(messages, own):
        return say(("report", {"text": "done"})) if own == turns else say(("add", {"amount": 0}))

    planner = (await play(team(slow))).rows()[0]
    short = (await play(team(lambda messages, own: say(("report", {"text": "done"}))))).rows()[0]
    assert planner.arrays().ids.tolist() == short.arrays().ids.tolist()


async def test_an_executor_that_never_ends_or_speaks_too_long_is_a_result_for_the_planner():
    endless = await play(team(lambda *_: say(("add", {"amount": 0}))), limits=DelegationLimits(calls=3))
    assert [result.content for result in endless.turns[0].results] == [
        "The executor has used up its 3 calls and reported nothing."
    ] * 2
    assert endless.stop_reason is StopReason.ANSWERED
    plain = await play(team(lambda *_: Message("assistant", "x" * 9000)), budgets=Budgets(max_turn_tokens=10_000))
    assert [result.content for result in plain.turns[0].results] == ["x" * MAX_REPORT_CHARS] * 2
    twice = [say(("report", {"text": "a"}), ("report", {"text": "b"}))]
    trajectory = await play(team(lambda *_: twice[0]))
    statuses = [result.status for result in trajectory.turns[1].results]
    assert statuses == [ResultStatus.BY_PROGRAM, ResultStatus.TOOL_ERROR]


async def test_more_orders_than_are_allowed_are_refused_and_budgets_end_the_whole_team():
    plan = [say(*[("delegate", {"task": "Add 1."})] * 3), say(("delegate", {"task": " "})), say(("submit", {}))]
    trajectory = await play(team(adds, planner=plan), limits=DelegationLimits(tasks=2))
    assert [result.status for result in trajectory.turns[0].results] == [
        ResultStatus.BY_PROGRAM,
        ResultStatus.BY_PROGRAM,
        ResultStatus.TOOL_ERROR,
    ]
    assert len(trajectory.further_rows) == 2
    cut = await play(team(adds), budgets=Budgets(max_turns=2))
    assert (cut.stop_reason, len(cut.turns), cut.turns[0].observation_ids) == (StopReason.MAX_TURNS, 2, [])
    assert cut.arrays().row_starts[1:]
    with pytest.raises(ValueError, match=r"DelegationLimits.calls = 0"):
        DelegationLimits(calls=0)


async def test_a_failure_in_an_executors_turn_is_tried_again_from_its_checkpoint():
    failures = [ConnectionError("the counter is gone")]

    class Failing(CounterWithState):
        async def call(self, call):
            if call.name == "add" and self.value == 1 and failures:
                raise failures.pop()
            return await super().call(call)

    environment = with_delegation(Failing)
    config = RolloutConfig(environment=environment, reward=TargetReached())
    (trajectory,) = await EpisodeManager(ScriptedPolicy(team(adds), ByteRenderer()), config).collect([TASK])
    assert (trajectory.success, trajectory.error, len(trajectory.provenance.retries)) == (1.0, None, 1)
    assert [turn.row for turn in trajectory.turns] == [0, 1, 1, 2, 2, 0]


async def test_a_role_may_have_a_frozen_policy_of_its_own():
    planner = ScriptedPolicy(team(adds), ByteRenderer())
    executor = ScriptedPolicy(team(adds))
    executor.name = "helper"
    trajectory = await play(None, policy=GuidedPolicy(planner, executor, lambda request: request.role == "executor"))
    assert trajectory.success == 1.0
    assert [turn.policy for turn in trajectory.turns] == ["", *["helper"] * 4, ""]
    assert np.isfinite(trajectory.arrays().logprobs).all()


async def test_a_tool_of_the_environment_with_the_name_of_one_of_the_teams_is_named():
    class Reporter(CounterWithState):
        pass

    Reporter.tools = {**CounterWithState.tools, "report": CounterWithState.tools["add"]}
    with pytest.raises(ToolDefinitionError, match="Reporter has a tool 'report'"):
        await with_delegation(Reporter)().reset(TASK, seed=0)


async def test_calls_to_tools_that_there_are_not_use_up_an_executors_calls():
    plan = [say(("delegate", {"task": "Add 1."})), say(("submit", {}))]
    lost = await play(team(lambda *_: say(("fly", {})), planner=plan), limits=DelegationLimits(calls=2))
    assert "has used up its 2 calls" in lost.turns[0].results[0].content
    assert (lost.stop_reason, len(lost.turns)) == (StopReason.ANSWERED, 4)


async def test_an_episode_that_ends_in_an_executors_context_is_whole_in_the_ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    trajectory = await play(team(adds), ledger, budgets=Budgets(max_turns=3))
    stored = ledger.load(trajectory.id)
    ledger.close()
    assert [(turn.index, turn.row, turn.results) for turn in stored.turns] == [
        (turn.index, turn.row, turn.results) for turn in trajectory.turns
    ]


async def test_an_order_that_is_refused_for_its_id_does_not_count():
    orders = [Call("delegate", {"task": f"Add {n}."}, each) for n, each in enumerate(("x", "x", "y"))]
    plan = [Message("assistant", "", tuple(orders)), say(("submit", {}))]
    trajectory = await play(team(adds, planner=plan), limits=DelegationLimits(tasks=2))
    assert [result.ok for result in trajectory.turns[0].results] == [True, False, True]


async def test_two_orders_with_one_id_do_not_share_a_report():
    orders = [Call("delegate", {"task": f"Add {n}."}, "x") for n in (1, 2)]
    trajectory = await play(team(adds, planner=[Message("assistant", "", tuple(orders)), say(("submit", {}))]))
    contents = [result.content for result in trajectory.turns[0].results]
    assert contents == ["It stands at 1.", SAME_ID]
    assert len(trajectory.further_rows) == 1
