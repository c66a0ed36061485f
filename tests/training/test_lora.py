"""A run that trains a LoRA adapter: as exact, as resumable and as usable afterwards as one that trains every weight."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import lookup_environment  # noqa: F401 - registers the tasks
import pytest
import torch
from lookup_runs import PUSHED, RECIPE, SMALL, assert_equal_weights, execute, kl_of
from safetensors.torch import load_file

from agentgym.cli.policies import load_policy
from agentgym.errors import RecipeError
from agentgym.policy import make_model, make_tokenizer
from agentgym.policy.adapters import ADAPTER
from agentgym.policy.checkpoint import load_checkpoint, save_atomically
from agentgym.policy.local import load as load_transformers_policy
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe

STEPS = {**PUSHED, "steps": 4, "save_every": 2, "keep_checkpoints": 4}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A checkpoint with random weights; no episode earns anything with it."""
    folder = tmp_path_factory.mktemp("base") / "model"
    tokenizer = make_tokenizer(["press the button"], 300)
    save_atomically(make_model(tokenizer, hidden=32, layers=2, heads=2, kv_heads=1), tokenizer, folder)
    return folder


def recipe(path: Path, policy: dict | None = None, **train) -> Recipe:
    data = json.loads(json.dumps(RECIPE | SMALL))
    data["train"] |= train
    data["policy"] = {"path": str(path), "lora": {"rank": 4, "alpha": 8}} | (policy or {})
    return Recipe.parse(data)


@pytest.fixture(scope="module")
def run(base, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("lora") / "run"
    execute(recipe(base, **STEPS), folder)
    return folder


def adapter_weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "checkpoints" / "adapter" / "adapter_model.safetensors")


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=torch.arange(24).reshape(2, 12)).logits


def test_the_distance_from_the_model_without_the_adapter_is_measured(base, run, tmp_path):
    assert RunFolder.existing(run).metrics("train")[0]["kl_from_start"] > 1e-6  # the warm start has moved the adapter
    data = recipe(base, **STEPS).model_dump(exclude_none=True)
    data["warm_start"]["steps"] = 0
    execute(Recipe.parse(data), tmp_path / "run")
    assert RunFolder.existing(tmp_path / "run").metrics("train")[0]["kl_from_start"] == pytest.approx(0.0, abs=1e-9)


def test_the_adapter_alone_is_trained_and_the_final_model_is_the_base_with_it(base, run):
    saved = run / "checkpoints"
    assert sorted(path.name for path in (saved / "warm_start").glob("*.safetensors")) == ["adapter_model.safetensors"]
    assert not (saved / "reference").exists()
    before, _ = load_checkpoint(base, device="cpu")
    final, _ = load_checkpoint(saved / "final", device="cpu")
    adapter, _ = load_checkpoint(saved / "adapter", device="cpu")
    assert torch.equal(final.get_input_embeddings().weight, before.get_input_embeddings().weight)
    assert not torch.allclose(logits(final), logits(before), atol=1e-3)
    assert torch.equal(logits(final), logits(adapter))


def test_the_reference_is_the_warm_start_and_sampling_fits_training(run):
    rows = RunFolder(run).metrics("train")
    assert [row["kl"] for row in rows if row["step"] == 1] == [0.0]
    assert kl_of(run)[4] > 0
    assert max(row["guard/drift"] for row in rows) < 1e-5


@pytest.mark.parametrize(
    "lost",
    ["final adapter checkpoint-4", *(pytest.param(lost, marks=pytest.mark.thorough) for lost in ("final", ""))],
    ids=["midway", "merged", "done"],
)
def test_a_run_that_was_cut_short_ends_with_the_same_weights(base, run, tmp_path, lost):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    for name in lost.split():
        shutil.rmtree(copy / "checkpoints" / name)
    for name in ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "evaluation/after.json"):
        (copy / name).unlink(missing_ok=True)
    execute(recipe(base, **STEPS), copy, resume=True)
    assert_equal_weights(run, copy)
    ours, theirs = adapter_weights(run), adapter_weights(copy)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_an_adapter_is_a_policy_and_a_starting_point(run, tmp_path):
    adapter = run / "checkpoints" / "adapter"
    policy = load_transformers_policy(str(adapter), device="cpu")
    asyncio.run(policy.close())
    final, _ = load_checkpoint(run / "checkpoints" / "final", device="cpu")
    assert torch.equal(logits(policy.model), logits(final))
    chosen = recipe(adapter, steps=1)
    execute(chosen, tmp_path / "next")
    assert kl_of(tmp_path / "next") == {1: 0.0}
    named = json.loads((tmp_path / "next" / "checkpoints" / "adapter" / "adapter_config.json").read_text())
    assert named["base_model_name_or_path"] == str(adapter)
    assert ADAPTER not in named.values()


