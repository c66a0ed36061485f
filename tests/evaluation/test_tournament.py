"""Several agents on the same tasks: every pair, corrected; several seeds; second verdicts; the command over files."""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.errors import EvaluationError
from agentgym.evaluation.comparison import compare, on_common_tasks
from agentgym.evaluation.outcomes import TaskOutcome
from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.statistics.power import spread_of, tasks_needed
from agentgym.evaluation.tournament import over_seeds, tournament
from agentgym.evaluation.tournament_tables import Drawn, tables

FACTS = {"arms": {}, "tasks": 80}
ENVIRONMENT_VARIABLES = {**os.environ, "COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"}


def evaluation(
    label: str, rate: float, *, tasks: int = 80, samples: int = 2, seed: int = 0, start: int = 0
) -> Evaluation:
    """Made-up samples; a second verdict, `process`, holds for every other success."""
    rows, tasks, samples = [], 80, 2
    for i in range(start, start + tasks):
        rng = np.random.default_rng([seed, i])
        hard = np.random.default_rng(i).random()
        won = [float(rng.random() < min(1.0, rate * 2 * hard)) for _ in range(samples)]
        rows.append(
            TaskOutcome(
                f"t{i}",
                ["odd" if i % 2 else "even"],
                won,
                [1 + i % 6] * samples,
                ["answered"] * samples,
                [2] * samples,
                [2] * samples,
                won,
                [0] * samples,
                [0.1] * samples,
                [{}] * samples,
                [{"cpu_s": 0.1}] * samples,
                [{"success": w, "process": float(w and s == 0)} for s, w in enumerate(won)],
                f"hash{i}",
            )
        )
    return Evaluation(label, "acme/x-v1", "held_out", "f", label, samples, seed, rows, manifest=f"{start}-{tasks}")


def agentgym(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env=ENVIRONMENT_VARIABLES)


def test_every_pair_is_compared_and_corrected_for_how_many_there_are():
    arms = {
        name: evaluation(name, rate, seed=i) for i, (name, rate) in enumerate({"a": 0.3, "b": 0.32, "c": 0.7}.items())
    }
    result = tournament(arms, turns=[2, 6])
    by_pair = {(p["first"], p["second"]): p for p in result["pairs"]}
    assert set(by_pair) == {("a", "b"), ("a", "c"), ("b", "c")}
    assert by_pair["a", "c"]["significant"]
    assert by_pair["b", "c"]["significant"]
    assert not by_pair["a", "b"]["significant"]
    assert all(p["p_holm"] >= p["p"] for p in result["pairs"])
    assert min(p["p_holm"] for p in result["pairs"]) == pytest.approx(3 * min(p["p"] for p in result["pairs"]))
    arm = result["arms"]["c"]
    assert arm["pass_at"]["1"]["value"] == arm["success"]["value"] < arm["pass_at"]["2"]["value"]
    assert arm["within_turns"]["2"]["value"] < arm["within_turns"]["6"]["value"] == arm["success"]["value"]
    json.dumps(result, allow_nan=False)


def test_a_second_verdict_has_to_hold_as_well():
    measured = evaluation("a", 0.6)
    assert measured.success(also="process").value == pytest.approx(
        sum(r.success[0] for r in measured.rows) / len(measured.rows) / 2
    )
    assert measured.pass_curve(also="process")[2].value == pytest.approx(np.mean([r.success[0] for r in measured.rows]))
    assert compare(measured, measured, also="process").difference.value == 0.0
    with pytest.raises(EvaluationError, match=r"without the component 'proces'.*agentgym episodes rescore"):
        measured.success(also="proces")


def test_a_pair_is_shown_by_kind_of_task_and_by_the_tasks_that_changed():
    [pair] = tournament({"a": evaluation("a", 0.3), "b": evaluation("b", 0.7, seed=1)})["pairs"]
    assert [each["tag"] for each in pair["strata"]] == [None, "even", "odd"]
    assert pair["strata"][0]["gain"] == pair["gain"]
    assert len(pair["changed"]) == pair["better"] + pair["worse"]
    for each in pair["changed"]:
        solved = [float(sample) for sample in (each["first"], each["second"])]
        assert all(episode.split("/")[-1].startswith(f"{each['task']}#") for episode in each["episodes"])
        assert abs(solved[0] - solved[1]) <= abs(pair["changed"][0]["second"] - pair["changed"][0]["first"])
    by_kind, changed = (table for table in tables({**FACTS, "pairs": [pair]}) if "->" in table.title)
    assert [row[0] for row in by_kind.rows] == ["all tasks", "even", "odd"]
    losses = sum(each["second"] < each["first"] for each in pair["changed"])
    assert 0 < losses <= 5
    assert len(changed.rows) == 10
    assert [row[0] for row in changed.rows[:losses]] == [
        each["task"] for each in pair["changed"] if each["second"] < each["first"]
    ]


def test_an_interval_is_drawn_in_characters_where_its_numbers_are():
    drawn = Drawn({"value": 0.2, "low": 0.1, "high": 0.3, "n": 4}, -0.2, 0.6, characters=9)
    assert drawn.in_characters() == "  |-o-   "
    assert Drawn({"value": 0.9, "low": 0.5, "high": 2.0, "n": 4}, 0.0, 1.0, characters=5).in_characters() == "| --o"


