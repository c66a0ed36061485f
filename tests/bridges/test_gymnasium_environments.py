"""Gymnasium's environments as ours: every toy text one keeps our contract, and plays as it plays over there."""

from __future__ import annotations

import random

import gymnasium
import pytest

from agentgym import Budgets, Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task
from agentgym.bridges.gymnasium import gymnasium_tasks, register_gymnasium
from agentgym.errors import DuplicateNameError, TaskError
from agentgym.registry import load, make
from agentgym.testing import check_environment, check_task_set

TOY_TEXT = [name for name, spec in gymnasium.registry.items() if "toy_text" in str(spec.entry_point)]
FIRM = {"FrozenLake-v1": {"is_slippery": False}, "FrozenLake8x8-v1": {"is_slippery": False}}


@pytest.fixture(scope="session")
def ours():
    """Every toy text environment, registered once: their id to our name."""
    return {theirs: register_gymnasium(theirs, options=FIRM.get(theirs)) for theirs in TOY_TEXT}


def oracle(task):
    """Plans with the table that their tabular environments offer, on the state their seed begins with."""
    environment = load("environments", task.environment)
    env = gymnasium.make(environment.theirs, **environment.options)
    state, _ = env.reset(seed=task.parameters["seed"])
    table, before, waiting = env.unwrapped.P, {int(state): None}, [int(state)]
    for here in waiting:
        for action, ways in table[here].items():
            (_, after, reward, ended) = ways[0]
            if ended and (reward > 0 or "Cliff" in environment.theirs):
                actions = [action]
                while before[here] is not None:
                    here, action = before[here]
                    actions.append(action)
                names = [environment.words.actions[action] for action in reversed(actions)]
                parts = [names[start : start + 10] for start in range(0, len(names), 10)]
                return [Message("assistant", "", (Call("act", {"actions": part}),)) for part in parts]
            if not ended and after not in before:
                before[after] = (here, action)
                waiting.append(after)
    raise AssertionError(f"no way in {task.environment}")


@pytest.mark.parametrize("theirs", TOY_TEXT)
async def test_a_toy_text_environment_keeps_our_contract(ours, theirs):
    tasks = gymnasium_tasks(ours[theirs], train=6, validation=2, held_out=2)
    planned = oracle if hasattr(gymnasium.make(theirs).unwrapped, "P") and "Slippery" not in theirs else None
    chance = 0.5 if theirs == "Blackjack-v1" else 0.05
    await check_environment(ours[theirs], tasks, planned, sample=3, chance=chance)
    check_task_set(tasks, other_process=False)


@pytest.mark.parametrize("theirs", TOY_TEXT)
async def test_it_gives_the_rewards_and_ends_that_it_gives_over_there(ours, theirs):
    environment, env = make(ours[theirs]), gymnasium.make(theirs, **FIRM.get(theirs, {}))
    for seed in range(3):
        rng = random.Random(seed)
        await environment.reset(Task("t", ours[theirs], "?", parameters={"seed": seed}), seed=99)
        env.reset(seed=seed)
        total, ended = 0.0, False
        for _ in range(60):
            action = rng.randrange(len(environment.words.actions))
            _, reward, terminated, truncated, _ = env.step(action)
            result = await environment.call(Call("act", {"actions": [environment.words.actions[action]]}))
            total, ended = total + float(reward), terminated or truncated
            assert f"Reward: {float(reward):g}" in result.content
            assert (environment.verdict()["return"], environment.ended) == (total, ended)
            if ended:
                break
    await environment.close()


async def test_states_are_told_apart_by_where_one_is_and_not_by_how_one_came(ours):
    environment = make(ours["FrozenLake-v1"])
    await environment.reset(Task("t", ours["FrozenLake-v1"], "?", parameters={"seed": 1}), seed=0)
    start = await environment.state_key()
    await environment.call(Call("act", {"actions": ["right"]}))
    away = await environment.state_key()
    await environment.call(Call("act", {"actions": ["left"]}))
    assert away != start == await environment.state_key()


async def test_the_agent_sees_itself_on_the_lake_and_its_hand_at_cards(ours):
    lake, cards, taxi = (make(ours[name]) for name in ("FrozenLake-v1", "Blackjack-v1", "Taxi-v4"))
    opening_texts = {}
    for name, environment in (("lake", lake), ("cards", cards), ("taxi", taxi)):
        opening = await environment.reset(Task("t", "x/y-v1", "?", parameters={"seed": 1}), seed=0)
        opening_texts[name] = opening[-1].text
    assert opening_texts["lake"] == "PFFF\nFHFH\nFFFH\nHFFG"
    assert opening_texts["cards"].startswith("Your cards: 20. The dealer shows 7.")
    assert "The passenger is " in opening_texts["taxi"]
    assert "\x1b" not in opening_texts["taxi"]


async def test_the_judge_counts_wins_and_shows_returns(ours):
    tasks = gymnasium_tasks(ours["CliffWalking-v1"], train=1, validation=1, held_out=1)["train"]
    manager = EpisodeManager(lambda task: ScriptedPolicy(oracle(task)), RolloutConfig(budgets=Budgets(max_turns=4)))
    [episode] = await manager.collect(tasks)
    assert (episode.outcome, episode.outcome_reward) == ({"success": 1.0, "return": -13.0}, 1.0)


def test_one_name_stands_for_one_environment(ours):
    with pytest.raises(DuplicateNameError):
        register_gymnasium("Taxi-v4")
    assert register_gymnasium("Taxi-v4", "acme/rainy-taxi-v1", options={"is_rainy": True}) == "acme/rainy-taxi-v1"


async def test_what_cannot_be_adapted_is_refused_with_the_reason(ours):
    with pytest.raises(TaskError, match="only a Discrete space"):
        register_gymnasium("Pendulum-v1")
    with pytest.raises(TaskError, match="is not an environment that register_gymnasium registered"):
        gymnasium_tasks("agentgym/text-sokoban-v1")
    environment = make(ours["FrozenLake-v1"])
    with pytest.raises(TaskError, match=r"^t: gymnasium.make\('FrozenLake-v1', .*thickness"):
        await environment.reset(Task("t", "x/y-v1", "?", parameters={"options": {"thickness": 3}}), seed=0)