def test_dropout_is_for_the_imitation_alone(base, tmp_path):
    """The episodes are sampled without it, so with it training would be of another model."""
    execute(recipe(base, {"lora": {"dropout": 0.5}}, steps=1), tmp_path / "run")
    assert RunFolder(tmp_path / "run").metrics("train")[0]["guard/drift"] < 1e-5


def test_a_quantised_model_is_trained_by_its_adapter_and_resumed(base, tmp_path):
    pytest.importorskip("bitsandbytes")
    chosen = recipe(base, {"quantization": "nf4"}, **STEPS | {"steps": 2})
    execute(chosen, tmp_path / "run")
    rows = RunFolder(tmp_path / "run").metrics("train")
    assert rows[0]["kl"] == 0
    assert max(row["guard/drift"] for row in rows) < 1e-4
    final = tmp_path / "run" / "checkpoints" / "final"
    assert (final / "adapter_config.json").is_file()
    agent, _ = load_policy(str(tmp_path / "run"), chosen.tasks.load(), device="cpu")
    assert agent.model.is_quantized
    asyncio.run(agent.close())
    (tmp_path / "run" / "evaluation" / "after.json").unlink()
    execute(chosen, tmp_path / "run", resume=True)


def test_gradient_checkpointing_and_small_parts_give_the_same_adapter(base, run, tmp_path):
    data = recipe(base, **STEPS, microbatch_tokens=300).model_dump(exclude_none=True)
    data["machine"]["gradient_checkpointing"] = True
    data["warm_start"]["microbatch_tokens"] = 200
    execute(Recipe.parse(data), tmp_path / "run")
    start, ours, theirs = (
        logits(load_checkpoint(folder, device="cpu")[0])
        for folder in (base, run / "checkpoints" / "final", tmp_path / "run" / "checkpoints" / "final")
    )
    assert (ours - theirs).abs().max() < 0.05 * (ours - start).abs().max()  # Adam takes the sign of tiny gradients


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            {"lora": {"targets": ["q_proj", "nope"]}},
            "'nope': the model has no linear layer.*Choose from: q_proj, k_proj",
        ),
        ({"lora": {"rank": 0}}, "policy.lora.rank = 0"),
        ({"lora": {"dropout": 1.0}}, "policy.lora.dropout = 1.0"),
        ({"lora": {"rnk": 4}}, "Did you mean 'rank'"),
        ({"lora": None, "quantization": "nf4"}, r"quantization = 'nf4' freezes .*: add \[policy.lora\]"),
        ({"chat_template": "nowhere.jinja"}, "this file does not exist"),
        ({"dtype": "float7"}, "policy.dtype = 'float7'"),
    ],
)
def test_what_cannot_be_is_one_line_before_a_folder_is_written(base, tmp_path, section, message):
    with pytest.raises(RecipeError, match=message) as caught:
        execute(recipe(base, policy=section), tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_tiny_model_takes_no_adapter():
    with pytest.raises(RecipeError, match=r"policy.lora applies only to a model loaded from policy.path"):
        Recipe.parse(json.loads(json.dumps(RECIPE | SMALL)) | {"policy": RECIPE["policy"] | {"lora": {}}})


def test_the_reference_of_an_adapter_does_not_move(base):
    with pytest.raises(RecipeError, match="reset_every"):
        recipe(base, reference={"reset_every": 2})


@pytest.mark.parametrize("shape", [{"layers": 3}, {"layers": 1}, {"hidden": 48}], ids=["deeper", "shallower", "wider"])
def test_an_adapter_of_another_model_is_refused_before_the_run(run, tmp_path, shape):
    """peft fills what fits and leaves the rest random."""
    other = tmp_path / "other"
    tokenizer = make_tokenizer(["press the button"], 300)
    save_atomically(
        make_model(tokenizer, **({"hidden": 32, "layers": 2, "heads": 2, "kv_heads": 1} | shape)), tokenizer, other
    )
    adapter = run / "checkpoints" / "adapter"
    with pytest.raises(RecipeError, match=r"was trained for another model: .*lora_A.* and .* in the model"):
        execute(recipe(adapter, policy={"base": str(other)}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