def test_only_common_tasks_are_compared_when_asked_and_a_changed_task_is_another():
    first, second = evaluation("a", 0.5, start=0), evaluation("b", 0.5, start=40)
    with pytest.raises(EvaluationError, match="40 tasks are only in the first"):
        tournament({"a": first, "b": second})
    second.rows[0].hash = "changed"
    assert tournament({"a": first, "b": second}, common=True)["tasks"] == 39
    second.rows = second.rows[40:]
    with pytest.raises(EvaluationError, match="no task in common"):
        on_common_tasks([first, second])
    first.rows[0].hash = ""
    with pytest.raises(EvaluationError, match="because an older agentgym wrote it"):
        on_common_tasks([first, second])


def test_success_within_a_budget_of_another_unit_is_refused():
    assert evaluation("a", 0.5).within("calls", [1])[1].value == 0.0
    with pytest.raises(EvaluationError, match="cannot be counted in 'dollars'"):
        evaluation("a", 0.5).within("dollars", [1])


def test_seeds_are_compared_by_iqm_probability_of_improvement_and_adastop():
    arms = {
        name: [evaluation(name, rate, seed=10 * i + s) for s in range(6)]
        for i, (name, rate) in enumerate((("weak", 0.3), ("strong", 0.6)))
    }
    result = over_seeds(arms, interims=2, resamples=200)
    [pair] = result["pairs"]
    assert pair["probability"]["low"] > 0.5
    weak, strong = result["arms"]["weak"], result["arms"]["strong"]
    assert weak["iqm"]["high"] < strong["iqm"]["low"]
    assert weak["profile"][10] < strong["profile"][10]
    assert result["adastop"][0]["verdict"] == "worse"
    with pytest.raises(EvaluationError, match="whole interims"):
        over_seeds({"a": arms["weak"], "b": arms["strong"][:4]}, interims=2, resamples=10)


def test_the_spread_of_tasks_is_found_from_their_samples():
    rng = np.random.default_rng(0)
    alike = [list((rng.random(8) < 0.5).astype(float)) for _ in range(400)]
    unlike = [list((rng.random(8) < p).astype(float)) for p in rng.beta(0.5, 0.5, 400)]
    assert spread_of(alike) == pytest.approx(0.0, abs=0.03)
    assert spread_of(unlike) == pytest.approx(0.5, abs=0.06)  # 1 / (0.5 + 0.5 + 1)
    assert spread_of([[1.0], [0.0]], default=0.4) == 0.4


def test_the_commands_compare_files_runs_and_seeds(tmp_path):
    for name, rate, seed in (("a", 0.3, 1), ("b", 0.7, 2), ("c", 0.3, 3), ("d", 0.7, 4)):
        record = tmp_path / "run" / "evaluation" / f"{name}.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        evaluated = evaluation(name, rate, seed=seed)
        evaluated.created = seed
        record.write_text(json.dumps(evaluated.to_json()))
    run = tmp_path / "run"
    (run / "report.html").touch()
    done = agentgym(
        "compare",
        f"{run}:a",
        f"new=<b>={run}:b".replace("=<b>", ""),
        "--turns",
        "2,6",
        "--json",
        tmp_path / "c.json",
        "--html",
        tmp_path / "c.html",
    )
    assert done.exit_code == 0, done.output
    assert "run:a -> new" in done.stdout
    assert "not chance" in done.stdout
    assert "pass@k" in done.stdout
    assert json.loads((tmp_path / "c.json").read_text())["pairs"][0]["significant"]
    assert "Gain by kind of task: run:a -> new" in done.stdout
    assert f"agentgym show {run} --episode ID" in done.stdout
    page = (tmp_path / "c.html").read_text()
    assert 'href="run/report.html#/run/run/episode/' in page
    assert "run:a to new" in page
    assert "<script" not in page
    assert page.count("<svg") >= 2 + 1, "an interval for each agent, and for the pair"
    assert re.search(
        r"From .* to .*: [+-][\d.]+ points \(.*\)\. Of \d+ tasks, \d+ solved more often, \d+ less often; ", page
    )
    seeds = agentgym("compare", f"old={run}:a,{run}:c", f"<i>={run}:b,{run}:d", "--html", tmp_path / "s.html")
    assert "Chance that it improves" in seeds.stdout, seeds.output
    assert "<i>" not in (tmp_path / "s.html").read_text()
    assert agentgym("compare", run / "evaluation" / "a.json", run).stdout.count("run:d") >= 1  # the newest of the run
    for words, message in [
        (("compare", f"{run}:a"), "at least two evaluations"),
        (("compare", f"{run}:a", f"{run}:x"), "has no evaluation 'x'. Its evaluations are: a, b, c, d"),
        (("compare", f"{run}:a", f"{run}:b", "--turns", "two"), "whole numbers"),
        (("compare", f"{run}:a,{run}:c", f"{run}:b", "--common"), "work only with one evaluation per agent"),
        (("power", "--gain", 0), "a gain must not be 0"),
    ]:
        failed = agentgym(*words)
        assert failed.exit_code == 2
        assert message in failed.stderr
    power = agentgym("power", "--gain", 3, "--group-size", 4)
    assert f"{tasks_needed(0.03, samples=4):,} tasks" in power.stdout
    assert "spread" in agentgym("power", "--from", run / "evaluation" / "a.json").stdout
    assert "with a chance of" in agentgym("power", "--tasks", 200).stdout
