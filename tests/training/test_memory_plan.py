"""A plan of memory counts what autograd really keeps, follows the recipe, and stops a run that cannot fit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from lookup_runs import PUSHED, RECIPE, SMALL, execute
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.errors import RecipeError
from agentgym.policy.tiny import make_model, make_tokenizer
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe
from agentgym.training.checks import memory_plan
from agentgym.training.checks.memory_plan import MemoryPlan, memory_note, plan_memory


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A checkpoint of a small model."""
    path = tmp_path_factory.mktemp("model")
    tokenizer = make_tokenizer(["the red box holds seven coins"], vocab_size=300)
    make_model(tokenizer, hidden=64, layers=3, heads=4, kv_heads=2, head_dim=16).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def recipe_of(folder: Path, **changes: dict) -> Recipe:
    data = json.loads(json.dumps(RECIPE))
    data["policy"] = {"path": str(folder)}
    for section, keys in changes.items():
        data[section] = {**data.get(section, {}), **keys}
    return Recipe.parse(data)


def plan_of(folder: Path, *, prompt_tokens: int = 512, **changes: dict) -> MemoryPlan:
    return plan_memory(recipe_of(folder, **changes), device="cpu", available=1e12, prompt_tokens=prompt_tokens)


def test_activations_are_those_that_autograd_keeps_of_the_real_model(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).train()
    ids, saved = torch.zeros(4, 128, dtype=torch.long), {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if (address := tensor.untyped_storage().data_ptr()) not in weights:
            saved[address] = tensor
        return tensor

    mask = torch.ones_like(ids)
    mask[0, 0] = 0  # as in a padded batch: each head of the queries then has keys and values of its own
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    real = sum(tensor.untyped_storage().nbytes() for tensor in saved.values())
    one_row = {"episode": {"max_episode_tokens": 412}, "train": {"microbatch_tokens": ids.numel()}}
    planned = plan_of(folder, prompt_tokens=100, **one_row).training["activations"]
    assert planned == pytest.approx(
        real * (1 + 1 / 3), rel=0.1
    )  # the mask apart; one of three layers again, as backward's scratch


def test_frozen_weights_are_planned_in_the_dtype_in_which_they_are_loaded(folder, tmp_path):
    """On a processor that is float32, whatever the checkpoint has; on a GPU it is the checkpoint's."""
    AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).save_pretrained(tmp_path)
    recipe = recipe_of(tmp_path, policy={"lora": {"rank": 1}})
    on_cpu, on_gpu = (
        plan_memory(recipe, device=device, available=1e12).always["weights"] for device in ("cpu", "cuda")
    )
    assert on_cpu == pytest.approx(2 * on_gpu, rel=0.05), "apart from the adapter"


def test_a_plan_follows_the_recipe(folder):
    plain = plan_of(folder, train={"microbatch_tokens": 1000})
    size = sum(parameter.nbytes for parameter in AutoModelForCausalLM.from_pretrained(folder).parameters())
    assert plain.always["weights"] == plain.training["gradients"] == size
    assert plain.training["gaps of the allocator"] == plain.training["activations"]
    alone = plan_of(folder, train={"microbatch_tokens": 100_000})  # one part: its gradients follow its activations
    assert alone.training["gradients"] == max(0.0, size - alone.training["activations"]) < alone.gradients == size
    assert plain.always["optimiser"] == 2 * size
    words = AutoModelForCausalLM.from_pretrained(folder).config.vocab_size
    assert plain.training["gradient of the output layer"] == 4 * words * 64, "of 64 features, in float32"
    double = plan_of(folder, train={"microbatch_tokens": 2000})
    assert plain.training["activations"] < double.training["activations"] < 2.1 * plain.training["activations"]
    sparing = plan_of(folder, train={"microbatch_tokens": 1000}, machine={"gradient_checkpointing": True})
    assert sparing.training["activations"] < 0.7 * plain.training["activations"]
    lora = plan_of(folder, policy={"path": str(folder), "lora": {"rank": 4}}, train={"microbatch_tokens": 1000})
    assert lora.training["gradients"] < 0.3 * size < lora.always["weights"]
    assert "gradient of the output layer" not in lora.training
    assert lora.training["activations"] < plain.training["activations"]
    assert plan_of(folder, train={"kl": 0.1}).always["reference"] == size
    assert plan_of(folder, train={"reference": {"kind": "fixed"}}).always["reference"] == size
    assert (
        plan_of(folder, train={"parts": {"teacher": {"path": str(folder)}}, "terms": {"teacher_kl": {}}}).always[
            "teacher"
        ]
        == size
    )
    on_gpu = plan_memory(recipe_of(folder), device="cuda", available=1e12)
    assert on_gpu.training["weights in bfloat16"] == size / 2
    saved = sum(plain.always.values())
    assert plain.peak == saved + max(sum(plain.training.values()), sum(plain.sampling.values()))
    assert plain.fixed == saved + size


