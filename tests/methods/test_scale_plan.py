"""The simulated cluster against arithmetic: hand values, bounds, and what changes it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import lookup_environment
import pytest
from by_day import cases
from lookup_runs import RECIPE
from rich.console import Console
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.errors import LedgerError, RecipeError
from agentgym.methods.scale_plan import (
    ClusterShape,
    EpisodeTimes,
    StageTimes,
    StepSchedule,
    TurnTimes,
    make_plan,
    simulate,
)
from agentgym.methods.scale_plan.fitting import token_load
from agentgym.methods.scale_plan.measuring import measure
from agentgym.training import Recipe

# Two turns of 10 tokens at 0.1 s and a tool of 0.5 s, and 1 s beside: 4 s. A step learns for 2 s.
EPISODE = EpisodeTimes((TurnTimes(10, 0.5), TurnTimes(10, 0.5)), 1.0)
TIMES = StageTimes((EPISODE,), token_s=0.1, token_load_s=0.0, learn_s=2.0)
ROOMY = ClusterShape(nodes=8, episodes_per_node=64)
STEP = StepSchedule(groups=4, group_size=4)


@pytest.fixture
def recipe() -> Recipe:
    return Recipe.parse(json.loads(json.dumps(RECIPE)))


def test_synchronous_steps_take_an_episode_and_a_step_of_learning():
    reached = simulate(TIMES, ROOMY, STEP)
    assert reached.step_s == pytest.approx(6.0)
    assert reached.episodes_per_s == pytest.approx(16 / 6)
    assert reached.trainer_busy == pytest.approx(2 / 6)
    assert reached.servers_busy == pytest.approx(2 / 6)  # while both turns are sampled
    assert reached.slots_busy == pytest.approx(16 * 4 / 6 / 512)
    assert reached.token_s == pytest.approx(0.1)
    assert reached.age == 0


def test_a_plan_with_more_turns_than_the_driver_can_carry_is_refused_with_the_number_and_the_remedy():
    """16 episodes of 2 turns in 6 s are 5.3 turns a second; at 0.2 s of the driver each, it carries 4."""
    options = {"nodes": 8, "gpus": 2, "episodes_per_node": 64, "cores": math.inf}
    assert make_plan(TIMES, STEP, **options).base.driver_busy == pytest.approx(0.0013 * 32 / 6)
    with pytest.raises(RecipeError, match=r"would play 5 turns a second, but .* carry 4, at 200 ms .*vllm\.url"):
        make_plan(TIMES, STEP, **options, driver_turn_s=0.2)


def test_with_staleness_playing_and_learning_overlap_until_the_trainer_binds():
    """One version ahead: three steps' groups in 6 s at most; two ahead: the trainer's own 2 s."""
    assert simulate(TIMES, ROOMY, replace(STEP, staleness=1)).step_s == pytest.approx(3.0, rel=0.02)
    reached = simulate(TIMES, ROOMY, replace(STEP, staleness=2))
    assert reached.step_s == pytest.approx(2.0)
    assert reached.trainer_busy == pytest.approx(1.0)
    assert reached.age == pytest.approx(2.0)


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_no_group_is_too_old_unless_others_overtake_it(staleness):
    schedule = replace(STEP, staleness=staleness)
    assert simulate(TIMES, ROOMY, schedule).too_old == 0
    slow = EpisodeTimes(EPISODE.turns * 5, 1.0)
    uneven = replace(TIMES, episodes=(EPISODE,) * 30 + (slow,), learn_s=0.5)
    assert (simulate(uneven, ROOMY, schedule, steps=60).too_old > 0) == (staleness > 0)


def test_too_few_slots_play_one_after_another():
    """16 episodes of 4 s in 4 slots take 16 s."""
    assert simulate(TIMES, ClusterShape(1, 4), STEP).step_s == pytest.approx(18.0)


def test_requests_share_a_server_and_calls_share_the_cores():
    loaded = replace(TIMES, token_load_s=0.1)  # a token takes 0.1 s for each request
    assert simulate(loaded, ROOMY, STEP).step_s == pytest.approx(16 * 2 + 1 + 1 + 2)
    assert simulate(loaded, replace(ROOMY, servers=16), STEP).step_s == pytest.approx(6.0)
    one_core = ClusterShape(1, 64, cores=1)
    assert simulate(TIMES, one_core, STEP).step_s == pytest.approx(2 + 16 * 2 * 0.5 + 1 + 2)


def test_the_same_seed_gives_the_same_result():
    times = replace(TIMES, episodes=(EPISODE, EpisodeTimes(EPISODE.turns * 3, 0.0)))
    results = [simulate(times, ROOMY, STEP, seed=seed) for seed in (1, 1, 2)]
    assert results[0] == results[1] != results[2]


# Four turns with a tool of 0.3 s, five times longer in one episode of eight, as in benchmarks/scale.py
WAITING = replace(
    TIMES,
    episodes=tuple(
        EpisodeTimes((TurnTimes(12, wait_s),) * 3 + (TurnTimes(12, 0.0),), 0.005) for wait_s in [0.3] * 7 + [1.5]
    ),
    token_s=0.003,
)


@pytest.mark.parametrize("at_once", [4, 16])
@pytest.mark.parametrize("load_s", cases((0.0, 0.001, 0.003), by_day=[0.003]))
def test_the_load_that_requests_are_to_each_other_is_found_from_what_their_tokens_took(at_once, load_s):
    """At 16 at once a request meets more others than are open on average; their mean would make 5 ms of 1 ms."""
    shape, schedule = ClusterShape(1, at_once), StepSchedule(4, 8)
    seen = simulate(replace(WAITING, token_load_s=load_s), shape, schedule, steps=24, seed=7)
    assert token_load(WAITING, shape, schedule, seen.token_s) == pytest.approx(load_s, rel=0.1, abs=2e-5)


def test_requests_that_never_meet_are_no_load():
    assert token_load(WAITING, ClusterShape(1, 1), StepSchedule(4, 8), 2 * WAITING.token_s) == 0


def plan_of(times: StageTimes, **changes):
    options = {"nodes": 8, "gpus": 2, "episodes_per_node": 64, "cores": math.inf, **changes}
    return make_plan(times, STEP, **options)


def test_the_plan_names_what_binds():
    assert plan_of(TIMES).binding.startswith("staleness")  # one stage waits for the other
    assert plan_of(replace(TIMES, token_load_s=1.0)).binding == "servers x 2"
    assert plan_of(replace(TIMES, learn_s=100.0)).binding == "trainer x 2"
    assert plan_of(TIMES, nodes=1, episodes_per_node=1).binding == "nodes x 2"


def test_gpus_go_where_they_make_steps_fastest():
    learning = plan_of(replace(TIMES, learn_s=100.0), gpus=8).base.shape
    assert (learning.servers, learning.trainer_gpus) == (4, 4)
    playing = plan_of(replace(TIMES, token_load_s=1.0, learn_s=0.0), gpus=8).base.shape
    assert (playing.servers, playing.trainer_gpus) == (7, 1)


def test_as_many_nodes_as_feed_the_trainer():
    """Slots for 16 episodes at once are enough, at 4 a node."""
    assert plan_of(TIMES, episodes_per_node=4).nodes_needed == 4


def test_times_are_read_back_as_they_were_saved(tmp_path):
    TIMES.save(tmp_path / "times.json")
    assert StageTimes.load(tmp_path / "times.json") == TIMES


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"episodes": None}, "episodes"),
        ({"episodes": []}, "stage times need at least one episode"),
        ({"token_s": 0.0}, "token_s above 0"),
        ({"learn_s": "Infinity"}, "and finite times"),
        ({"episodes": [{"turns": [{"tokens": 1, "tools_s": -1.0}], "other_s": 0.0}]}, "the others at least 0"),
    ],
)
def test_a_broken_file_of_stage_times_is_named_with_the_reason_and_the_remedy(tmp_path, changes, reason):
    TIMES.save(file := tmp_path / "times.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(
        LedgerError, match=rf"times.json does not contain stage times \(.*{reason}.*Remove it to measure"
    ):
        StageTimes.load(file)


@pytest.mark.parametrize("change", [{"nodes": 0}, {"gpus": -1}, {"episodes_per_node": 0}, {"cores": math.nan}])
def test_a_cluster_of_nothing_is_refused(change):
    with pytest.raises(RecipeError, match=f"{next(iter(change))} = .*: a cluster has at least 1"):
        plan_of(TIMES, **change)


def test_a_file_in_place_of_the_folder_of_a_measurement_is_named(recipe, tmp_path):
    (tmp_path / "notes").touch()
    with pytest.raises(RecipeError, match=r"notes is a file. Name a folder"):
        measure(recipe, tmp_path / "notes", Console(quiet=True))


def test_the_command_measures_once_and_says_what_binds(recipe, tmp_path):
    def planned(*changes: str):
        words = ["cluster", "plan", str(file), "--nodes", "2", "--gpus", "2", "--out", str(tmp_path / "measured")]
        return CliRunner().invoke(app, [*words, *changes, "--import", lookup_environment.__file__])

    file = tmp_path / "recipe.toml"
    file.write_text(recipe.to_toml())
    first, second = planned(), planned("--staleness", "1")
    assert first.exit_code == second.exit_code == 0, first.output
    assert "Measuring 3 steps with one episode at a time" in first.output
    assert "Measuring" not in second.output
    assert "What binds" in second.output or "No single change" in second.output
    times = StageTimes.load(tmp_path / "measured" / "stage_times.json")
    assert times.token_s > 0 < times.measured_step_s
    assert all(episode.turns for episode in times.episodes)
    on_cluster = ("train.staleness=2", "machine.engine=ray", "machine.address=127.0.0.1:1", "machine.nodes=2")
    third = planned(*(word for key in on_cluster for word in ("--set", key)))  # its stages are those of this machine
    assert third.exit_code == 0
    assert "Measuring" not in third.output
    assert re.search(r"^staleness 1\b", third.output, re.MULTILINE)  # 2 is as planned
    assert not re.search(r"^staleness 2\b", third.output, re.MULTILINE)
    other = planned("--set", "train.optimiser.learning_rate=0.5")
    assert other.exit_code == 2
    assert "has measurements of another recipe" in " ".join(other.output.split())
