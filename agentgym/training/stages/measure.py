"""Measurements: validation during training, evaluation on held-out tasks before and after it, and the report at the
end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym.evaluation.cuts import cuts_of, format_cuts, recipe_option
from agentgym.evaluation.diagnostics import summarise
from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.report import write_report
from agentgym.evaluation.runner import add_search, from_trajectories, note_held_out_use
from agentgym.evaluation.runner import choose as choose_tasks
from agentgym.evaluation.search import make_search
from agentgym.evaluation.text import format_gains
from agentgym.rollout.search import SearchUsage
from agentgym.text import counted, percent
from agentgym.training.model.model_failures import PLAYING_REMEDY, out_of_memory_named
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import define_stage
from agentgym.trajectory.record import Trajectory

EVALUATION = "evaluation/{name}.json"
"""The path of an evaluation in the run folder."""
Choose = Callable[[Sequence[Trajectory]], Trajectory]
"""A function that chooses, from the episodes of one task, the one that is measured."""


def validate(
    context: RunContext,
    learner: Learner,
    step: int,
    count: int,
    phase: str,
    *,
    stratum: str | None = None,
    changes: Mapping[str, Any] = {},
) -> dict[str, float]:
    """Play validation tasks with the current weights and log their metrics under `phase`.

    Args:
        count: number of tasks. stratum: play only tasks with this tag.
        changes: changes of the rollout config for this validation.
    Returns: the metrics.
    """

    def play() -> dict[str, float]:
        training = learner.model.training
        config = context.recipe.evaluation_config(context.rollouts.config)
        config = replace(config.at_temperature(context.recipe.evaluate.temperature), reward=context.reward, **changes)
        trajectories = context.rollouts.with_config(config).play(
            learner.policy,
            choose_tasks(context.task_set, "validation", count, stratum=stratum),
            label=f"{phase}-{step:06d}",
            record=False,
        )
        learner.model.train(training)
        metrics = summarise(trajectories)
        context.folder.log(step, phase, **metrics)
        shown_phase, success = context.folder.phase(phase).replace("_", " "), metrics.get("success", float("nan"))
        line = f"{shown_phase} at step {step}: success {success:.3f}"
        context.console.print(
            f"{line} on {counted(len(trajectories), 'task')}", markup=False, highlight=False, soft_wrap=True
        )
        _say_cuts(context, phase, cuts_of(trajectories), len(trajectories))
        return metrics

    learner.gather()
    return context.processes.share(play)


def _say_cuts(context: RunContext, what: str, counts: Mapping[str, int], episodes: int) -> None:
    """Print which of the recipe's budgets ended episodes of a measurement, and how many; nothing if none did."""

    def key(name: str) -> str:
        own = getattr(context.recipe.evaluate, name, None)
        return recipe_option(name) if own is None else f"evaluate.{name}"

    if cuts := format_cuts(counts, key, episodes=episodes):
        context.console.print(f"{what}, {cuts}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def measure_held_out(
    context: RunContext,
    when: str,
    learner: Learner,
    parameters: Mapping[str, Any] | None = None,
    group_size: int | None = None,
    choose: Choose | None = None,
) -> None:
    """Evaluate on held-out tasks and write evaluation/<when>.json, unless that file exists.

    Args:
        parameters: override some of the tasks' parameters, which changes the environment but not questions and truth.
        group_size: the number of episodes of each task, instead of `evaluate.group_size`.
        choose: chooses the one episode of each task that is measured, without knowing the truth.
    """
    with out_of_memory_named(f"the evaluation {when}", PLAYING_REMEDY):
        context.processes.share(lambda: _measure(context, when, learner, parameters, group_size, choose))


