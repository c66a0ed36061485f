"""A pretrained model at a learning rate for models from scratch: said before the start, with what to set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lookup_runs import RECIPE

from agentgym.policy.tiny import make_configuration
from agentgym.training import Recipe
from agentgym.training.checks.learning_rates import learning_rate_notes
from agentgym.training.stages.plan import planned_stages


def folder_of(path: Path, *, hidden: int, vocabulary: int) -> Path:
    """Return a checkpoint's folder whose weights nobody reads."""
    shape = {"layers": 1, "heads": 4, "kv_heads": 2, "head_dim": 16}
    make_configuration(vocabulary, hidden=hidden, **shape).save_pretrained(path)
    (path / "model.safetensors").touch()
    return path


def notes_of(path: object, *, lora: bool = False, **changes: dict) -> list[str]:
    data = json.loads(json.dumps(RECIPE))
    data["policy"] = {"path": str(path)} | ({"lora": {"rank": 4}} if lora else {})
    for section, keys in changes.items():
        data[section] = {**data.get(section, {}), **keys}
    return learning_rate_notes(planned_stages(Recipe.parse(data)))


def test_the_defaults_are_warned_of_with_the_key_the_value_and_what_to_set(tmp_path):
    large = folder_of(tmp_path, hidden=1024, vocabulary=60_000)
    notes = notes_of(large, warm_start={"learning_rate": 2e-3}, train={"steps": 2, "optimiser": {}})
    assert [note.partition(" is a")[0] for note in notes] == [
        "warm_start.learning_rate = 0.002",
        "train.optimiser.learning_rate = 0.0003",
    ]
    assert "a pretrained model of 71 M parameters forgets" in notes[0]
    assert notes[1].endswith("Set 1e-06 to 2e-05.")
    assert not any("\n" in note for note in notes)


@pytest.mark.parametrize(
    ("lora", "imitation", "reinforcement", "count"),
    [(False, 3e-4, 2e-5, 0), (False, 3e-4, 1e-4, 1), (True, 5e-4, 3e-4, 0), (True, 2e-3, 1e-3, 2)],
)
def test_an_adapter_takes_more(tmp_path, lora, imitation, reinforcement, count):
    large = folder_of(tmp_path, hidden=1024, vocabulary=60_000)
    train = {"steps": 2, "optimiser": {"learning_rate": reinforcement}}
    assert len(notes_of(large, lora=lora, warm_start={"learning_rate": imitation}, train=train)) == count


def test_a_hub_model_counts_as_pretrained_and_a_small_one_does_not(tmp_path):
    rates = {"warm_start": {"learning_rate": 2e-3}, "train": {"steps": 2, "optimiser": {}}}
    assert len(notes_of("nobody/some-model", **rates)) == 2
    assert notes_of(folder_of(tmp_path, hidden=64, vocabulary=300), **rates) == []


def test_stages_are_warned_of_by_their_names_and_only_where_they_train(tmp_path):
    large = folder_of(tmp_path, hidden=1024, vocabulary=60_000)
    data = json.loads(json.dumps(RECIPE))
    data["policy"] = {"path": str(large)}
    data["train"]["steps"] = 0
    data["warm_start"] = {**data.get("warm_start", {}), "steps": 0, "learning_rate": 2e-3}
    assert learning_rate_notes(planned_stages(Recipe.parse(data))) == []


@pytest.mark.parametrize("recipe", sorted(Path("recipes").glob("*.toml")), ids=lambda path: path.stem)
def test_no_bundled_recipe_is_warned_of(recipe, tmp_path):
    loaded = Recipe.load(recipe)
    if loaded.policy.path is None:
        assert learning_rate_notes(planned_stages(loaded)) == []
    else:
        pretrained = loaded.policy.model_copy(update={"path": "nobody/some-model"})
        assert learning_rate_notes(planned_stages(loaded.model_copy(update={"policy": pretrained}))) == []


def test_a_named_stage_is_named(tmp_path):
    large = folder_of(tmp_path, hidden=1024, vocabulary=60_000)
    data = json.loads(json.dumps(RECIPE)) | {"policy": {"path": str(large)}}
    data["stage"] = [{"kind": "reinforce", "name": "first", "options": {"optimiser": {"learning_rate": 1e-3}}}]
    [note] = learning_rate_notes(planned_stages(Recipe.parse(data)))
    assert note.startswith("train.optimiser.learning_rate of the stage 'first' = 0.001 is")