@pytest.mark.parametrize(
    ("changes", "is_shared", "tokens", "scored"),
    [
        ({}, True, 512 + 4 * 96, 4 * 96),  # a group, whose prompt is computed once
        ({"episode": {"max_turns": 2, "max_turn_tokens": 16}}, True, 512 + 4 * 96, 4 * 2 * 16),
        ({}, False, 512 + 96, 96),
        ({"train": {"microbatch_tokens": 100}}, True, 512 + 96, 96),
        ({"train": {"microbatch_tokens": 10_000}}, True, 2 * 512 + 8 * 96, 8 * 96),  # the whole step
    ],
)
def test_the_largest_part_of_a_step_is_that_of_the_longest_episodes(folder, changes, is_shared, tokens, scored):
    changes = {**changes, "train": {"microbatch_tokens": 1200, **changes.get("train", {})}}
    recipe = recipe_of(folder, **changes)
    part = memory_plan._largest_part(recipe.train, recipe.episode, 512, 1, is_shared=is_shared)
    assert (part.tokens, part.scored) == (tokens, scored)


def test_sharding_divides_weights_gradients_and_optimiser_by_the_processes(folder):
    """Of three layers of L bytes and ends of E, each of four processes has (3 L + E) / 4, and gathers 2 L + E."""
    changes = {"train": {"microbatch_tokens": 1000, "kl": 0.1}, "vllm": {}}
    unsharded = plan_memory(recipe_of(folder, **changes), device="cuda", available=1e12, processes=4)
    sharded_recipe = recipe_of(folder, **changes, machine={"sharding": "fsdp"})
    sharded = plan_memory(sharded_recipe, device="cuda", available=1e12, processes=4)
    model = AutoModelForCausalLM.from_pretrained(folder)
    layer = sum(parameter.nbytes for parameter in model.model.layers[0].parameters())
    size = sum(parameter.nbytes for parameter in model.parameters())
    assert unsharded.always["weights"] == size  # DDP has all of it in each process
    assert sharded.always == {
        "process": unsharded.always["process"],
        "weights": size / 4,
        "optimiser": 2 * size / 4,
        "reference": size / 4,
    }
    assert sharded.training["gradients"] == size / 4
    assert sharded.training["weights gathered"] == size - layer
    assert sharded.training["reference gathered"] == size
    assert sharded.training["activations"] < unsharded.training["activations"]  # a row alone: no prompt is shared
    on_cpu = plan_memory(sharded_recipe, device="cpu", available=1e12, processes=4)
    assert on_cpu.always["whole copy, of the first process"] == size
    assert plan_memory(sharded_recipe, device="cuda", available=1e12).always == unsharded.always


def test_where_a_server_samples_its_keys_and_values_are_not_planned_here(folder):
    alone = plan_of(folder)
    served = plan_memory(recipe_of(folder, vllm={}), device="cpu", available=1e12)
    assert (served.always, served.training, served.sampling) == (alone.always, alone.training, {})


