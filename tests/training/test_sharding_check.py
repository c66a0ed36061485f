"""Weights are sharded only where a server samples and nothing needs a whole model; else one line says why not."""

from __future__ import annotations

import json
import os

import pytest
from lookup_runs import RECIPE
from planned import check_parts_of

from agentgym.errors import RecipeError
from agentgym.training import Recipe
from agentgym.training.checks.parts import check_launch
from agentgym.training.processes import Processes
from agentgym.training.stages.plan import planned_stages

TWO = Processes(0, 2)
SERVED = {"vllm": {"url": "http://127.0.0.1:9"}, "machine": {"device": "cpu", "sharding": "fsdp"}}


def check(processes: Processes = TWO, **sections: object) -> None:
    data = json.loads(json.dumps(RECIPE | SERVED))
    for name, section in sections.items():
        if section is None:
            del data[name]
        elif isinstance(section, dict):
            data[name] = {**data.get(name, {}), **section}
        else:
            data[name] = section
    recipe = Recipe.parse(data)
    check_launch(planned_stages(recipe), recipe.tasks.load(), processes)
    check_parts_of(recipe, processes=processes.count)


def test_several_processes_may_shard_what_a_server_samples():
    check()
    check(train={"estimator": "reinforce_pp | entropy_weighted()", "kl": 0.1, "trl": {"optim": "sgd"}})
    check(policy={"tiny": None, "path": "model", "lora": {}})
    check(Processes(0, 1), machine={"sharding": None})


@pytest.mark.parametrize(
    ("sections", "reason"),
    [
        ({"vllm": None}, r"sharding = 'fsdp' leaves no process with a whole model to sample from.*\[vllm\]"),
        ({"processes": Processes(0, 1)}, "and this is one. Start them with `torchrun"),
        ({"policy": {"tiny": None, "path": "m", "quantization": "nf4", "lora": {}}}, "policy.quantization = 'nf4'"),
        ({"train": {"estimator": "turn_gae"}}, "'turn_gae' requires values, which the first process computes"),
        (
            {"train": {"estimator": "rloo | rank_shaped()"}},
            "requires rank_deviations, which the first process computes",
        ),
        (
            {"train": {"estimator": "rloo | flow_tokens()"}},
            "requires flow_deviations, which the first process computes",
        ),
        ({"train": {"estimator": "hcapo"}}, "Set train.signals.hindsight = 'prompted'"),
        ({"train": {"trl": {"optim": "adafactor"}}}, "optim = 'adafactor' has not been run"),
        ({"train": {"trl": {"fp16": True}}}, "fp16 has not been run"),
        ({"train": {"trl": {"fsdp": True}}}, r"\[train.trl\] fsdp is not supported: set machine.sharding"),
        ({"train": {"trl": {"deepspeed": "zero.json"}}}, "DeepSpeed.*machine.sharding = 'fsdp'"),
        ({"warm_start": {"optimizer": "muon"}}, "'muon' needs whole matrices"),
        (
            {"stage": [{"kind": "collect"}, {"kind": "outcome_head", "options": {"episodes": ["collect"]}}]},
            "'outcome_head' trains a model that is whole",
        ),
    ],
)
def test_what_cannot_be_sharded_is_refused_with_the_reason_and_the_remedy(sections, reason):
    with pytest.raises(RecipeError, match=reason):
        check(**sections)


@pytest.mark.parametrize(
    ("variable", "remedy"),
    [("ACCELERATE_USE_FSDP", "Set machine.sharding = 'fsdp'"), ("ACCELERATE_USE_DEEPSPEED", "machine.sharding")],
)
def test_a_launcher_that_shards_what_the_recipe_does_not_is_refused(monkeypatch, variable, remedy):
    monkeypatch.setitem(os.environ, variable, "true")
    with pytest.raises(RecipeError, match=remedy):
        check(machine={"sharding": None})
