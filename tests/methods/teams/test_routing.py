"""Other models as a tool: who may be asked, what it costs, and that costs add up to the price list."""

from __future__ import annotations

import asyncio

import pytest

from agentgym import Call, EpisodeManager, Message, Policy, RolloutConfig, ScriptedPolicy, Task
from agentgym.errors import AgentGymError, ContextFull, PolicyError
from agentgym.messages import ResultStatus
from agentgym.methods.teams import ModelPool, PipelineStage, PricedModel, with_delegation, with_pipeline, with_routing
from agentgym.methods.teams.delegation import EXECUTE
from agentgym.policy import Reply
from agentgym.rewards.spent_cost import SpentCost
from agentgym.testing import CounterWithState, TargetReached


class Metered(Policy):
    """Answers with its name, and counts tokens."""

    def __init__(self, name, read=10, written=5):
        self.name, self.read, self.written = name, read, written

    async def generate(self, request):
        if "break" in request.messages[0].text:
            raise PolicyError("no model")
        if "long" in request.messages[0].text:
            raise ContextFull("too long")
        message = Message("assistant", self.name)
        return Reply(message, prompt_tokens=self.read, completion_tokens=self.written)


PRICES = {
    "small": PricedModel("quick", price_in=0.1, price_out=0.4),
    "large": PricedModel("wise", price_in=3.0, price_out=15.0, price_call=0.01),
    "new": PricedModel(price_call=1.0, unseen=True),
}
POOL = ModelPool({name: Metered(name) for name in PRICES}, PRICES)


def task(split="train"):
    return Task("t", "test/counter-v1", "Count to 0.", parameters={"target": 0}, truth=0, split=split)


def ask(model, question="What?"):
    return Call("route", {"model": model, "question": question}, f"ask-{model}-{question}")


async def play(*messages, split="train", **options):
    environment = with_routing(CounterWithState, POOL)
    turns = [*messages, [Call("submit", {}, "s")]]
    script = [Message("assistant", "", tuple(calls)) for calls in turns]
    config = RolloutConfig(environment=environment, reward=TargetReached(), **options)
    (trajectory,) = await EpisodeManager(ScriptedPolicy(script), config).collect([task(split)])
    return trajectory


async def test_costs_add_up_to_the_price_list():
    trajectory = await play([ask("small"), ask("large"), Call("add", {"amount": 0}, "a")], [ask("small", "And?")])
    small, large = (10 * 0.1 + 5 * 0.4) / 1000, (10 * 3.0 + 5 * 15.0) / 1000 + 0.01
    assert [result.content for result in trajectory.turns[0].results] == ["small", "large", "0"]
    assert trajectory.turns[0].usage["cost"] == pytest.approx(small + large, abs=1e-15)
    assert trajectory.usage()["cost"] == pytest.approx(2 * small + large, abs=1e-15)
    assert SpentCost(budget=1.0).outcome(trajectory)["spent_cost"] == pytest.approx(-(2 * small + large))
    assert SpentCost(budget=1e-6).outcome(trajectory) == {"spent_cost": -1.0}
    assert SpentCost().outcome(await play()) == {"spent_cost": 0.0}
    assert trajectory.success == 1.0


async def test_each_call_of_a_message_has_its_own_cost_also_beside_one_that_fails():
    environment = with_routing(CounterWithState, POOL)()
    await environment.reset(task("held_out"), seed=0)
    calls = [ask("small", " "), ask("new"), ask("nobody"), ask("small"), ask("large", "long")]
    results = await asyncio.gather(*map(environment.call, calls))
    assert [result.usage.get("cost") for result in results] == [None, 1.0, None, pytest.approx(0.003), None]
    with pytest.raises(PolicyError):
        await environment.call(ask("small", "break"))
    assert (await environment.call(Call("add", {"amount": 1}, "a"))).usage == {}


