"""A protocol over the turns of an episode: as a reward, and as what an agent may sample."""

from __future__ import annotations

import pytest
import torch

from agentgym import (
    Budgets,
    Environment,
    EpisodeManager,
    RolloutConfig,
    Task,
    ToolError,
    Trajectory,
    Turn,
    register,
    tool,
)
from agentgym.errors import PolicyError
from agentgym.messages import Call, Message, StopReason
from agentgym.methods.protocol import Protocol
from agentgym.policy import Hermes, Request, TemplateRenderer, TransformersPolicy, make_model, make_tokenizer
from agentgym.policy.logit_hooks.contract import make_hook
from agentgym.rewards.protocol import ProtocolReward


def episode(*turns: str, stop: StopReason = StopReason.ANSWERED) -> Trajectory:
    """Each turn calls the tool of that name; "" says something, "?" makes a call that cannot be understood."""
    trajectory = Trajectory("e", Task("t", "test/any-v1", "Go."), stop_reason=stop)
    for index, name in enumerate(turns):
        calls = (Call("", error="?"),) if name == "?" else (Call(name),) if name else ()
        trajectory.turns.append(Turn(index, Message("assistant", "Hm.", calls), calls))
    return trajectory


@pytest.mark.parametrize(
    ("formula", "turns", "verdict", "steps"),
    [
        ("U(not submit, test)", ["look", "test", "submit"], 1, [1, 1, 1]),
        ("U(not submit, test)", ["look", "submit", "test"], 0, [1, 0, 1]),
        ("U(not submit, test)", ["?", "test", "", "submit"], 1, [1, 1, 1, 1]),
        ("G(not final)", ["look", ""], 0, [1, 0]),
        ("F(final)", ["look", ""], 1, [1, 1]),
        ("F(final)", ["look", "look"], 0, [1, 1]),
        ("G(implies(submit, WX(False)))", ["submit", "look"], 0, [1, 0]),
    ],
)
def test_the_reward_says_whether_and_where_a_protocol_was_broken(formula, turns, verdict, steps):
    judge, ended = ProtocolReward(formula, ending_tools=["submit"]), episode(*turns)
    assert judge.outcome(ended) == {"protocol": verdict}
    assert [row["protocol_step"] for row in judge.hindsight(ended)] == steps


def test_a_cut_message_is_no_answer():
    assert ProtocolReward("G(not final)").outcome(episode("", stop=StopReason.MAX_TURNS)) == {"protocol": 1.0}
    assert ProtocolReward("G(not final)").outcome(episode("")) == {"protocol": 0.0}


def test_what_is_allowed_leaves_a_way_to_the_end():
    order = Protocol("U(not submit, test) and G(not final)", ending_tools=["submit"])
    tools = ["look", "test", "submit"]
    assert order.allowed(order.start, tools) == (frozenset({"look", "test"}), False)
    tested = order.after([frozenset({"call", "test"})])
    assert order.allowed(tested, tools) == (frozenset(tools), False)
    assert order.allowed(order.start, ["look", "submit"]) == (frozenset(), False)  # nothing tests


class Workshop(Environment):
    """Tools that do nothing, in memory: nothing here needs isolation."""

    @tool
    def look(self) -> str:
        """Look."""
        return "a wall"

    @tool
    def test(self) -> str:
        """Test."""
        raise ToolError("It broke.")

    @tool(final=True)
    def submit(self) -> str:
        """Hand in."""
        return "Thanks."


register("test/protocol-workshop-v1", Workshop)
FORMULAS = [
    "U(not submit, test)",
    "U(not submit, test) and G(not final)",
    "look and G(implies(look, WX(not look)))",
    "G(implies(test, X(submit or look)))",
    "F(test) and F(look) and R(submit or final, not (test and X(test)))",
]


@pytest.fixture(scope="module")
def sampler():
    tokenizer = make_tokenizer(['{"name": "look", "arguments": {}} test submit'] * 20, vocab_size=300)
    torch.manual_seed(3)
    model = make_model(tokenizer, hidden=16, layers=1, heads=1, kv_heads=1).eval()
    bias = torch.zeros(model.config.vocab_size)  # a random model that calls and ends turns often enough to be tested
    renderer = TemplateRenderer(tokenizer, Hermes())
    bias[[tokenizer.convert_tokens_to_ids(token) for token in ("<tool_call>", "</tool_call>", '"}}')]] = 4.0
    bias[renderer.end_of_turn_id] = 3.0
    bias[tokenizer.encode("}", add_special_tokens=False)] = 5.0
    model.lm_head.bias = torch.nn.Parameter(bias)
    return model, renderer


@pytest.mark.parametrize("formula", FORMULAS)
async def test_no_episode_of_a_random_model_breaks_the_protocol(sampler, formula):
    options = {"formula": formula, "ending_tools": ["submit"]}
    policy = TransformersPolicy(*sampler, logit_hook="protocol", logit_hook_options=options)
    manager = EpisodeManager(
        policy, RolloutConfig(reward=ProtocolReward(**options), budgets=Budgets(max_turns=5, max_turn_tokens=48))
    )
    trajectories = await manager.collect([Task("w", "test/protocol-workshop-v1", "Go.")], group_size=8)
    order = Protocol(**options)
    called = 0
    for trajectory in trajectories:
        assert trajectory.valid, trajectory.error
        steps = order.steps(trajectory)
        called += sum(letter is not None for letter in steps)
        if trajectory.stop_reason is StopReason.ANSWERED:
            assert trajectory.outcome["protocol"] == 1.0
        assert all(turn.rewards["protocol_step"] == 1.0 for turn in trajectory.turns)
    assert called >= 8
    await policy.close()


def test_a_protocol_that_nothing_can_keep_is_refused_at_the_first_turn(sampler):
    _, renderer = sampler
    make = make_hook("protocol", renderer, [2], {"formula": "G(not final)"})
    with pytest.raises(PolicyError, match="Name the tools that end an episode in ending_tools"):
        make(Request([Message("user", "Go.")], tools=[{"function": {"name": "look"}}]))
    with pytest.raises(PolicyError, match="'protocol' cannot use its formula: the formula 'G\\(' cannot be read"):
        make_hook("protocol", renderer, [2], {"formula": "G("})


def test_a_conversation_that_broke_the_protocol_goes_on_unrestricted(sampler):
    _, renderer = sampler
    make = make_hook("protocol", renderer, [2], {"formula": "G(not look)"})
    broken = [Message("user", "Go."), Message("assistant", "", (Call("look"),)), Message("tool", "a wall")]
    tools = [{"function": {"name": "look"}}]
    assert make(Request(broken, tools=tools, turn=1)) is None
    assert make(Request(broken, tools=tools, turn=0)) is not None  # an example in the opening is no turn
