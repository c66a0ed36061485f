"""Where episodes are played, as recipes and the command line say it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.cluster.ray_engine import RayEngine
from agentgym.errors import RecipeError, UnknownNameError
from agentgym.registry import environment_of, load_task_set
from agentgym.rollout.engine import Engine, LocalEngine, engine_of
from agentgym.training.recipe.recipe import Recipe


def test_an_engine_is_chosen_by_name_and_connects_to_nothing_yet():
    assert engine_of(None) is engine_of("local") is None
    engine = engine_of("ray", address="10.0.0.7:6379", nodes=4)
    assert isinstance(engine, RayEngine)
    assert (engine.address, engine.nodes) == ("10.0.0.7:6379", 4)
    assert engine_of("ray", address="10.0.0.7:6379", nodes=4) is engine, "the process shares it"
    assert isinstance(LocalEngine(), Engine)


def test_an_engine_that_cannot_be_is_named():
    with pytest.raises(UnknownNameError, match=r"Nothing in engines is named 'rays'\. Did you mean 'ray'"):
        engine_of("rays")
    with pytest.raises(RecipeError, match=r"The nodes 3 has an effect only with a cluster"):
        engine_of("local", nodes=3)


def test_a_recipe_says_where_its_episodes_and_environments_are():
    quickstart, task_set = Path(__file__).parents[2] / "recipes" / "quickstart.toml", load_task_set("sql/store-v1")
    on_cluster = ["machine.engine=ray", "machine.nodes=2"]
    config = Recipe.load(quickstart, on_cluster).rollout_config(task_set)
    assert (config.engine.name, config.engine.nodes) == ("ray", 2)
    assert config.engine.backend == "namespaces", "a node that cannot make the sandboxes of these tasks is refused"
    remote = Recipe.load(quickstart, [*on_cluster, "episode.environment=http://10.0.0.7:8650/"])
    config = remote.rollout_config(task_set)
    assert (config.environment, config.engine.backend) == ("http://10.0.0.7:8650/", None)


def test_a_slash_at_the_end_stands_for_the_environment_of_each_task():
    assert environment_of(None, "agentgym/sql-v1") == "agentgym/sql-v1"
    assert environment_of("http://h:1/", "agentgym/sql-v1") == "http://h:1/agentgym/sql-v1"
    assert environment_of("http://h:1/a/b-v1", "agentgym/sql-v1") == "http://h:1/a/b-v1"
