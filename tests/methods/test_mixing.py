"""The mixture of sets that short runs speak for: the fit on planted scores, and a search that is taken up again."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from lookup_runs import recipe
from rich.console import Console
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.errors import RecipeError, TaskError
from agentgym.methods.mixing import fit_quadratic, search_mixture
from agentgym.methods.mixing.runs import mixtures_of
from agentgym.storage.ledger import Ledger
from agentgym.training import Recipe


def planted(count: int, seed: int) -> np.ndarray:
    """A quadratic on the simplex that is concave, so that its top often lies within."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(count, count))
    lines = rng.normal(size=count)
    return -factors @ factors.T + (lines[:, None] + lines[None, :]) / 2


@pytest.mark.parametrize(("count", "seed"), [(2, 0), (3, 1), (3, 2), (4, 3), (6, 4)])
def test_a_planted_quadratic_is_recovered_and_its_top_is_found(count, seed):
    truth = planted(count, seed)
    mixtures = np.array(mixtures_of(count, 3 * count * count, seed=7))
    fit = fit_quadratic(mixtures, [row @ truth @ row for row in mixtures])
    np.testing.assert_allclose(fit.matrix, truth, atol=1e-6)
    assert fit.leave_one_out < 1e-6
    best = fit.best()
    assert best.sum() == pytest.approx(1)
    assert (best >= 0).all()
    rng = np.random.default_rng(seed)
    elsewhere = np.vstack([np.eye(count), rng.dirichlet(np.ones(count), 20_000)])
    near = np.abs(best + rng.normal(scale=1e-3, size=(20_000, count)))
    for rows in (elsewhere, near / near.sum(axis=1, keepdims=True)):
        assert fit.score(best) >= max(np.einsum("ni,ij,nj->n", rows, truth, rows)) - 1e-6


def test_the_top_of_a_convex_quadratic_is_a_corner():
    fit = fit_quadratic(mixtures_of(3, 20, seed=0), [max(0.0, row[1]) ** 2 for row in mixtures_of(3, 20, seed=0)])
    np.testing.assert_allclose(fit.best(), [0, 1, 0], atol=1e-9)


def test_noise_is_told_from_a_pattern_by_what_the_fit_has_not_seen():
    mixtures, rng = mixtures_of(3, 30, seed=0), np.random.default_rng(0)
    noise = fit_quadratic(mixtures, rng.normal(size=30))
    assert noise.leave_one_out > 0.9 * noise.spread
    assert noise.ridge > 1e-6, "and it is held back"
    pattern = fit_quadratic(mixtures, [row[0] * row[1] + 0.001 * rng.normal() for row in mixtures])
    assert pattern.leave_one_out < 0.1 * pattern.spread


def test_too_little_or_too_much_is_refused():
    with pytest.raises(TaskError, match="2 mixtures were scored, and a fit needs at least three"):
        fit_quadratic([[1, 0], [0, 1]], [0.0, 1.0])
    with pytest.raises(TaskError, match="A mixture of 13 sources is too large"):
        fit_quadratic(mixtures_of(13, 20, seed=0), [0.0] * 20).best()


def test_mixtures_are_corners_the_centre_and_draws_that_more_runs_begin_with():
    mixtures = mixtures_of(3, 9, seed=1)
    assert mixtures[:4] == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1 / 3] * 3]
    assert all(sum(row) == pytest.approx(1) for row in mixtures)
    assert mixtures_of(3, 6, seed=1) == mixtures[:6]
    assert mixtures_of(3, 9, seed=2)[4:] != mixtures[4:]


def mixed() -> Recipe:
    """Two sets, a warm start that teaches nothing, and one step."""
    data = recipe().model_dump(exclude_none=True)
    data["tasks"] = {"sources": [{"set": "test/lookup-v1"}, {"set": "test/press-v1"}]}
    data["warm_start"] |= {"steps": 1, "demonstrations": 8}
    data["train"] |= {"steps": 1, "validate_tasks": 16}
    return Recipe.parse(data)


def test_a_search_trains_each_mixture_once_and_touches_no_held_out_task(tmp_path):
    chosen, folder = mixed(), tmp_path / "search"
    first = search_mixture(chosen, folder, runs=3, console=Console(file=io.StringIO()))
    reports = {run: (folder / run / "report.html").stat().st_mtime_ns for run in ("run-00", "run-01", "run-02")}
    (folder / "run-03").mkdir()  # as if the next had been killed at once
    second = search_mixture(chosen, folder, runs=4)
    assert {run: (folder / run / "report.html").stat().st_mtime_ns for run in reports} == reports
    assert second.scores[:3] == first.scores
    assert json.loads((folder / "mixtures.json").read_text()) == json.loads(json.dumps(second.to_json()))
    for number, weights in enumerate(second.mixtures):
        ledger = Ledger(folder / f"run-{number:02d}" / "ledger.sqlite")
        drawn = {tag for t in ledger.trajectories("train-") for tag in t.task.tags if tag.startswith("source:")}
        labels = {t.task.split for t in ledger.trajectories("")}
        ledger.close()
        assert labels == {"train"}
        if 1.0 in weights:
            assert drawn == {f"source:{second.sources[weights.index(1.0)]}"}
    with pytest.raises(RecipeError, match="already contains a search with another recipe or seed"):
        search_mixture(chosen, folder, runs=3, seed=5)
    with pytest.raises(RecipeError, match=r"the last validation has no metric 'succes'.*success"):
        search_mixture(chosen, folder, runs=3, metric="succes")
    file = tmp_path / "mixed.toml"
    file.write_text(chosen.to_toml())
    result = CliRunner().invoke(app, ["tasks", "mix", str(file), "--out", str(folder), "--runs", "4", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["best"]["weights"] == pytest.approx(second.best)
    table = CliRunner().invoke(app, ["tasks", "mix", str(file), "--out", str(folder), "--runs", "4"])
    assert "best" in table.output
    assert "The fit misses a run that it has not seen by" in table.output


def test_a_search_needs_sources_and_enough_runs(tmp_path, monkeypatch):
    with pytest.raises(RecipeError, match=r"tasks\.sources must list at least two sets"):
        search_mixture(recipe(), tmp_path / "a", runs=3)
    with pytest.raises(RecipeError, match="2 runs are too few for 2 sources"):
        search_mixture(mixed(), tmp_path / "b", runs=2)
    monkeypatch.setattr("agentgym.methods.mixing.runs.MAX_SOURCES", 1)
    with pytest.raises(RecipeError, match="lists 2 sets, but a search of mixtures allows at most 1"):
        search_mixture(mixed(), tmp_path / "c", runs=3)
    assert not list(tmp_path.iterdir())
