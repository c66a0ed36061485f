"""A whole run as plain data for a page: its identity, progress, curves and evaluations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.report.contents import Contents
from agentgym.evaluation.report.findings import estimate_data, findings, finite, stratum
from agentgym.evaluation.report.pace_data import pace_rows
from agentgym.evaluation.report.what_moves import what_moves
from agentgym.evaluation.statistics.proportion import wilson
from agentgym.evaluation.strata import strata
from agentgym.text import visible

MAX_POINTS = 600
"""The maximum number of points of a curve on a page; longer curves are thinned by averaging neighbours."""
SPARK_POINTS = 48
MAX_TAGS = 4
NOT_CURVES = {"step", "time", "epoch"}
MAX_ROUNDS = 100
"""The maximum number of rounds of a repeated block whose curves are drawn."""
MAX_NESTED = 2
"""The maximum depth of nested repeated blocks whose curves are drawn."""


@dataclass(frozen=True, slots=True)
class _StageCurves:
    """A training stage: its phase and validation phase in the metrics, and its settings from the recipe."""

    phase: str
    validation: str
    steps: int
    validate_tasks: int


def run_summary(contents: Contents) -> dict[str, Any]:
    """Return the data of a run for a list of runs."""
    stages = _stages(contents, "reinforce")
    current = next((stage for stage in reversed(stages) if stage.phase in contents.metrics), stages[0])
    train = contents.metrics.get(current.phase, [])
    before, after = contents.pair()
    tag = stratum(contents)
    spark = _points(train, "success") or _points(train, "reward")
    last = {name: rows[-1][1] for name in ("success", "reward") if (rows := _points(train, name))}
    validated = _points(contents.metrics.get(current.validation, []), "success")
    phase = max(contents.metrics, key=lambda name: contents.metrics[name][-1].get("time", 0.0), default=None)
    return {
        "name": visible(contents.name),
        "tasks": _word(contents.recipe_value("tasks", "set")) or _tasks(contents),
        "estimator": _word(contents.recipe_value("train", "estimator")),
        "policy": _policy(contents),
        "phase": phase and visible(phase),
        "step": sum(
            int(contents.metrics[stage.phase][-1]["step"]) for stage in stages if stage.phase in contents.metrics
        ),
        "steps": sum(stage.steps for stage in stages),
        "spark": thinned(spark, SPARK_POINTS),
        "last": last,
        "validation": validated[-1][1] if validated else None,
        "held_out": [_evaluation(e, tag) for e in (before, after) if e is not None],
        "same_tasks": [_evaluation(e, tag) for e in contents.same_tasks()],
        "results": _results(contents),
        "evaluated": len(contents.evaluations),
        "stratum": tag,
    }


def _results(contents: Contents) -> list[dict[str, Any]]:
    """Return the newest evaluation of each split of each task set, for a table of runs and task sets."""
    newest = {(e.task_set, e.split): e for e in sorted(contents.evaluations, key=lambda e: e.created)}
    return [
        {
            "set": visible(f"{evaluation.task_set}:{evaluation.split}"),
            "label": visible(evaluation.label),
            "tasks": len(evaluation.rows),
            "manifest": evaluation.manifest,
            "success": estimate_data(evaluation.success()),
        }
        for evaluation in newest.values()
    ]


def _stages(contents: Contents, kind: str) -> list[_StageCurves]:
    """Return the stages of a kind that the recipe lists, or the default one."""
    usual, validation = {"reinforce": ("train", "validation"), "imitate": ("warm_start", "warm_start_validation")}[kind]
    listed = contents.recipe_value("stage", default=[])
    entries = list(_unrolled(listed))
    if not entries:
        return [_stage_curves(contents, usual, usual, validation, {})]
    stages = []
    for name, entry, options in entries:
        if entry in (kind, *(("prefer", "rank") if kind == "imitate" else ())):
            stages.append(_stage_curves(contents, usual, name, f"{name}_validation", options))
    return stages or [_StageCurves(usual, validation, 0, 64)]


def _unrolled(listed: Any, ending: str = "") -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield name, kind and options of every stage in a recipe; a `repeat` block is unrolled per round."""
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, Mapping):
            continue
        kind, options = str(entry.get("kind")), entry.get("options")
        options = options if isinstance(options, Mapping) else {}
        if kind == "repeat":
            times = options.get("times")
            rounds = min(times, MAX_ROUNDS) if isinstance(times, int) and ending.count("_") < MAX_NESTED else 0
            for number in range(1, 1 + rounds):
                yield from _unrolled(options.get("stages"), f"{ending}_{number}")
            continue
        usual = {"imitate": "warm_start", "reinforce": "train"}.get(kind, kind)
        yield f"{entry.get('name') or usual}{ending}", kind, options


def _stage_curves(
    contents: Contents, section: str, phase: str, validation: str, options: Mapping[str, Any]
) -> _StageCurves:
    def number(key: str, default: int) -> int:
        value = options.get(key, contents.recipe_value(section, key, default=default))
        return value if isinstance(value, int) and value >= 0 else default

    return _StageCurves(phase, validation, number("steps", 0) * number("iterations", 1), number("validate_tasks", 64))


def run_data(contents: Contents) -> dict[str, Any]:
    """Return all data of a run except its episodes."""
    reinforcement, imitation = _stages(contents, "reinforce"), _stages(contents, "imitate")
    return run_summary(contents) | {
        "evaluations": [_evaluation(e, stratum(contents)) | _passes(e) for e in contents.evaluations],
        **findings(contents),
        "curves": {visible(phase): _curves(rows) for phase, rows in contents.metrics.items()},
        "reinforcement": [_phases(stage) for stage in reinforcement],
        "imitation": [_phases(stage) for stage in imitation],
        "bands": {visible(stage.validation): _bands(contents, stage) for stage in (*reinforcement, *imitation)},
        "pace": pace_of(contents),
        "alarms": _alarms(contents),
        "moved_by": {visible(phase): visible(what_moves(rows)) for phase, rows in contents.metrics.items()},
        "notes": [visible(note) for note in contents.notes],
        "recipe": visible(contents.recipe_text),
        "state": _flat(contents.state),
    }


