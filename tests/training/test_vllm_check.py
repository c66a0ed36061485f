"""What a recipe's [vllm] must be able to do is found out before anything is loaded, and said in one line."""

from __future__ import annotations

import json

import pytest
from lookup_runs import RECIPE
from model_server import Answer, serving
from planned import check_parts_of

from agentgym.errors import RecipeError
from agentgym.policy.vllm_check import check_vllm
from agentgym.training import Recipe

WEIGHTS = {"/pause": {}, "/collective_rpc": {}, "/reset_prefix_cache": {}, "/resume": {}}
ADAPTERS = {"/v1/load_lora_adapter": {}, "/v1/unload_lora_adapter": {}}
MODELS = {"data": [{"id": "adapter", "parent": "base"}, {"id": "base", "max_model_len": 4096}]}


def recipe(vllm: dict, **policy) -> Recipe:
    data = json.loads(json.dumps(RECIPE)) | {"vllm": vllm}
    if policy:
        data["policy"] = {"path": "somebody/model", **policy}
    return Recipe.parse(data)


def likeliest(logprob: float):
    return {"choices": [{"logprobs": {"top_logprobs": [{"a": logprob}]}}]}


def sampled(token: int, logprob: float):
    return {"choices": [{"token_ids": [token], "logprobs": {"token_logprobs": [logprob]}}]}


def check(recipe: Recipe) -> None:
    check_vllm(recipe.vllm, recipe.policy, recipe.episode.max_episode_tokens)


@pytest.mark.parametrize(
    ("vllm", "message"),
    [
        ({}, "has no vLLM. Install the extra vllm"),
        ({"python": "/nowhere/python"}, "cannot be run"),
        ({"python": "/bin/false"}, "is not a Python interpreter"),
        ({"url": "http://127.0.0.1:9"}, "no vLLM server answers at this address"),
        ({"url": "no address"}, "no vLLM server answers at this address"),
    ],
)
def test_a_vllm_that_is_not_there(vllm, message):
    with pytest.raises(RecipeError, match=message) as caught:
        check(recipe(vllm))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("vllm", "message"),
    [
        ({"url": "http://h", "python": "python"}, "python applies to a server that the run starts"),
        ({"model": "base"}, "give its url"),
    ],
)
def test_keys_of_a_started_and_of_a_running_server_do_not_mix(vllm, message):
    with pytest.raises(RecipeError, match=message):
        recipe(vllm)


def test_what_does_not_go_together_with_it():
    data = json.loads(json.dumps(RECIPE)) | {"vllm": {}}
    data["train"]["generation"] = "trl"
    with pytest.raises(RecipeError, match=r"leave out train\.generation"):
        check_parts_of(Recipe.parse(data))
    with pytest.raises(RecipeError, match=r"policy\.quantization = 'nf4'"):
        check(recipe({}, quantization="nf4", lora={}))


@pytest.mark.parametrize(
    ("answers", "vllm", "policy", "message"),
    [
        ([{"version": "0.9.2"}], {}, {}, "has vLLM 0.9.2, which is too old. Install 0.22 or newer"),
        ([{"version": "0.32.0"}, {"paths": ADAPTERS}], {}, {}, "does not offer /pause.*VLLM_SERVER_DEV_MODE=1"),
        ([{"version": "0.32.0"}, {"paths": WEIGHTS}], {}, {"lora": {}}, "does not offer /v1/load_lora.*--enable-lora"),
        ([{"version": "0.32.0"}, {"paths": WEIGHTS}, MODELS], {"model": "bas"}, {}, "It serves: 'adapter', 'base'"),
        ([{"version": "0.32.0"}, {"paths": WEIGHTS}, {"data": []}], {}, {}, "lists no model"),
        (
            [{"version": "0.32.0"}, {"paths": WEIGHTS}, {"data": [{"id": "base", "max_model_len": 64}]}],
            {},
            {},
            "has 64 tokens.*episode.max_episode_tokens = 96.*--max-model-len",
        ),
        (
            [{"version": "0.32.0"}, {"paths": WEIGHTS}, MODELS, MODELS, likeliest(-1.0), likeliest(-1.0)],
            {},
            {},
            "--logprobs-mode processed_logprobs",
        ),
        (
            [{"version": "0.32.0"}, {"paths": WEIGHTS}, MODELS, MODELS, {}],
            {},
            {},
            "the server failed to complete a prompt of one",
        ),
        (
            [{"version": "0.32.0"}, {"paths": WEIGHTS}, MODELS, MODELS, sampled(5, -1.0)],
            {},
            {"logit_hook": "known_tools"},
            "does not apply the masks of logit hooks.*--logits-processors agentgym.policy.vllm_plugin:GrammarMasks",
        ),
        ([Answer("no", 401)], {}, {}, "401"),
    ],
)
def test_a_server_that_cannot_train_is_refused_with_the_remedy(answers, vllm, policy, message):
    with serving(*answers) as server, pytest.raises(RecipeError, match=message) as caught:
        check(recipe({"url": server.url, **vllm}, **policy))
    assert "\n" not in str(caught.value)


def test_a_server_that_can_is_accepted():
    answers = [{"version": "0.32.0"}, {"paths": WEIGHTS | ADAPTERS}, MODELS, MODELS, likeliest(-1.0), likeliest(-0.2)]
    with serving(*answers) as server:
        check(recipe({"url": server.url}, lora={}))
    with serving(*answers[:4], sampled(0, 0.0), *answers[4:]) as server:
        check(recipe({"url": server.url}, lora={}, logit_hook="known_tools"))
