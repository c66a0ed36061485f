"""`service/desk-v1`: what is held out, and how scripted players score on 500 customers."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from agentgym import Budgets, Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, load_task_set
from agentgym.sandboxes.service.customer import customer
from agentgym.tasks.service.task_set import SEEDS


@pytest.fixture(scope="module")
def task_set():
    return load_task_set("service/desk-v1")


@pytest.fixture(scope="module")
def sample(task_set):
    return random.Random(0).sample([task for tasks in task_set.values() for task in tasks], 500)


async def play(tasks, player):
    config = RolloutConfig(budgets=Budgets(max_turns=32), state_keys=False)
    return await EpisodeManager(lambda task: ScriptedPolicy(player(task)), config).collect(tasks)


def test_splits_share_no_records_and_a_third_is_of_each_domain_and_level(task_set):
    for split, tasks in task_set.items():
        assert {task.parameters["seed"] for task in tasks} <= set(SEEDS[split])
        third = len(tasks) // 3
        assert Counter(task.tags[0] for task in tasks) == {"retail": third, "travel": third, "telecom": third}
        assert Counter(task.difficulty for task in tasks) == {1.0: third, 2.0: third, 3.0: third}
    known = {call[1] for task in task_set["train"] for call in json.loads(task.truth["moves"]) if call[0] == "call"}
    new = {call[1] for task in task_set["held_out"] for call in json.loads(task.truth["moves"]) if call[0] == "call"}
    assert new - known == {"exchange_article", "add_bags", "variants_of"}


async def test_the_oracle_serves_all_and_whoever_damages_something_else_serves_nobody(task_set, sample):
    solved = await play(sample, task_set.oracle)
    assert [trajectory.success for trajectory in solved] == [1.0] * 500
    assert {trajectory.outcome["user_left_early"] for trajectory in solved} == {0.0}
    erring = [trajectory for trajectory in solved if trajectory.task.difficulty == 3.0]
    assert sum(trajectory.outcome["user_mistakes"] for trajectory in erring) > 20
    assert sum(len(trajectory.turns) >= 6 for trajectory in solved) > 350

    def careless(task):
        """Also changes the records of another customer, before the last words."""
        *moves, last = task_set.oracle(task)
        ids = [move.calls[0].arguments.get("customer_id") for move in moves if move.calls]
        other = next((number for number in ids if number), 1) % 24  # counted from 0: the next customer
        calls = {
            "retail": Call("change_address", {"order_id": 1001 + 3 * other, "address": "x"}),
            "travel": Call("cancel_booking", {"booking_id": 501 + 3 * other}),
            "telecom": Call("add_data", {"line_id": 101 + other, "gigabytes": 1}),
        }
        return [*moves, Message("assistant", "", (calls[task.parameters["domain"]],)), last]

    damaged = await play(sample, careless)
    assert sum(trajectory.success for trajectory in damaged) == 0
    assert {trajectory.stop_reason.value for trajectory in damaged} == {"environment"}


async def test_who_says_nothing_hands_over_or_lists_all_numbers_serves_nobody(sample):
    players = {
        "silent": Message("assistant", ""),
        "chatty": Message("assistant", "I am glad that you call."),
        "handing over": Message("assistant", "", (Call("hand_over", {"reason": "I do not know."}),)),
        "listing": Message("assistant", f"{' '.join(map(str, range(500)))} Is there anything else?"),
        "listing bit by bit": lambda messages: few_numbers(sum(m.role == "assistant" for m in messages)),
    }
    for who, message in players.items():
        script = message if callable(message) else lambda messages, message=message: message
        trajectories = await play(sample[:150], lambda task, script=script: script)
        assert sum(trajectory.success for trajectory in trajectories) == 0, who
        assert not any(trajectory.error for trajectory in trajectories), who


def few_numbers(turn):
    """All prices that there are, three in a message, and then the last words."""
    first = 14 + 3 * turn
    return f"{first}, {first + 1}, {first + 2}? Please confirm." if first < 95 else "Is there anything else?"


def test_a_customer_speaks_of_the_request_in_question_alone(task_set):
    """Facts that both requests shared made it name the second one's article when it was asked about the first."""
    question = Message("user", "Which product, article, booking or flight is it?")
    of_two = [task for task in task_set["train"] if len(task.parameters["customer"]["requests"]) == 2]
    count = 0
    for task in of_two:
        wishes = task.parameters["customer"]
        conversation = [Message("system", "s")]
        for request, facts in zip(wishes["requests"], wishes["request_facts"], strict=True):
            conversation += [Message("user", "Go on."), Message("assistant", request), question]
            answer = customer(wishes)(conversation)
            if thing := facts.get("product", facts.get("booking")):
                assert answer.startswith(thing)
                assert thing.removesuffix(".").rpartition("the ")[2].removeprefix("flight to ") in request
                count += 1
    assert count > 500


async def test_the_imperfect_oracle_serves_some(task_set, sample):
    trajectories = await play(sample[:150], task_set.imperfect_oracle)
    assert 0.35 < sum(trajectory.success for trajectory in trajectories) / 150 < 0.65


async def test_the_short_set_has_one_request_each_a_ceiling_and_a_hasty_player():
    short = load_task_set("service/short-v1")
    tasks = [*short["train"][:30], *short["held_out"][:30]]
    assert {len(task.parameters["customer"]["requests"]) for task in tasks} == {1}
    assert {trajectory.success for trajectory in await play(tasks, short.oracle)} == {1.0}
    hasty = await play(tasks, short.imperfect_oracle)
    assert 0.25 < sum(trajectory.success for trajectory in hasty) / 60 < 0.65
