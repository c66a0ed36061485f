"""How objects are described for the identity of what was played."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from agentgym import Combined, Gate, Message, Policy, Reward, RolloutConfig, Schedule, ScriptedPolicy
from agentgym.bridges.chat_api import ChatApiPolicy
from agentgym.storage.identity import describe, identity_of_policy
from agentgym.testing import TargetReached


def judge(messages):
    return ""


class Tuned(Policy):
    """A policy of a user's, which says nothing of its identity."""

    name = "tuned"

    def __init__(self, model, bias, api_key):
        self.model, self._bias, self.api_key = model, bias, api_key


class Priced(Reward):
    """Keeps one argument privately, one under its name, and one not at all."""

    def __init__(self, price, model_key, lost=3, *, part=None):
        self._price, self.model_key, self.part = price, model_key, part
        self.calls = 0


def test_a_reward_is_its_class_and_the_arguments_that_it_keeps_without_secrets_and_state():
    reward = Priced(2.5, "sk-secret", part=partial(judge, length=3))
    reward.calls = 7
    assert describe(reward) == {
        "class": "Priced",
        "price": 2.5,
        "part": {"function": "judge", "arguments": [], "length": 3},
    }


def test_a_combination_is_described_as_it_was_given_whatever_the_progress_of_the_training():
    def combination():
        schedules = {"success": Schedule(1.0, 0.0)}
        return Combined(TargetReached(), weights={"success": 2.0}, schedules=schedules, gates=[Gate("success", 1.0)])

    combined = combination()
    before = describe(combined)
    combined.set_progress(0.5)
    assert describe(combined) == before == describe(combination())
    assert before["weights"] == {"success": 2.0}
    assert before["schedules"]["success"]["end"] == 0.0


def test_what_goes_in_circles_is_described_up_to_a_depth():
    @dataclass
    class Node:
        next: object = None

    node = Node()
    node.next = node
    text = str(describe(node))
    assert text.count("Node") < 10


def test_a_policy_is_its_name_and_what_decides_its_answers():
    assert identity_of_policy(ScriptedPolicy(judge, name="player")) == {"name": "player", "script": "judge"}
    lines = [identity_of_policy(ScriptedPolicy(script)) for script in ("a", ["a"], ["a", "b"], [Message("user", "a")])]
    assert lines[0] == lines[1]
    assert len({line["script"] for line in lines}) == 3
    assert identity_of_policy(Policy()) == {"name": "policy", "class": "Policy"}
    assert identity_of_policy(ScriptedPolicy(judge), "mine") == {"name": "mine", "script": "judge"}
    assert identity_of_policy(lambda task: ScriptedPolicy([]), "oracle") == {"name": "oracle"}
    assert identity_of_policy(judge) == {"made_by": "judge"}
    own = Tuned("a", 0.5, "secret")
    assert identity_of_policy(own) == {"name": "tuned", "model": "a", "bias": 0.5}
    patient = ChatApiPolicy("http://127.0.0.1:1", "m", extra={"effort": "low"}, connections=3)
    elsewhere = ChatApiPolicy("http://127.0.0.2:1", "m", extra={"effort": "low"})
    assert describe(patient) == describe(elsewhere)
    assert describe(patient)["extra"] == {"effort": "low"}


def test_the_config_leaves_out_where_and_how_fast_episodes_are_played():
    here = RolloutConfig(environment="agentgym/sql-v1", concurrency=1, group_size=2, backend="docker")
    there = RolloutConfig(environment="http://10.0.0.7:8650/agentgym/sql-v1", state_keys=False)
    assert describe(here.identity()) == describe(there.identity())
    assert RolloutConfig(environment="http://10.0.0.7:8650/").identity()["environment"] is None
    assert here.identity()["max_turns"] == 16
    assert RolloutConfig().identity()["temperature"] == 1.0


def test_sets_are_in_order():
    assert describe({"omit": frozenset({"b", "a", "c"})}) == {"omit": ["a", "b", "c"]}
