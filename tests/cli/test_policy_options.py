"""Options of a policy on the command line: what a user of a model server sets without writing Python."""

from __future__ import annotations

import pytest

from agentgym.bridges.chat_api import ChatApiPolicy
from agentgym.cli.name_values import NameValueError, options_for
from agentgym.cli.policies import PolicyArgumentError, load_policy
from agentgym.policy import RetryPolicy
from agentgym.registry import load_task_set

POLICY = "chat_api:http://127.0.0.1:9/v1#m"


def read(*pairs):
    return options_for(ChatApiPolicy, pairs, "--policy-option", "the policy chat_api", positional=2)


def test_values_are_read_as_json_or_text_and_dots_reach_into_options():
    assert read(
        "token_field=max_completion_tokens",
        "context_tokens=32768",
        'omit=["seed"]',
        "extra.reasoning_effort=low",
        "extra.chat_template_kwargs.enable_thinking=false",
        "retry_policy.unreached_s=60",
        "retry_policy.attempts=2",
    ) == {
        "token_field": "max_completion_tokens",
        "context_tokens": 32768,
        "omit": ["seed"],
        "extra": {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}},
        "retry_policy": RetryPolicy(unreached_s=60, attempts=2),
    }


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("tokenfield=x", "Did you mean 'token_field'"),
        ("base_url=x", "the policy chat_api has the options call_format, "),
        ("omit", "as NAME=VALUE"),
        ("retry_policy.unreached=1", "The fields are: attempt_s, .*unreached_s"),
        ("retry_policy.unreached_s=-1", "times above 0 s"),
        ("retry_policy.unreached_s=soon", "soon"),
        ("connections.x=1", "which has no fields"),
    ],
)
def test_a_wrong_option_is_refused_with_what_there_is(pair, message):
    with pytest.raises(NameValueError, match=message):
        read(pair)


def test_options_stand_in_the_name_for_records_unless_they_change_no_answer():
    pairs = ["retry_policy.unreached_s=60", "extra.top_k=5"]
    policy, name = load_policy(POLICY, load_task_set("text/number-guess-v1"), pairs=pairs)
    assert isinstance(policy, ChatApiPolicy)
    assert name == f"{POLICY} extra.top_k=5"
    assert policy._endpoint.retry_policy.unreached_s == 60


def test_the_oracle_has_no_options():
    with pytest.raises(PolicyArgumentError, match="the policy 'oracle' has no options"):
        load_policy("oracle", load_task_set("text/number-guess-v1"), pairs=["extra.top_k=5"])