def test_an_optimiser_in_8_bits_trains(tmp_path):
    data = json.loads(json.dumps(RECIPE | SMALL))
    data["train"] |= {**PUSHED, "steps": 2, "trl": {"weight_decay": 0.5, "optim": "adamw_bnb_8bit"}}
    execute(Recipe.parse(data), tmp_path / "run")
    assert max(row["kl"] for row in RunFolder(tmp_path / "run").metrics("train")) > 0  # the weights moved


def test_a_model_that_cannot_fit_is_refused_before_a_folder_is_written(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(memory_plan, "available_bytes", lambda device: 1e6)
    with pytest.raises(
        RecipeError, match=r"does not fit into memory: it takes .* GB \(process .*weights .*are free. Train an adap"
    ):
        execute(recipe_of(folder), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_plan_beyond_the_free_memory_is_said_in_one_line(folder, monkeypatch):
    note, fits = memory_note(recipe_of(folder))
    assert fits
    assert re.fullmatch(r"Memory: about [\d.]+ GB at the peak, and [\d.]+ GB are free\.", note)
    plan = plan_of(folder)
    monkeypatch.setattr(memory_plan, "available_bytes", lambda device: (plan.fixed + plan.peak) / 2)
    note, fits = memory_note(recipe_of(folder))
    assert not fits
    assert "\n" not in note
    assert "lower train.microbatch_tokens" in note


def test_a_hub_model_is_planned_by_its_configuration_alone(folder, tmp_path, monkeypatch):
    """It is in the cache of the hub, without weights."""
    model = tmp_path / "models--owner--small"
    (model / "snapshots" / "1").mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("1")
    (model / "snapshots" / "1" / "config.json").write_bytes((folder / "config.json").read_bytes())
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(memory_plan, "available_bytes", lambda device: 1e12)  # what is free differs between two calls
    assert memory_note(recipe_of(Path("owner/small"))) == memory_note(recipe_of(folder))
    assert memory_note(recipe_of(Path("owner/unknown"))) is None


def test_the_command_prints_a_table_and_ends_with_1_where_it_does_not_fit(folder, tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text(recipe_of(folder).to_toml())
    arguments = ["model", "plan", str(file)]
    fits = CliRunner().invoke(app, [*arguments, "--gpu", "80"])
    assert fits.exit_code == 0, fits.output
    assert "activations" in fits.output
    assert max(map(len, fits.output.splitlines())) <= 80
    large = ["--set", "train.microbatch_tokens=100000000", "--set", "train.tasks_per_step=256"]
    tight = CliRunner().invoke(app, [*arguments, "--gpu", "1", *large, "--json"])
    assert tight.exit_code == 1
    plan = json.loads(tight.output)
    assert plan["peak"] > plan["available"] == 1e9


def test_a_tiny_model_that_is_not_made_yet_is_planned_by_its_shape():
    recipe = Recipe.parse(json.loads(json.dumps(RECIPE)))
    tokenizer = make_tokenizer(["press the button"], vocab_size=recipe.policy.tiny.vocabulary)
    shape = recipe.policy.tiny.model_dump(exclude={"vocabulary"})
    parameters = sum(tensor.numel() for tensor in make_model(tokenizer, **shape).parameters())
    unused = recipe.policy.tiny.vocabulary - len(tokenizer)  # the texts offer no more tokens
    planned = plan_memory(recipe, device="cpu", available=1e12).always["weights"]
    assert planned == 4 * (parameters + unused * recipe.policy.tiny.hidden)


def test_the_copy_with_the_adapter_merged_is_planned_where_the_run_samples_itself(folder):
    """In float32: the weights that the adapter changes, once more."""
    lora = {"rank": 2, "targets": ["q_proj", "v_proj"]}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    attentions = [layer.self_attn for layer in model.model.layers]
    adapted = [weight for own in attentions for weight in (own.q_proj.weight, own.v_proj.weight)]
    copied = sum(weight.nbytes for weight in adapted)
    assert plan_of(folder, policy={"path": str(folder), "lora": lora}).always["copy that samples"] == copied
    assert "copy that samples" not in plan_of(folder).always
