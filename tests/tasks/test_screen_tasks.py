"""Screens whose boxes are known: what is drawn is what is told, the floors are low, and the oracle finds everything."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import random
from collections import Counter

import pytest
from PIL import Image

from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy, Task, make, seed_of
from agentgym.errors import TaskError
from agentgym.messages import Call, Message
from agentgym.registry import load_reward, load_task_set
from agentgym.rewards.boxes import inside
from agentgym.tasks.importers.screenspot import load_screenspot

SCREENS, TRANSITIONS = "gui/screens-v1", "gui/transitions-v1"


@pytest.fixture(scope="module")
def screens():
    return load_task_set(SCREENS)


@pytest.fixture(scope="module")
def transitions():
    return load_task_set(TRANSITIONS)


def pixels(part):
    return Image.open(io.BytesIO(base64.b64decode(part.data))).convert("RGB")


async def play(tasks, player):
    manager = EpisodeManager(lambda task: ScriptedPolicy(player(task)), RolloutConfig(concurrency=8))
    return await manager.collect(tasks)


async def test_the_oracle_solves_every_kind_of_task_and_the_imperfect_oracle_none(screens, transitions):
    for task_set in (screens, transitions):
        tasks = list({task.tags: task for task in [*task_set["validation"], *task_set["held_out"]]}.values())
        assert [t.success for t in await play(tasks, task_set.oracle)] == [1.0] * len(tasks)
        assert [t.success for t in await play(tasks, task_set.imperfect_oracle)] == [0.0] * len(tasks)


def test_floors_of_pointing_without_looking(screens):
    tasks = [*screens["train"], *screens["held_out"]]
    rng = random.Random(0)
    hits, middle, share = 0, 0, 0.0
    for task in tasks:
        width, height, box = task.parameters["screen"]["width"], task.parameters["screen"]["height"], task.truth["box"]
        hits += inside((rng.randrange(width), rng.randrange(height)), box)
        middle += inside((width / 2, height / 2), box)
        share += (box[2] - box[0]) * (box[3] - box[1]) / (width * height)
    assert hits / len(tasks) < 0.02
    assert middle / len(tasks) < 0.03
    assert 0.005 < share / len(tasks) < 0.015


def test_floors_of_guessing_an_action(transitions):
    acts = Counter(json.dumps(task.truth["act"]) for task in transitions["train"])
    assert acts.most_common(1)[0][1] / 1000 < 0.05
    kinds = Counter(task.tags[1] for task in transitions["train"])
    assert len(kinds) == 5
    assert min(kinds.values()) > 100


def test_held_out_screens_use_words_of_their_own(screens):
    def written(tasks):
        icons = {"plus", "minus", "cross", "star", "disc", "ring", "square", "play", "menu", "arrow"}
        texts = {w["text"].rstrip(" 0123456789") for task in tasks for w in task.parameters["screen"]["widgets"]}
        return texts - icons - {""}

    unseen = [task for task in screens["held_out"] if "unseen_words" in task.tags]
    assert not written(screens["train"]) & written(unseen)
    assert not any("relation" in task.tags for task in screens["train"])


async def test_what_is_asked_for_is_drawn_where_the_truth_says(screens):
    """Painting over the target changes the picture there and nowhere else."""
    for task in screens["train"][:6]:
        environment = make(task.environment)
        pictures = []
        for widgets in (
            task.parameters["screen"]["widgets"],
            [w for w in task.parameters["screen"]["widgets"] if w["box"] != task.truth["box"]],
        ):
            screen = task.parameters["screen"] | {"widgets": widgets}
            variant = Task("v", task.environment, task.prompt, parameters={"screen": screen, "shown": 2048})
            opening = await environment.reset(variant, seed=0)
            pictures.append(pixels(opening[0].images[0]))
        from PIL import ImageChops

        left, top, right, bottom = ImageChops.difference(*pictures).getbbox()
        box = task.truth["box"]
        assert box[0] <= left < right <= box[2]
        assert box[1] <= top < bottom <= box[3]
        assert (right - left) * (bottom - top) > 0.3 * (box[2] - box[0]) * (box[3] - box[1])


async def test_zoom_shows_the_named_part_and_refuses_others(screens):
    task = screens["train"][0]
    environment = make(task.environment)
    await environment.reset(task.public(), seed=0)
    width, height = task.parameters["screen"]["width"], task.parameters["screen"]["height"]
    good = await environment.call(Call("zoom", {"left": 10, "top": 20, "right": 60, "bottom": 45}))
    assert good.content[0].text.startswith("Screen from (10, 20) to (60, 45), 8.00 times")
    assert pixels(good.content[1]).size == (400, 200)
    names = ("left", "top", "right", "bottom")
    for sides in ((0, 0, width + 1, 20), (-1, 0, 50, 50), (50, 50, 50, 90), (90, 50, 50, 90), (0, 0, 4, height)):
        refused = await environment.call(Call("zoom", dict(zip(names, sides, strict=True))))
        assert not refused.ok
        assert "pixels" in refused.content or "screen" in refused.content
    huge = await environment.call(Call("point", {"x": 10**30, "y": 1}))
    assert not huge.ok


async def test_a_transition_shows_both_screens_and_they_differ(transitions):
    for task in transitions["held_out"][:3]:
        opening = await make(task.environment).reset(task.public(), seed=0)
        before, after = map(pixels, opening[0].images)
        assert before.size == after.size
        assert before.tobytes() != after.tobytes()


def test_screens_depend_on_the_seed_and_on_nothing_else():
    from agentgym.tasks.screens import task_set

    fresh = task_set.__wrapped__(0)
    assert fresh.fingerprint() == load_task_set(SCREENS).fingerprint()
    assert seed_of(SCREENS, "train") != seed_of(SCREENS, "validation")


@pytest.mark.parametrize(
    "screen",
    [
        None,
        {},
        {"widgets": []},
        {"width": 10**9, "height": 9, "widgets": []},
        {"width": 100, "height": 100, "widgets": [{"kind": "button", "box": [0, 0, 200, 20]}]},
        {"width": 100, "height": 100, "widgets": [{"kind": "bomb", "box": [0, 0, 20, 20]}]},
        {"width": 100, "height": 100, "widgets": [{"kind": "icon", "text": "skull", "box": [0, 0, 20, 20]}]},
        {"data": "AAAA"},
        {"path": "/etc/hostname"},
        {"path": "/dev/zero"},
    ],
)
async def test_a_screen_that_cannot_be_shown_is_a_task_error(screen):
    with pytest.raises(TaskError):
        await make("agentgym/ground-v1").reset(
            Task("t", "agentgym/ground-v1", "?", parameters={"screen": screen}), seed=0
        )


@pytest.fixture
def screenspot(tmp_path):
    """A file as ScreenSpot's: two items of one screenshot that has a red square."""
    image = Image.new("RGB", (200, 100), "white")
    image.paste("red", (20, 30, 60, 50))
    (tmp_path / "images").mkdir()
    image.save(tmp_path / "images" / "a.png")
    items = [
        {
            "img_filename": "a.png",
            "bbox": [20, 30, 40, 20],
            "instruction": "the red one ",
            "data_type": "icon",
            "data_source": "windows",
        },
        {"img_filename": "a.png", "bbox": [100, 10, 50, 80], "instruction": "the white", "data_type": "text"},
    ]
    return tmp_path, items


