"""Gathering, crafting and smelting along a tech tree: what is refused and why, plans, depths, the splits of the set."""

from __future__ import annotations

import json
import random
import re

import pytest

from agentgym import (
    Budgets,
    Call,
    EpisodeManager,
    Message,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    TaskError,
    load,
    load_task_set,
)
from agentgym.sandboxes.text.craft_tree import TechTree

Craft = load("environments", "agentgym/text-craft-v1")
TREE = {
    "sites": {"fen": ["reed", "peat"], "moor": ["sand", "ore"]},
    "items": {
        "reed": {"by": "gather"},
        "peat": {"by": "gather"},
        "sand": {"by": "gather"},
        "cord": {"by": "craft", "parts": {"reed": 3}, "makes": 2},
        "pick": {"by": "craft", "parts": {"cord": 1, "reed": 1}},
        "kiln": {"by": "craft", "parts": {"sand": 2, "cord": 1}},
        "ore": {"by": "gather", "needs": "pick"},
        "bar": {"by": "smelt", "parts": {"ore": 2, "peat": 1}, "needs": "kiln"},
    },
}
PLAN = [
    ("gather", "peat", 1),
    ("gather", "reed", 4),
    ("explore", "moor", 1),
    ("gather", "sand", 2),
    ("craft", "cord", 1),
    ("craft", "kiln", 1),
    ("craft", "pick", 1),
    ("equip", "pick", 1),
    ("gather", "ore", 2),
    ("smelt", "bar", 1),
]


def changed(**items):
    tree = json.loads(json.dumps(TREE))
    tree["items"] |= items
    return tree


async def opened(tree=TREE, goal="bar", start="fen"):
    environment = Craft()
    parameters = {"tree": tree, "start": start, "goal": goal}
    await environment.reset(Task("t", environment.id, "?", parameters=parameters), seed=0)
    return environment


async def act(environment, name, what="", count=1):
    key = {"inventory": None, "explore": "site"}.get(name, "item")
    arguments = ({key: what} if key else {}) | ({"count": count} if count > 1 else {})
    return (await environment.call(Call(name, arguments))).content


async def test_the_plan_gets_the_goal_and_no_step_leads_away_from_it():
    environment, nearness = await opened(), []
    for action in PLAN:
        nearness.append(await environment.potential())
        reply = await act(environment, *action)
    work = 1 + 4 + 2 + 1 + 1 + 1 + 2 + 1  # as in the plan, without walking and taking in hand
    done = [0, 1, 5, 5, 7, 8, 9, 10, 10, 12]
    assert nearness == pytest.approx([steps / work for steps in done])
    assert reply == "You have 1 bar. That was the goal."
    assert environment.verdict() == {"success": 1.0, "progress": 1.0}


def test_plans_and_depths_of_a_tree_by_hand():
    tree = TechTree.read(TREE)
    assert list(tree.plan("bar", {}, "fen", None)) == PLAN
    assert list(tree.plan("bar", {"kiln": 1, "ore": 2}, "fen", None)) == [("gather", "peat", 1), ("smelt", "bar", 1)]
    assert dict(tree.depths) == {
        "reed": 0,
        "peat": 0,
        "sand": 0,
        "cord": 1,
        "pick": 2,
        "kiln": 2,
        "ore": 3,
        "bar": 4,
    }
    assert tree.work_left("bar", {}) == 13
    assert tree.work_left("bar", {"pick": 1}) == 13 - 1 - 1, (
        "the cord of both is still to be made; one reed is not needed"
    )


async def test_what_is_wasted_is_to_be_done_again():
    environment = await opened()
    for action in [*PLAN[:5], ("craft", "kiln", 1)]:
        await act(environment, *action)
    before = await environment.potential()
    for action in [("explore", "fen", 1), ("gather", "reed", 3), ("explore", "moor", 1), ("gather", "sand", 2)]:
        await act(environment, *action)
    assert await environment.potential() == before, "what nobody needs brings nothing"
    assert await act(environment, "craft", "kiln") == "You have 2 kiln."
    assert await environment.potential() < before, "the cord is gone that the pick needs"


