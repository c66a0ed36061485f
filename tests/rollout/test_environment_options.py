"""Options of an environment's constructor, from Python, a recipe and the command line, checked before the run."""

from __future__ import annotations

import json

import pytest
from scripted_episodes import counting, make_manager
from typer.testing import CliRunner

from agentgym import RolloutConfig, ScriptedPolicy, Task, TaskSet, evaluate, registry
from agentgym.cli.app import app
from agentgym.errors import RecipeError, UnknownNameError
from agentgym.rollout.environment_options import EnvironmentOptionError, check_environment_options
from agentgym.task import mixed
from agentgym.testing import Counter, TargetReached
from agentgym.training import Recipe
from agentgym.training.checks.trials import check_environments
from agentgym.training.recipe.episode_section import EpisodeSection

CREATED: list[dict[str, float]] = []


class Slow(Counter):
    """A counter that notes the options of its constructor."""

    reward = TargetReached()

    def __init__(self, latency_s: float = 0.0, start: int = 0):
        if start < 0:
            raise ValueError(f"start is {start}: begin at 0 or above")
        CREATED.append({"latency_s": latency_s, "start": start})
        super().__init__()


registry.register("test/slow-counter-v1", Slow)


def task_set(name: str) -> TaskSet:
    splits = ("train", "validation", "held_out")
    return TaskSet(
        name,
        {
            split: [Task(f"{name}-{split}", "test/slow-counter-v1", f"{name} {split}", truth=2, split=split)]
            for split in splits
        },
    )


async def test_each_set_of_a_mixture_has_options_of_its_own():
    both = mixed({"a": task_set("a"), "b": task_set("b")})
    CREATED.clear()
    config = RolloutConfig(environment_options={"latency_s": 1.0}, source_options={"b": {"start": 1}})
    await make_manager(
        ScriptedPolicy(counting(1)),
        environment_options=config.environment_options,
        source_options=config.source_options,
    ).collect(both["train"])
    assert sorted(CREATED, key=str) == [{"latency_s": 1.0, "start": 0}, {"latency_s": 1.0, "start": 1}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"latency": 1.0},
            "test/slow-counter-v1 has no option 'latency'. Did you mean 'latency_s'. Its options are: latency_s, start",
        ),
        ({"start": -1}, "test/slow-counter-v1 cannot be created with start=-1: start is -1: begin at 0 or above"),
    ],
)
async def test_what_an_environment_does_not_take_is_named_before_anything_is_played(options, message):
    tasks = task_set("a")
    with pytest.raises(EnvironmentOptionError, match=message):
        await evaluate(ScriptedPolicy([]), tasks, config=RolloutConfig(environment_options=options))
    with pytest.raises(RecipeError, match=message):
        check_environments(tasks, EpisodeSection(environment_options=options), {}, title="t", seed=0)
    mixture = mixed({"a": tasks, "b": task_set("b")})
    with pytest.raises(RecipeError, match=message):
        check_environments(mixture, EpisodeSection(), {}, title="t", seed=0, source_options={"b": options})


def test_the_options_of_a_recipe_reach_its_config():
    recipe = Recipe.parse(
        {
            "name": "x",
            "tasks": {
                "sources": [{"set": "text/doors-v1", "environment_options": {"start": 1}}, {"set": "text/locks-v1"}]
            },
            "policy": {"tiny": {}},
            "episode": {"environment_options": {"latency_s": 2}},
        }
    )
    config = recipe.rollout_config(recipe.tasks.load())
    assert config.environment_options == {"latency_s": 2}
    assert config.source_options == {"text/doors-v1": {"start": 1}}


def test_the_command_line_gives_them_too(tmp_path):
    rows = [
        json.dumps(
            {
                "id": f"t{i}",
                "environment": "test/slow-counter-v1",
                "prompt": f"Count {i}.",
                "split": "held_out",
                "truth": 2,
            }
        )
        for i in range(2)
    ]
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(rows))
    CREATED.clear()
    words = ["eval", f"{file}:held_out", "--policy", "chat_api:http://127.0.0.1:9/v1#m"]
    done = CliRunner().invoke(app, [*words, "--environment-option", "latency=2"])
    assert done.exit_code == 2
    assert "has no option 'latency'. Did you mean 'latency_s'?" in done.stderr
    CliRunner().invoke(
        app, [*words, "--environment-option", "latency_s=2.5", "--policy-option", "retry_policy.attempts=1"]
    )
    assert {"latency_s": 2.5, "start": 0} in CREATED


def test_an_environment_that_nobody_registered_is_named_before_the_policy_is_loaded(tmp_path):
    with pytest.raises(UnknownNameError, match="agentgym/sqll-v1"):
        check_environment_options([Task("t", "agentgym/sqll-v1", "?")], RolloutConfig())
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps({"id": "t", "environment": "agentgym/sqll-v1", "prompt": "?", "split": "held_out"}))
    done = CliRunner().invoke(app, ["eval", f"{file}:held_out", "--policy", "no/such-model"])
    assert "agentgym/sqll-v1" in done.stderr