def written(folder, items):
    path = folder / "screenspot.json"
    path.write_text(json.dumps(items))
    return path


async def test_screenspot_is_read_and_played(screenspot):
    folder, items = screenspot
    tasks = load_screenspot(written(folder, items))
    first = tasks["held_out"][0]
    assert first.truth == {"box": [20, 30, 60, 50]}
    assert first.tags == ("icon", "windows")
    point = [Message("assistant", "", (Call("point", {"x": 40, "y": 40}),))]
    hit, miss = await play(tasks["held_out"], lambda task: point)
    assert (hit.success, miss.success) == (1.0, 0.0)
    assert pixels(hit.opening[0].images[0]).getpixel((40, 40)) == (255, 0, 0)
    Image.new("RGB", (200, 100)).save(folder / "images" / "a.png")
    with pytest.raises(TaskError, match="has changed"):
        await make(first.environment).reset(first.public(), seed=0)


def test_screenspot_pro_gives_corners_and_broken_items_are_named(screenspot):
    folder, items = screenspot
    pro = load_screenspot(written(folder, [items[0] | {"bbox": [20, 30, 60, 50], "img_size": [200, 100]}]))
    assert pro["held_out"][0].truth == {"box": [20, 30, 60, 50]}
    for broken, says in [
        ({"bbox": [1, 2, 3]}, "four numbers"),
        ({"bbox": [1, 2, -3, 4]}, "no area"),
        ({"img_filename": "b.png"}, "images="),
        ({"img_filename": "../secret.png"}, "leads out of the folder"),
        ({"instruction": None}, "instruction"),
    ]:
        with pytest.raises(TaskError, match=says):
            load_screenspot(written(folder, [items[0], items[1] | broken]))


def test_rewards_of_screens_can_be_combined():
    """Overlap beside size, as a recipe may ask for."""
    from agentgym import Combined

    reward = Combined(load_reward("grounding"), load_reward("dynamic_iou"), load_reward("box_size"))
    turnless = asyncio.run(reward.outcome(_boxed()))
    assert turnless == {"success": 1.0, "iou": 1.0, "dynamic_iou": 1.0, "box_size": 1.0}


def _boxed():
    from agentgym import Trajectory, Turn
    from agentgym.messages import Result, StopReason

    call = Call("box", {"left": 1, "top": 1, "right": 9, "bottom": 9})
    turn = Turn(0, Message("assistant", "", (call,)), (call,), (Result("", final=True),))
    return Trajectory(
        "r/t#0", Task("t", "e", truth={"box": [1, 1, 9, 9]}), turns=[turn], stop_reason=StopReason.ANSWERED
    )