def pace_of(contents: Contents) -> list[dict[str, Any]]:
    """Return the last figures (see pace_rows) of the current or, if none is running, the last training stage."""
    stages = reversed(_stages(contents, "reinforce"))
    current = next((stage for stage in stages if stage.phase in contents.metrics), None)
    return [] if current is None else pace_rows(contents.metrics[current.phase])


def _alarms(contents: Contents) -> list[str]:
    """Return the collapse guard's alarms during training as text. guard.json may be missing or incomplete."""
    alarms = []
    for file in (contents.path / "guard.json", *sorted(contents.path.glob("stages/*/guard.json"))):
        stage = "" if file.parent == contents.path else f"{visible(file.parent.name)}, step"
        try:
            guard = json.loads(file.read_text(encoding="utf-8"))
            alarms += [
                f"{stage or 'Step'} {int(alarm['step'])}: {visible(alarm['reason'])}" for alarm in guard["alarms"]
            ]
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return alarms


def _flat(data: Mapping[str, Any], prefix: str = "") -> list[list[str]]:
    """Return nested settings as table rows: the dotted name and the value."""
    rows: list[list[str]] = []
    for key, value in data.items():
        name = f"{prefix}{key}"
        rows += _flat(value, f"{name}.") if isinstance(value, Mapping) else [[visible(name), visible(value)]]
    return rows


def thinned(points: Sequence[Sequence[float]], most: int) -> list[list[float]]:
    """Return at most `most` points: means of neighbours, and the last point unchanged."""
    if len(points) <= most:
        return [list(point) for point in points]
    size = math.ceil((len(points) - 1) / (most - 1))
    chunks = [points[at : at + size] for at in range(0, len(points) - 1, size)]
    means = [[sum(p[0] for p in chunk) / len(chunk), sum(p[1] for p in chunk) / len(chunk)] for chunk in chunks]
    return [*means, list(points[-1])]


def _curves(rows: Sequence[Mapping[str, float]]) -> dict[str, list[list[float]]]:
    names = sorted({name for row in rows for name in row} - NOT_CURVES)
    curves = {visible(name): thinned(_points(rows, name), MAX_POINTS) for name in names}
    return {name: points for name, points in curves.items() if points}


def _phases(stage: _StageCurves) -> dict[str, str]:
    return {"phase": visible(stage.phase), "validation": visible(stage.validation)}


def _bands(contents: Contents, stage: _StageCurves) -> list[list[float]]:
    """Return Wilson's 95 % interval of each validation success: step, low, high."""
    bands = []
    for row in contents.metrics.get(stage.validation, []):
        if 0 <= row.get("success", -1) <= 1:
            n = max(1, (stage.validate_tasks or 64) - int(row.get("failed", 0)))
            estimate = wilson(row["success"] * n, n)
            bands.append([row["step"], estimate.low, estimate.high])
    return bands


def _points(rows: Sequence[Mapping[str, float]], name: str) -> list[list[float]]:
    return [[row["step"], row[name]] for row in rows if name in row and math.isfinite(row[name])]


def _evaluation(evaluation: Evaluation, first: str | None = None) -> dict[str, Any]:
    """Return an evaluation's data with its most frequent tags, starting with `first`."""
    tags, _ = strata(evaluation, MAX_TAGS, first)
    return {
        "label": visible(evaluation.label),
        "task_set": visible(evaluation.task_set),
        "split": evaluation.split,
        "policy": visible(evaluation.policy),
        "tasks": len(evaluation.rows),
        "group_size": evaluation.group_size,
        "success": estimate_data(evaluation.success()),
        "headline": estimate_data(evaluation.success(first)),
        "failed": evaluation.failed,
        "manifest": evaluation.manifest,
        "run": visible(evaluation.run),
        "turns": finite(evaluation.mean_turns()),
        "created": evaluation.created,
        "calls_ok": finite(evaluation.execution_rate()),
        "failures": dict(evaluation.failures()),
        "held_out_uses": evaluation.held_out_uses,
        "episodes": sum(len(row.success) for row in evaluation.rows),
        "tags": [
            {
                "tag": visible(tag),
                "tasks": len(evaluation.select(tag)),
                "success": estimate_data(evaluation.success(tag)),
            }
            for tag in tags
        ],
    }


def _passes(evaluation: Evaluation) -> dict[str, Any]:
    """Return pass@k and pass^k as lists of [k, estimate]; empty with one episode per task."""
    if evaluation.group_size < 2:
        return {"pass_at": [], "pass_hat": []}
    curves = {"pass_at": evaluation.pass_curve(), "pass_hat": evaluation.pass_curve(all_of_them=True)}
    return {name: [[k, estimate_data(estimate)] for k, estimate in curve.items()] for name, curve in curves.items()}


def _tasks(contents: Contents) -> str | None:
    return visible(contents.evaluations[-1].task_set) if contents.evaluations else None


def _policy(contents: Contents) -> str | None:
    if path := contents.recipe_value("policy", "path"):
        return visible(path)
    if contents.evaluations:
        return visible(contents.evaluations[-1].policy)
    return "a tiny model from nothing" if contents.recipe_value("policy", "tiny") is not None else None


def _word(value: Any) -> str | None:
    return None if value is None else visible(value)