@pytest.mark.parametrize(
    ("call", "reply"),
    [
        (("explore", "Moor"), "You are at the moor. Here is: sand, ore."),
        (("explore", "sea"), "There is no site 'sea'. Sites are: fen, moor."),
        (("gather", "sand"), "There is no sand at the fen."),
        (("gather", "the  REED", 2), "You have 2 reed."),
        (("gather", "gold"), "There is no item 'gold'."),
        (("gather", "reed", 65), "less than or equal to 64"),
        (("craft", "cord"), "You lack 3 reed."),
        (("craft", "bar"), "You cannot craft it. bar: smelted from 2 ore, 1 peat, while you carry the kiln."),
        (("smelt", "bar"), "You must carry the kiln for that."),
        (("equip", "pick"), "You have no pick."),
        (("inventory",), "You carry: nothing. In hand: nothing. At: fen."),
        (("look_up", "ore"), "ore: gathered with the pick in hand."),
        (("look_up", "reed"), "reed: gathered with bare hands."),
        (("look_up", "cord"), "2 cord: crafted from 3 reed."),
    ],
)
async def test_calls_are_answered_and_what_cannot_be_done_says_why(call, reply):
    assert re.search(re.escape(reply), await act(await opened(), *call))


async def test_an_ore_needs_its_tool_in_hand_and_not_only_carried():
    environment = await opened(goal="bar")
    for action in PLAN[:7]:
        await act(environment, *action)
    assert await act(environment, "gather", "ore") == "The ore is gathered with the pick in hand."
    await act(environment, "equip", "pick")
    assert await act(environment, "gather", "ore") == "You have 1 ore."


@pytest.mark.parametrize(
    ("tree", "goal", "start", "reason"),
    [
        (TREE, "crown", "fen", "the goal 'crown' is not an item"),
        (TREE, "bar", "sea", "the start 'sea' is not a site. Sites are: fen, moor"),
        (
            changed(cord={"by": "craft", "parts": {"wool": 1}}),
            "bar",
            "fen",
            "items.cord needs 'wool', which is not an item",
        ),
        (changed(cord={"by": "craft"}), "bar", "fen", "items.cord has no parts"),
        (
            changed(reed={"by": "craft", "parts": {"peat": 1}}),
            "bar",
            "fen",
            "items.reed: exactly the items that are gathered must be at a site",
        ),
        (
            changed(wool={"by": "gather"}),
            "bar",
            "fen",
            "items.wool: exactly the items that are gathered must be at a site",
        ),
        (changed(hut={"by": "craft", "parts": {"pick": 1}}), "bar", "fen", "items.hut uses up 'pick'"),
        (
            changed(cord={"by": "craft", "parts": {"bar": 1}}),
            "bar",
            "fen",
            "bar, cord, kiln, ore, pick cannot be made, because they need each other",
        ),
        (changed(bar={"by": "pray", "parts": {"ore": 1}}), "bar", "fen", r"items\.bar\.by: Input should be 'gather'"),
        (
            changed(bar={"by": "craft", "parts": {"cord": 64, "ore": 64}}),
            "bar",
            "fen",
            "needs .* of reed, but at most 64",
        ),
        (TREE | {"plot": "thick"}, "bar", "fen", "plot: Extra inputs are not permitted"),
        ([], "bar", "fen", r"parameters\['tree'\] must be of type dict, not \[\]"),
    ],
)
async def test_a_tree_that_cannot_be_played_is_refused_with_the_part_that_is_wrong(tree, goal, start, reason):
    with pytest.raises(TaskError, match=reason):
        await opened(tree, goal, start)


