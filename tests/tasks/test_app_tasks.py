"""`apps/year-v1`: what is held out, a year in which the apps agree, and how scripted players score on 500 tasks."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from agentgym import Budgets, Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, load, load_task_set
from agentgym.tasks.apps.task_set import HELD_OUT_APPS, HELD_OUT_PAIRS, SEEDS


@pytest.fixture(scope="module")
def task_set():
    return load_task_set("apps/year-v1")


@pytest.fixture(scope="module")
def sample(task_set):
    return random.Random(0).sample([task for tasks in task_set.values() for task in tasks], 500)


async def play(tasks, player):
    config = RolloutConfig(budgets=Budgets(max_turns=24), state_keys=False)
    return await EpisodeManager(lambda task: ScriptedPolicy(player(task)), config).collect(tasks)


def apps_of(task):
    return {app for app, _, _ in json.loads(task.truth["steps"])}


def test_splits_share_no_records_and_strata_hold_out_apps_and_compositions(task_set):
    strata = Counter(tag for task in task_set["held_out"] for tag in task.tags if tag.startswith("unseen"))
    assert strata == {"unseen_records": 150, "unseen_apps": 150, "unseen_compositions": 150}
    assert len(task_set["train"]) >= 2_000
    for split, tasks in task_set.items():
        assert {task.parameters["seed"] for task in tasks} <= set(SEEDS[split])
        assert {task.difficulty for task in tasks} == {1.0, 2.0, 3.0}
        for task in tasks:
            assert bool(apps_of(task) & HELD_OUT_APPS) == ("unseen_apps" in task.tags)
            assert 1 <= len(apps_of(task)) <= 4
    asked_first = [json.loads(task.truth["steps"])[0][0] for task in task_set["train"]]
    pairs = Counter(
        (first, app) for first, task in zip(asked_first, task_set["train"], strict=True) for app in apps_of(task)
    )
    assert sum(pairs[pair] for pair in HELD_OUT_PAIRS) < 0.1 * pairs.total()


async def test_the_oracle_solves_all_and_whoever_damages_something_else_solves_nothing(task_set, sample):
    solved = await play(sample, task_set.oracle)
    assert [trajectory.success for trajectory in solved] == [1.0] * 500
    assert all(trajectory.outcome["undocumented"] == trajectory.outcome["failures"] == 0 for trajectory in solved)
    lengths = Counter(trajectory.task.difficulty for trajectory in solved if len(trajectory.turns) >= 5)
    assert lengths[2.0] > 100
    assert lengths[3.0] > 100

    def careless(task):
        *steps, last = task_set.oracle(task)
        call = Call("call", {"app": "notes", "api": "add", "arguments": {"title": "done", "body": "all of it"}})
        return [*steps, Message("assistant", "", (call,)), last]

    damaged = await play(sample, careless)
    assert [trajectory.success for trajectory in damaged] == [0.0] * 500
    assert {trajectory.outcome["collateral_changes"] for trajectory in damaged} == {1.0}


async def test_silence_and_finishing_at_once_solve_nothing(sample):
    for message in (Message("assistant", ""), Message("assistant", "", (Call("finish", {"answer": "done"}),))):
        trajectories = await play(sample, lambda task, message=message: [message] * 3)
        assert sum(trajectory.success for trajectory in trajectories) == 0


async def test_the_imperfect_oracle_solves_some(task_set, sample):
    trajectories = await play(sample[:200], task_set.imperfect_oracle)
    assert 0.3 < sum(trajectory.success for trajectory in trajectories) / 200 < 0.55


@pytest.mark.needs_namespaces
async def test_code_solves_what_single_calls_solve():
    task_set = load_task_set("apps/year-code-v1")
    trajectories = await play(list(task_set["held_out"][::90]), task_set.oracle)
    assert [trajectory.success for trajectory in trajectories] == [1.0] * 5


def test_the_apps_of_a_year_agree_with_each_other():
    """An order is a payment, a mail and an invoice; a birthday is an event; an appointment has a mail."""
    tables = json.loads(load("assets", "apps/year")(3))["tables"]
    products = {row["id"]: row["name"] for row in tables["products"]}
    paid = Counter((row["date"], row["amount"]) for row in tables["payments"] if row["party"] == "Corner Shop")
    mails = {(row["date"][:10], row["subject"]): row["body"] for row in tables["mails"]}
    invoices = {row["path"]: row["content"] for row in tables["files"]}
    for order in tables["orders"]:
        name = products[order["product_id"]]
        assert paid[order["date"], -order["total"]] >= 1
        assert f"{order['total']} crowns" in mails[order["date"], f"Your {name}"]
        assert f"total {order['total']}" in invoices[f"invoices/{name.replace(' ', '-')}.txt"]
    events = {(row["title"], row["date"]) for row in tables["events"]}
    for person in tables["contacts"]:
        assert (f"birthday of {person['name']}", f"2025{person['birthday'][4:]}") in events
    assert sum(row["amount"] for row in tables["payments"]) > 5_000
    assert [row["date"] for row in tables["payments"]] == sorted(row["date"] for row in tables["payments"])


@pytest.mark.thorough
async def test_the_short_set_has_a_ceiling_and_a_hasty_player_who_makes_no_wrong_change():
    short = load_task_set("apps/short-v1")
    tasks = [*short["train"][:30], *short["held_out"][:30]]
    assert {trajectory.success for trajectory in await play(tasks, short.oracle)} == {1.0}
    hasty = await play(tasks, short.imperfect_oracle)
    assert 0.1 < sum(trajectory.success for trajectory in hasty) / 60 < 0.5
    assert {trajectory.outcome["collateral_changes"] for trajectory in hasty} == {0.0}


async def test_a_team_solves_what_one_agent_solves_and_executors_read_their_own_job_alone():
    team = load_task_set("apps/team-v1")
    tasks = team["held_out"][:30]
    solved = await play(tasks, team.oracle)
    assert {trajectory.success for trajectory in solved} == {1.0}
    for trajectory in solved:
        planner, *executors = trajectory.rows()
        jobs = [sentence for sentence, _ in json.loads(trajectory.task.truth["jobs"])]
        assert [row.opening[-1].text for row in executors] == jobs
        assert not any(call.name == "call" for turn in planner.turns for call in turn.calls)
    hasty = await play(tasks, team.imperfect_oracle)
    assert sum(trajectory.success for trajectory in hasty) < 10
    for trajectory in [*solved, *hasty]:  # what is said is what is written next
        calls = [call.arguments for turn in trajectory.turns for call in turn.calls if call.name == "call"]
        lines = [call["arguments"]["line"] for call in calls if call["api"] == "append"]
        assert [turn.message.text for turn in trajectory.turns if turn.message.text] == lines
