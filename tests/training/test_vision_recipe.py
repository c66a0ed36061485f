"""A whole recipe with a checkpoint that reads images: it learns what only its eyes can tell it."""

from __future__ import annotations

import io
import json
import random
from base64 import b64encode

import pytest
from PIL import Image
from rich.console import Console

from agentgym import Call, Environment, Message, Reward, Task, TaskSet, seed_of, tool
from agentgym.cli.policies import load_policy
from agentgym.errors import RecipeError
from agentgym.evaluation.record import Evaluation
from agentgym.messages import ImagePart, TextPart
from agentgym.policy import Hermes, VisionPolicy, make_processor, make_tokenizer, make_vision_model
from agentgym.registry import load, load_task_set, register
from agentgym.training import Recipe, train
from agentgym.training.checks.preflight import check_stages
from agentgym.training.stages.plan import planned_stages

SIDE = 28


class Wall(Environment):
    """Shows a wall that is painted in some shade of one colour. Nothing is isolated."""

    reward = "test_colour"

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        buffer = io.BytesIO()
        Image.new("RGB", (SIDE, SIDE), tuple(task.parameters["shade"])).save(buffer, "PNG")
        return [Message("user", (ImagePart(b64encode(buffer.getvalue()).decode()), TextPart(task.prompt)))]

    @tool(final=True, inline=True)
    def say(self, colour: str) -> str:
        """Say it."""
        return "Thanks."


class Colour(Reward):
    """1 for the right colour."""

    def outcome(self, episode):
        answers = [call.arguments.get("colour") for turn in episode.turns for call in turn.calls]
        return {"success": float(answers[-1:] == [episode.task.truth])}


def walls() -> TaskSet:
    def task(split: str, index: int) -> Task:
        rng = random.Random(seed_of(split, index))
        red = index % 2
        shade = [rng.randint(180, 255), rng.randint(0, 70), rng.randint(0, 70)]
        return Task(
            f"{split}{index}",
            "test/walls-v1",
            "Which colour?",
            parameters={"shade": shade if red else shade[::-1]},
            truth="red" if red else "blue",
            split=split,
        )

    sizes = {"train": 64, "validation": 8, "held_out": 24}
    return TaskSet(
        "test/walls-v1",
        {split: [task(split, i) for i in range(n)] for split, n in sizes.items()},
        oracle=lambda task: [Message("assistant", "", (Call("say", {"colour": task.truth}),))],
    )


register("test/walls-v1", Wall)
register("test/walls-v1", walls, kind="task_sets")
register("test_colour", Colour, kind="rewards")


def test_a_vision_checkpoint_is_warm_started_and_trained_by_a_recipe(tmp_path):
    words = ["Which colour?", "Say it.", *[Hermes().render((Call("say", {"colour": c}),)) for c in ("red", "blue")]]
    schema = json.dumps([tool.schema() for tool in load("environments", "test/walls-v1").tools.values()])
    processor = make_processor(make_tokenizer([*words, schema] * 8, 420), side=SIDE)
    model = make_vision_model(processor, hidden=32, layers=1, side=SIDE)
    model.save_pretrained(tmp_path / "made")
    processor.save_pretrained(tmp_path / "made")
    recipe = {
        "name": "walls",
        "tasks": {"set": "test/walls-v1"},
        "policy": {"path": str(tmp_path / "made")},
        "episode": {"max_turns": 1, "max_episode_tokens": 48, "max_turn_tokens": 24},
        "warm_start": {
            "demonstrations": 64,
            "steps": 60,
            "batch_size": 16,
            "learning_rate": 5e-3,
            "validate_every": 60,
            "validate_tasks": 8,
        },
        "train": {
            "steps": 2,
            "tasks_per_step": 2,
            "group_size": 4,
            "validate_every": 2,
            "validate_tasks": 8,
            "save_every": 2,
        },
        "machine": {"device": "cpu", "threads": 1},
    }
    folder = train(Recipe.parse(recipe), folder=tmp_path / "run", console=Console(file=io.StringIO())).path
    after = Evaluation.load(folder / "evaluation" / "after.json").success(None).value
    assert after > 0.9, "a policy that sees nothing is right half of the time"
    policy, _ = load_policy(str(folder), load_task_set("test/walls-v1"))
    assert isinstance(policy, VisionPolicy)
    logged = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert max(row["guard/drift"] for row in logged if "guard/drift" in row) < 2e-4


def test_an_estimator_that_cannot_read_images_is_refused_before_anything_is_trained(tmp_path):
    processor = make_processor(make_tokenizer(["Which colour?"] * 8, 300), side=SIDE)
    make_vision_model(processor, hidden=32, layers=1, side=SIDE).save_pretrained(tmp_path / "sees")
    recipe = Recipe.parse(
        {
            "name": "walls",
            "tasks": {"set": "test/walls-v1"},
            "policy": {"path": str(tmp_path / "sees")},
            "train": {"estimator": "turn_gae"},
        }
    )
    with pytest.raises(RecipeError, match="turn_gae requires values: that is computed without images"):
        check_stages(planned_stages(recipe), recipe.tasks.load())