def _measure(
    context: RunContext,
    when: str,
    learner: Learner,
    parameters: Mapping[str, Any] | None,
    group_size: int | None,
    choose: Choose | None,
) -> None:
    recipe, section, policy = context.recipe, context.recipe.evaluate, learner.policy
    file = _evaluation_file(context, when)
    if file.is_file():
        return
    tasks = choose_tasks(context.task_set, "held_out", section.tasks)
    if parameters:
        tasks = [replace(task, parameters={**task.parameters, **parameters}) for task in tasks]
    config = recipe.evaluation_config(context.rollouts.config).at_temperature(section.temperature)
    rollouts = context.rollouts.with_config(config)
    started, group_size = time.monotonic(), group_size or section.group_size
    with context.progress_bar(f"held-out {when}", len(tasks) * group_size) as advance:
        costs: dict[tuple[str, int], SearchUsage] = {}
        options: dict[str, Any] = {"label": f"held-out-{when}", "group_size": group_size}
        options["on_trajectory"] = lambda _: advance()
        search = make_search(section.search) if section.search and choose is None else None
        if search is None:
            trajectories = rollouts.play(policy, tasks, **options)
        else:
            episodes = rollouts.search(policy, tasks, search, **options)
            trajectories = [episode.trajectory for episode in episodes]
            costs = {(t.task.id, t.sample): e.cost for t, e in zip(trajectories, episodes, strict=True)}
    held_out_uses = note_held_out_use(
        context.task_set,
        "held_out",
        tasks,
        policy=policy.name,
        label=f"{context.folder.path.resolve()}/{when}",
        seed=recipe.seed,
        judged=any(trajectory.scored for trajectory in trajectories),
    )
    if choose is not None:
        starts = range(0, len(trajectories), group_size)
        trajectories = [choose(trajectories[start : start + group_size]) for start in starts]
    evaluation = from_trajectories(
        trajectories,
        label=when,
        task_set=context.task_set,
        split="held_out",
        policy=policy.name,
        config=config,
    )
    if search is not None:
        add_search(evaluation, search, costs)
    evaluation.held_out_uses, evaluation.adapted = held_out_uses, context.adapted
    evaluation.duration_s = max(evaluation.duration_s, round(time.monotonic() - started, 3))
    context.folder.write_json(EVALUATION.format(name=when), evaluation.to_json())
    _say_cuts(context, f"held-out {when}", evaluation.cuts(), len(trajectories))


@define_stage(section="evaluate", result=EVALUATION)
def evaluate_stage(context: RunContext, learner: Learner) -> Learner:
    """Measures the policy on held-out tasks, according to [evaluate]."""
    measure_held_out(context, context.stage, learner)
    return learner


@define_stage(section="evaluate", result=EVALUATION)
def control_stage(context: RunContext, learner: Learner) -> Learner:
    """Measures the policy with the task parameters of `evaluate.control`: a task that is then solved was guessed."""
    measure_held_out(context, context.stage, learner, context.recipe.evaluate.control)
    return learner


def conclude(context: RunContext, minutes: float, evaluations: Sequence[str]) -> None:
    """Write the report, and print the gains, the run's duration and the report's path.

    Args:
        evaluations: names of the run's evaluations in order; the first and the last are compared.
    """
    console, stratum = context.console, context.recipe.evaluate.stratum
    report = write_report(context.folder)
    console.print()
    zero_shot, control = (_evaluation_file(context, when) for when in ("zero_shot", "control"))
    files = [_evaluation_file(context, when) for when in evaluations]
    before, after = [*files[:1], *files[-1:]] or [zero_shot, zero_shot]
    if before != after and before.is_file() and after.is_file():
        console.print(format_gains(Evaluation.load(before), Evaluation.load(after), first=stratum))
        if zero_shot.is_file():
            untrained = percent(Evaluation.load(zero_shot).success(stratum).value)
            console.print(f"  before the warm start: {untrained} (zero-shot)")
        if control.is_file():
            guessed = percent(Evaluation.load(control).success(stratum).value)
            console.print(f"  with tools that answer from another environment: {guessed} (what can be guessed)")
    console.print(f"[bold]{context.recipe.name}[/] took {minutes:.1f} minutes. Report: [bold]{report}[/]")


def _evaluation_file(context: RunContext, when: str) -> Path:
    return context.folder.path / EVALUATION.format(name=when)