def test_generated_trees_have_all_depths_and_equal_numbers_give_equal_trees():
    for number in range(1, 30):
        tree = Craft.tree(number)
        depths = list(Craft.depths_in(tree).values())
        assert [depths.count(depth) for depth in range(9)] == [4, *[3] * 8]
        assert {item["by"] for item in tree["items"].values()} == {"gather", "craft", "smelt"}
        assert len({name.split()[0] for name in tree["items"]}) == len(tree["items"])
    assert Craft.tree.__wrapped__(7) == Craft.tree(7) != Craft.tree(8)
    assert Craft.generate(3, 2) == Craft.generate(3, 2) != Craft.generate(4, 2)
    assert Craft.generate(3, 2, tree=5).parameters["tree"] == Craft.generate(4, 6, tree=5).parameters["tree"]


def test_names_tell_nothing_of_the_recipes():
    """The same name is got in another way in another tree, so that who remembers recipes of training errs."""
    recipes: dict[str, set[str]] = {}
    for number in range(1, 120):
        for name, item in Craft.tree(number)["items"].items():
            recipes.setdefault(name, set()).add(json.dumps(item.get("parts", item.get("needs")), sort_keys=True))
    common = [name for name, own in recipes.items() if len(own) > 1]
    assert len(common) > 200


async def play(tasks, script_for, turns=32):
    config = RolloutConfig(budgets=Budgets(max_turns=turns))
    trajectories = await EpisodeManager(lambda task: ScriptedPolicy(script_for(task)), config).collect(tasks)
    assert [t.error for t in trajectories if t.error] == []
    return [t.success for t in trajectories]


def test_the_splits_share_no_goal_and_held_out_trees_and_depths_are_no_others():
    task_set = load_task_set("text/craft-v1")
    trees = {split: {json.dumps(t.parameters["tree"]["items"]) for t in task_set[split]} for split in task_set}
    held_out = {
        tag: [t for t in task_set["held_out"] if tag in t.tags]
        for tag in ("unseen_goals", "deeper_goals", "unseen_trees")
    }
    assert [len(task_set[split]) for split in ("train", "validation", "held_out")] == [1920, 120, 400]
    assert {tag: len(tasks) for tag, tasks in held_out.items()} == {
        "unseen_goals": 120,
        "deeper_goals": 120,
        "unseen_trees": 160,
    }
    assert {t.difficulty for t in task_set["train"]} == {1, 2, 3, 4, 5, 6}
    assert {t.difficulty for t in held_out["deeper_goals"]} == {7, 8}
    assert not trees["train"] & {json.dumps(t.parameters["tree"]["items"]) for t in held_out["unseen_trees"]}
    for tag in ("unseen_goals", "deeper_goals"):
        assert {json.dumps(t.parameters["tree"]["items"]) for t in held_out[tag]} <= trees["train"]
    for task in task_set["held_out"]:
        assert f"depth_{task.difficulty:.0f}" in task.tags


async def test_the_oracle_solves_all_and_random_actions_with_known_names_next_to_nothing():
    task_set = load_task_set("text/craft-v1")
    sample = [*task_set["train"][::20], *task_set["validation"][::6], *task_set["held_out"][::5]]
    assert set(await play(sample, task_set.oracle)) == {1.0}
    assert set(await play(sample, task_set.imperfect_oracle)) == {0.0}
    assert set(await play(sample, lambda task: lambda messages: Message("assistant", ""))) == {0.0}

    def random_actor(task):
        rng, tree = random.Random(task.id), task.parameters["tree"]

        def script(messages):
            name = rng.choice(["explore", "gather", "gather", "craft", "craft", "smelt", "equip"])
            what = (
                {"site": rng.choice(list(tree["sites"]))}
                if name == "explore"
                else {"item": rng.choice(list(tree["items"]))}
            )
            return Message("assistant", "", (Call(name, what),))

        return script

    assert sum(await play(sample, random_actor)) <= 0.02 * len(sample)