async def test_without_a_question_a_model_reads_what_the_task_asks_also_after_a_checkpoint():
    class Echo(Policy):
        async def generate(self, request):
            return Reply(Message("assistant", f"You say: {request.messages[-1].text}"))

    make = with_routing(CounterWithState, ModelPool({"echo": Echo()}, {"echo": PricedModel(price_call=1.0)}))
    environment, copy = make(), make()
    await environment.reset(task(), seed=0)
    await copy.restore(task(), await environment.checkpoint(), seed=0)
    for each in (environment, copy):
        assert (await each.call(Call("route", {"model": "echo"}, "r"))).content == "You say: Count to 0."


async def test_the_agent_reads_who_there_is_and_what_it_costs_and_new_models_only_where_nothing_is_trained():
    trained, held_out = await play([ask("new")]), await play([ask("new")], split="held_out")
    assert trained.turns[0].results[0].status is ResultStatus.WRONG_ARGUMENTS
    assert "cost" not in trained.turns[0].usage
    assert held_out.turns[0].usage["cost"] == 1.0
    about = trained.tools[0]["function"]["description"]
    assert "small (0.1 read, 0.4 written: quick)" in about
    assert "new" not in about


async def test_what_the_agent_does_is_a_result_and_a_model_that_fails_is_not():
    trajectory = await play([ask("small", " "), ask("small", "x" * 5000), ask("large", "long"), ask("nobody")])
    assert [result.ok for result in trajectory.turns[0].results] == [False] * 4
    assert "cost" not in trajectory.turns[0].usage
    assert "too long for large" in trajectory.turns[0].results[2].content
    failed = await play([ask("small", "break")])
    assert "no model" in failed.error
    assert not failed.valid


def test_a_price_list_that_does_not_fit_its_models_is_named():
    with pytest.raises(AgentGymError, match=r"The price list has no model 'b'. It has: a"):
        ModelPool({"a": Metered("a"), "b": Metered("b")}, {"a": PricedModel(price_call=1.0)})
    with pytest.raises(AgentGymError, match="has 'b', but there is no policy"):
        ModelPool({"a": Metered("a")}, {"a": PricedModel(price_call=1.0), "b": PricedModel(price_call=1.0)})
    with pytest.raises(AgentGymError, match="at least one model"):
        ModelPool({}, {})
    for wrong in ({}, {"price_in": -1.0}, {"price_out": float("nan")}):
        with pytest.raises(ValueError, match="prices must be at least 0"):
            PricedModel(**wrong)
    with pytest.raises(ValueError, match="a number above 0"):
        SpentCost(0)


async def test_without_a_model_for_training_a_task_of_training_is_refused():
    pool = ModelPool({"new": Metered("new")}, {"new": PRICES["new"]})
    with pytest.raises(AgentGymError, match="t: every model of the pool is unseen"):
        await with_routing(CounterWithState, pool)().reset(task(), seed=0)


async def test_a_team_may_route_and_its_contexts_and_roles_stay():
    def act(messages):
        own = sum(message.role == "assistant" for message in messages)
        calls = {
            True: [Call("route", {"model": "small", "question": "What?"}, "r"), Call("report", {"text": "done"}, "t")],
            False: [Call("delegate", {"task": "Ask."}, "d"), Call("submit", {}, "s")],
        }
        return Message("assistant", "", (calls[messages[0].text == EXECUTE][own],))

    environment = with_routing(with_delegation(CounterWithState), POOL)
    config = RolloutConfig(environment=environment, reward=TargetReached())
    (trajectory,) = await EpisodeManager(ScriptedPolicy(act), config).collect([task()])
    assert trajectory.error is None
    assert [(turn.role, turn.row) for turn in trajectory.turns] == [
        ("planner", 0),
        ("executor", 1),
        ("executor", 1),
        ("planner", 0),
    ]
    assert trajectory.turns[0].results[0].content == "done"
    assert trajectory.turns[1].usage["cost"] > 0
    assert trajectory.success == 1.0


async def test_two_teams_around_one_another_are_refused_by_name():
    environment = with_delegation(with_pipeline(CounterWithState, [PipelineStage("a", "x"), PipelineStage("b", "y")]))()
    await environment.reset(task(), seed=0)
    await environment.respond(Message("assistant", "on"))
    with pytest.raises(AgentGymError, match="Delegation cannot wrap Pipeline"):
        environment.take_context_change()
