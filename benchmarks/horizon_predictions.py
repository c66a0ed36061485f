"""Predictions of `benchmarks/horizon.py`, written before the first run: steps to 80 % from the noise of each estimator.

Only one number is known about a task set at a horizon: the probability that a turn of the warm-started model is right,
measured on validation tasks. The rest is the model of `agentgym.methods.credit_advice.subtasks`: independent turns, an
ideal critic, and either one skill that all turns share or a skill for each turn. A real network is in between.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from horizon_cells import ARMS, GROUP_SIZE, TARGET, Cell, episodes_per_step, recipe_of
from rich.console import Console
from training_runs import play

from agentgym.credit import CreditWarning, estimator
from agentgym.methods.credit_advice.subtasks import SubtaskChain, signal_to_noise, steps_to

SEEDS = 3
MAX_STEPS = 400
SKILLS = ("shared", "own")
NOISE = {"noisy": 1.0, "very_noisy": 4.0}  # of a turn's reward, in units of what a right turn earns


def predict(cells: Sequence[Cell], starts: Mapping[tuple[str, int], Path], out: Path, console: Console) -> None:
    """Add missing predictions to predictions.json. Existing predictions are never changed."""
    file = out / "predictions.json"
    known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    for cell in cells:
        key = f"{cell.environment}-{cell.horizon}"
        if key not in known:
            chance = chance_of_right(cell, starts[cell.environment, cell.seed])
            known[key] = {"chance": chance, "cells": {}}
            console.print(f"{key}: a turn is right with the chance {chance:.2f} before training", markup=False)
        row = f"{cell.feedback}-{cell.arm}"
        if row not in known[key]["cells"]:
            known[key]["cells"][row] = prediction(cell, known[key]["chance"])
            partial = file.with_suffix(".partial")
            partial.write_text(json.dumps(known, indent=1), encoding="utf-8")
            partial.replace(file)


def chance_of_right(cell: Cell, start: Path) -> float:
    """Return how often a turn is right on validation tasks: mean progress, or success if one turn decides."""
    from agentgym.evaluation.runner import choose

    recipe = recipe_of(cell, start, steps=1)
    task_set = recipe.tasks.load()
    trajectories = play(recipe, start, task_set, choose(task_set, "validation"), group_size=4)
    component = "success" if decisive_turns(cell) == 1 else "progress"
    values = [trajectory.outcome[component] for trajectory in trajectories]
    return min(max(sum(values) / len(values), 0.02), 0.98)


def decisive_turns(cell: Cell) -> int:
    """Return how many turns of an episode must be right."""
    return 1 if cell.environment == "first_door" else cell.horizon


def prediction(cell: Cell, chance: float) -> dict[str, Any]:
    """Return predicted episodes to 80 %, and the signal-to-noise ratio of a group's gradient, by kind of skill."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CreditWarning)
        chosen = estimator(ARMS[cell.arm])
    feedback: Any = "dense" if cell.feedback in NOISE else cell.feedback
    noise = NOISE.get(cell.feedback, 0.0) / cell.horizon
    chain = SubtaskChain(cell.horizon, decisive_turns(cell), feedback, noise)
    ratios = signal_to_noise(chosen, chain, chance=chance, groups=200)
    per_step = episodes_per_step(cell.environment)
    groups = per_step // GROUP_SIZE
    row: dict[str, Any] = {}
    for skills in SKILLS:
        steps = [
            steps_to(TARGET, chosen, chain, chance=chance, skills=skills, groups=groups, most=MAX_STEPS, seed=seed)  # type: ignore[arg-type]
            for seed in range(SEEDS)
        ]
        row[skills] = {"episodes": median(steps) * per_step, "signal_to_noise": round(ratios[skills], 4)}
    return row
