"""Recipes by their names and files: bundled ones are found from anywhere, and what cannot be read is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.errors import RecipeError
from agentgym.training import Recipe

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))


@pytest.mark.parametrize("name", ["quickstart", "quickstart.toml", "recipes/quickstart.toml", "stages/ranking"])
def test_a_bundled_recipe_is_found_by_its_name_from_anywhere(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Recipe.load(name).name == Path(name).stem


def test_an_unknown_recipe_is_answered_with_the_bundled_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match=r"Cannot read the recipe quikstart: .* Did you mean 'quickstart'"):
        Recipe.load("quikstart")


def test_a_file_comes_before_a_bundled_recipe_and_may_begin_with_the_mark_of_windows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = RECIPES[0].read_text().replace("name =", "name = 'own' #", 1)
    (tmp_path / "quickstart").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert Recipe.load("quickstart").name == "own"


def test_a_text_without_quotes_is_answered_with_how_it_is_written(tmp_path):
    (tmp_path / "r.toml").write_text("seed = 1\nname = ok\n")
    with pytest.raises(RecipeError, match=r"""The line is: 'name = ok'\. A text stands in quotes: name = "ok"\."""):
        Recipe.load(tmp_path / "r.toml")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({}, "recipe names no model: give policy.path, or a section"),
        ({"path": "x", "tiny": {}}, r"policy.path = 'x' and .policy.tiny. are both given: leave out one of them"),
    ],
)
def test_no_model_and_two_models_are_told_apart(policy, message):
    with pytest.raises(RecipeError, match=message):
        Recipe.parse({"name": "x", "tasks": {"set": "sql/store-v1"}, "policy": policy})
