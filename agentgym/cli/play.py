"""`agentgym play`: a person plays an environment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.console import Interrupted, out, run
from agentgym.cli.options import BackendName, RewardName, Seed, one_task, split_tasks, unhurried_config
from agentgym.cli.user_code import Import
from agentgym.errors import TaskError

if TYPE_CHECKING:
    from agentgym.task import TaskSet


def play(
    environment: Annotated[str, typer.Argument(metavar="ENVIRONMENT", help="A registered id, e.g. agentgym/sql-v1.")],
    tasks: Annotated[
        str | None, typer.Option("--task-set", "--tasks", metavar="SET[:SPLIT]", help="Where the task comes from.")
    ] = None,
    index: Annotated[int, typer.Option(min=0, help="Which task of the split.")] = 0,
    task_id: Annotated[str | None, typer.Option("--task", metavar="ID", help="Which task, by its id.")] = None,
    prompt: Annotated[str | None, typer.Option(help="Play without a task set: what is asked.")] = None,
    parameters: Annotated[str, typer.Option(metavar="JSON", help="With --prompt: the task's parameters.")] = "{}",
    seed: Seed = 0,
    reward: RewardName = None,
    backend: BackendName = None,
    modules: Import = None,
) -> None:
    """Play an environment yourself: read the task, call the tools, get the rewards. Reads standard input.

    Example: [b]agentgym play agentgym/sql-v1 --task-set sql/store-v1:train --index 3[/b]
    """
    from agentgym import registry
    from agentgym.cli.human import HumanPolicy
    from agentgym.cli.tables import result_text
    from agentgym.rollout import EpisodeManager
    from agentgym.task import Task

    registry.load("environments", environment)
    if prompt is not None:
        task = Task("play", environment, prompt, parameters=_json(parameters))
    else:
        task = _find_task(environment, tasks, index, task_id)
    console = out()
    human = HumanPolicy(console)
    config = unhurried_config(environment=environment, reward=reward, backend=backend, seed=seed)
    manager = EpisodeManager(human, config, label="play")
    [trajectory] = run(manager.collect([task]))
    if trajectory.turns:
        for result in trajectory.turns[-1].results:
            console.print("  ->", result_text(result))
    for turn in trajectory.turns:
        if turn.rewards:
            rewards = "  ".join(f"{name} {value:+.3g}" for name, value in turn.rewards.items())
            console.print(f"turn {turn.index + 1}: {rewards}", style="dim", markup=False)
    if trajectory.error:
        raise TaskError(f"The episode could not be played: {trajectory.error}")
    stop = trajectory.stop_reason.value if trajectory.stop_reason else "not finished"
    outcome = "  ".join(f"{name} {value:+.3g}" for name, value in trajectory.outcome.items()) or "no reward judged it"
    console.print(f"{stop} after {len(trajectory.turns)} turns: {outcome}", style="bold", markup=False)
    if human.interrupted:
        raise Interrupted("Play again with the same command.")


def _find_task(environment: str, tasks: str | None, index: int, task_id: str | None) -> Any:
    """The task to play. Raises: TaskError saying which there are."""
    from agentgym import registry

    if tasks is not None:
        name, split = split_tasks(tasks, "train")
        return one_task(registry.load_task_set(name), split, index, task_id)
    return one_task(_set_for(environment), "train", index, task_id)


def _set_for(environment: str) -> TaskSet:
    """A registered task set whose tasks are played in this environment. Raises: TaskError if there is none."""
    from agentgym import registry

    if (task_set := registry.task_set_for(environment)) is None:
        raise TaskError(
            f"No registered task set is played in {environment!r}. Give one by --task-set NAME or "
            "--task-set FILE.jsonl, or write the task on the command line: --prompt TEXT --parameters JSON."
        )
    return task_set


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise TaskError(f"--parameters {text!r} is not valid JSON: {error}.") from error
    if not isinstance(value, dict):
        raise TaskError(f"--parameters {text!r} is no JSON object. Write for example '{{\"target\": 3}}'.")
    return value
