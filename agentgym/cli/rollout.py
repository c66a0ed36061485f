"""`agentgym rollout`: play episodes and keep them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import exit_by_failures, out, progress_bar, resumable, run
from agentgym.cli.options import Limit, TasksArgument, TasksOption, chosen_tasks, takes_rollout_config
from agentgym.cli.policies import ApiKeyEnv, CallFormat, Device, PolicyOption, PolicyOptions, load_policy
from agentgym.cli.user_code import Import
from agentgym.text import percent

if TYPE_CHECKING:
    from agentgym.cli.policies import Agent
    from agentgym.rollout import EpisodeManager, RolloutConfig
    from agentgym.task import Task, TaskSet
    from agentgym.trajectory import Trajectory


@takes_rollout_config
def rollout(
    config: RolloutConfig,
    tasks: TasksArgument = None,
    tasks_option: TasksOption = None,
    policy: PolicyOption = "oracle",
    limit: Limit = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep the episodes in DIR/ledger.sqlite, and resume.")
    ] = None,
    call_format: CallFormat = None,
    api_key_env: ApiKeyEnv = None,
    policy_options: PolicyOptions = None,
    device: Device = "auto",
    label: Annotated[str, typer.Option(help="Begins the id of every episode.")] = "rollout",
    modules: Import = None,
) -> None:
    """Play episodes with a policy, keep them in a ledger and print a summary.

    Example: [b]agentgym rollout sql/store-v1:train --policy oracle --limit 20 --out runs/demo[/b]
    """
    load = partial(
        load_policy, policy, call_format=call_format, api_key_env=api_key_env, device=device, pairs=policy_options
    )
    play_and_keep(config, chosen_tasks(tasks, tasks_option, "train"), load, limit, folder, label)


def play_and_keep(
    config: RolloutConfig,
    tasks: tuple[str, str],
    load: Callable[[TaskSet], tuple[Agent, str]],
    limit: int | None,
    folder: Path | None,
    label: str,
) -> None:
    """Play episodes, keep them and print a summary.

    Args:
        tasks: task set and split. load: loads the policy, and gives its name for records.
    """
    from agentgym import registry
    from agentgym.cli.run_ledger import opened_ledger
    from agentgym.cli.tables import episodes_table
    from agentgym.evaluation.runner import choose
    from agentgym.rollout import EpisodeManager
    from agentgym.storage.identity import identity_of_policy

    config = replace(config, temperature=1.0 if config.temperature is None else config.temperature)
    name, split = tasks
    task_set = registry.load_task_set(name)
    chosen = choose(task_set, split, limit)
    agent, agent_name = load(task_set)
    hint = "Run the same command again to go on." if folder else "Nothing is kept without --out DIR."
    identity = {"policy": identity_of_policy(agent, agent_name), "task_set": name, "split": split}
    with opened_ledger(folder, config) as ledger, resumable(hint):
        manager = EpisodeManager(agent, config, ledger=ledger, label=label, identity=identity)
        trajectories = run(_play(manager, chosen), agent)
    out().print(episodes_table(trajectories))
    if folder:
        hint = f"Read one with: agentgym show {folder} --episode '{trajectories[0].id}'"
        out().print(hint, markup=False, soft_wrap=True)
    exit_by_failures(Counter(t.error or "" for t in trajectories if not t.valid), len(trajectories))


async def _play(manager: EpisodeManager, tasks: list[Task]) -> list[Trajectory]:
    trajectories: list[Trajectory] = []
    solved = 0.0
    with progress_bar() as progress:
        bar = progress.add_task("episodes", total=len(tasks) * manager.config.group_size, note="")
        async for trajectory in manager.run(tasks):
            trajectories.append(trajectory)
            solved += (trajectory.success or 0.0) if trajectory.valid else 0.0
            progress.update(bar, advance=1, note=f"solved {percent(solved / len(trajectories))}")
    return trajectories
