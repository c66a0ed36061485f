"""`agentgym play`: a person plays an environment."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.console import Interrupted, out, run
from agentgym.cli.fields import takes
from agentgym.cli.options import check_sandboxes, judging_options, one_task, split_tasks, unhurried
from agentgym.cli.user_code import Import
from agentgym.errors import TaskError
from agentgym.text import counted

if TYPE_CHECKING:
    from agentgym.cli.rollout_options import RolloutOptions
    from agentgym.task.task_set import TaskSet


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedTask:
    """The task to play: from a task set, or written on the command line."""

    tasks: Annotated[str | None, typer.Option("--task-set", "--tasks", metavar="SET[:SPLIT]")] = None
    """The task set of the task. By default it is a registered set whose tasks are played in the environment."""
    index: Annotated[int, typer.Option(min=0)] = 0
    """The number of the task in the split, from 0."""
    task_id: Annotated[str | None, typer.Option("--task", metavar="ID")] = None
    """The id of the task, instead of its number."""
    prompt: str | None = None
    """Play without a task set: the text of the task."""
    parameters: Annotated[str, typer.Option(metavar="JSON")] = "{}"
    """The parameters of the task, with --prompt."""
    truth: Annotated[str, typer.Option(metavar="JSON")] = "{}"
    """What the reward of the task compares with, with --prompt. Without it the episode may end unjudged."""


@takes(chosen=PlayedTask, options=judging_options)
def play(
    environment: Annotated[str, typer.Argument(metavar="ENVIRONMENT", help="A registered id, e.g. agentgym/sql-v1.")],
    chosen: PlayedTask,
    options: RolloutOptions,
    modules: Import = None,
) -> None:
    """Play an environment yourself: read the task, call the tools, get the rewards. Reads standard input.

    Example: agentgym play agentgym/sql-v1 --task-set sql/store-v1:train --index 3
    """
    from agentgym import registry
    from agentgym.cli.human import HumanPolicy
    from agentgym.cli.tables import result_text
    from agentgym.rollout.manager import EpisodeManager
    from agentgym.task.definition import Task

    registry.load("environments", environment)
    if chosen.prompt is not None:
        task = Task(
            "play",
            environment,
            chosen.prompt,
            parameters=_json("--parameters", chosen.parameters),
            truth=_json("--truth", chosen.truth),
        )
    else:
        task = _find_task(environment, chosen)
    console = out()
    human = HumanPolicy(console)
    config = replace(unhurried(options.make_config()), environment=environment)
    check_sandboxes([task], config)
    manager = EpisodeManager(human, config, label="play")
    [trajectory] = run(manager.collect([task]))
    if trajectory.turns:
        for result in trajectory.turns[-1].results:
            console.print("  ->", result_text(result))
    for turn in trajectory.turns:
        if turn.rewards:
            rewards = "  ".join(f"{name} {value:+.3g}" for name, value in turn.rewards.items())
            console.print(f"turn {turn.index + 1}: {rewards}", style="dim", markup=False)
    unjudged = chosen.prompt is not None and not task.truth and str(trajectory.error).startswith("JudgeError")
    if trajectory.error and not unjudged:
        raise TaskError(f"The episode could not be played: {trajectory.error}")
    stop = trajectory.stop_reason.value if trajectory.stop_reason else "not finished"
    outcome = "  ".join(f"{name} {value:+.3g}" for name, value in trajectory.outcome.items()) or "no reward judged it"
    if unjudged:
        stop, outcome = "ended", f"its reward needs --truth ({trajectory.error})"
    console.print(f"{stop} after {counted(len(trajectory.turns), 'turn')}: {outcome}", style="bold", markup=False)
    if human.interrupted:
        raise Interrupted("You stopped the episode. Play it again with the same command.")


def _find_task(environment: str, chosen: PlayedTask) -> Any:
    """Return the task to play. Raises: TaskError listing the available tasks."""
    from agentgym import registry

    if chosen.tasks is None:
        return one_task(_set_for(environment), "train", chosen.index, chosen.task_id)
    name, split = split_tasks(chosen.tasks, "train")
    return one_task(registry.load_task_set(name), split, chosen.index, chosen.task_id)


def _set_for(environment: str) -> TaskSet:
    """Return a registered task set whose tasks are played in this environment. Raises: TaskError if there is none."""
    from agentgym import registry

    if (task_set := registry.task_set_for(environment)) is None:
        raise TaskError(
            f"No registered task set uses the environment {environment!r}. Name one by --task-set NAME or --task-set "
            "FILE.jsonl, or write the task on the command line: --prompt TEXT --parameters JSON."
        )
    return task_set


def _json(option: str, text: str) -> dict[str, Any]:
    """Read an option that is a JSON object. Raises: TaskError."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise TaskError(f"{option} {text!r} is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise TaskError(f"{option} {text!r} is not a JSON object. Write for example '{{\"target\": 3}}'.")
    return value
