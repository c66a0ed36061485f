"""A server by its address, and LoRA: before the first adapter its base model is compared with the one trained here."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import lookup_environment  # noqa: F401 - registers the tasks
import numpy as np
import pytest
import torch
from lookup_runs import RECIPE
from vllm_stand_in import vllm_stand_ins

from agentgym.errors import RecipeError
from agentgym.messages import Message
from agentgym.policy import make_model, make_tokenizer
from agentgym.policy.adapters import new_adapter
from agentgym.policy.load_options import LoraOptions
from agentgym.policy.local import renderer_of
from agentgym.policy.scoring import score
from agentgym.policy.vllm_training import PROMPT, ServedModel, VllmEngine
from agentgym.training import Recipe


@pytest.fixture(scope="module")
def learner():
    """A model with an adapter that has moved, its tokenizer, and what the model without it says of the prompt."""
    tokenizer = make_tokenizer(["press the button", PROMPT], 300)
    renderer = renderer_of(tokenizer, "hermes", {})
    base = make_model(tokenizer, hidden=32, layers=1, heads=2, kv_heads=1)
    base.get_output_embeddings().weight.data.mul_(20)  # else a random model finds all tokens alike
    ids = renderer.prompt([Message("user", PROMPT)], [])
    [logprobs] = score(base.eval(), 0, [(ids[:1], ids[1:])])
    model = new_adapter(base, LoraOptions(rank=2, alpha=512), base="somebody/model", seed=0)
    for name, parameter in model.named_parameters():
        if ".lora_B." in name:
            parameter.data.fill_(0.3)
    [moved] = score(model, 0, [(ids[:1], ids[1:])])
    assert np.mean(np.abs(np.subtract(logprobs, moved))) > 0.3  # so that a comparison with the adapter would fail
    return model, tokenizer, renderer, logprobs


def publish(learner, folder: Path, *scores: Sequence[float] | None, times: int = 1) -> list[list[str]]:
    """Serve the model's adapter on stand-ins that say these log-probabilities. Returns: the requests of each."""
    model, tokenizer, renderer, _ = learner
    logs = [folder / f"log{number}" for number in range(len(scores))]
    settings = [{"log": str(log), "prompt_logprobs": row} for log, row in zip(logs, scores, strict=True)]

    async def serve(urls: list[str]) -> None:
        policy = {"path": "somebody/model", "lora": {"rank": 2}}
        recipe = Recipe.parse(json.loads(json.dumps(RECIPE)) | {"policy": policy, "vllm": {"url": urls}})
        model_of_run = ServedModel(recipe.policy, "cpu", None, recipe.seed, recipe.guard.drift)
        engine = VllmEngine(recipe.vllm, model_of_run, folder, print)
        served = engine.policy(model, tokenizer, renderer)
        try:
            for _ in range(times):
                await served.refresh()
                with torch.no_grad():
                    next(parameter for parameter in model.parameters() if parameter.requires_grad).add_(0.1)
        finally:
            await served.close()
            await engine.close()

    with vllm_stand_ins(*settings) as urls:
        asyncio.run(serve(urls))
    return [[line.split()[0] for line in log.read_text().splitlines()] for log in logs]


def test_the_same_base_model_is_compared_once_and_gets_the_adapters(learner, tmp_path):
    [requests] = publish(learner, tmp_path, learner[3], times=2)
    assert requests.count("/v1/completions") == 1
    assert requests.index("/v1/completions") < requests.index("/v1/load_lora_adapter")
    assert requests.count("/v1/load_lora_adapter") == 2


def test_another_base_model_is_refused_by_the_servers_name_and_loads_no_adapter(learner, tmp_path):
    with pytest.raises(
        RecipeError, match=r"'http://127.*the server's model 'm' is not policy.path = 'somebody/model', the base model"
    ) as caught:
        publish(learner, tmp_path, None)
    assert "\n" not in str(caught.value)
    assert "/v1/load_lora_adapter" not in (tmp_path / "log0").read_text()


def test_one_of_several_servers_with_another_base_model_is_refused(learner, tmp_path):
    with pytest.raises(RecipeError, match=r"guard.drift allows at most 0.2. Restart the server"):
        publish(learner, tmp_path, learner[3], None)
    assert "/v1/load_lora_adapter" not in (tmp_path / "log1").read_text()
