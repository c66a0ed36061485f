"""`agentgym rollout`: play episodes and keep them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.choosing import Limit, Tasks
from agentgym.cli.choosing import split_tasks as split_of
from agentgym.cli.policies import ApiKeyEnv, CallFormat, Device, PolicyArgument, load_policy
from agentgym.cli.rollout_options import asked_of, takes_rollout_config
from agentgym.cli.screen import out, progress_bar, resumable, run
from agentgym.cli.user_code import Import

if TYPE_CHECKING:
    from agentgym.rollout import EpisodeManager, RolloutConfig
    from agentgym.task import Task
    from agentgym.trajectory import Trajectory


@takes_rollout_config
def rollout(
    config: RolloutConfig,
    tasks: Tasks,
    policy: PolicyArgument = "oracle",
    limit: Limit = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep the episodes in DIR/ledger.sqlite, and resume.")
    ] = None,
    call_format: CallFormat = None,
    api_key_env: ApiKeyEnv = None,
    device: Device = "auto",
    label: Annotated[str, typer.Option(help="Begins the id of every episode.")] = "rollout",
    modules: Import = None,
) -> None:
    """Play episodes with a policy, keep them in a ledger and print a summary.

    Example: [b]agentgym rollout --tasks sql/store-v1:train --policy oracle --limit 20 --out runs/demo[/b]
    """
    from agentgym import registry
    from agentgym.cli.asked import claim
    from agentgym.cli.tables import episodes_table
    from agentgym.evaluation.runner import choose
    from agentgym.rollout import EpisodeManager
    from agentgym.storage.ledger import Ledger
    from agentgym.storage.run_folder import RunFolder

    config = replace(config, temperature=1.0 if config.temperature is None else config.temperature)
    name, split = split_of(tasks, "train")
    task_set = registry.load_task_set(name)
    chosen = choose(task_set, split, limit)
    agent, told = load_policy(policy, task_set, call_format=call_format, api_key_env=api_key_env, device=device)
    kept = RunFolder(folder).create() if folder else None
    ledger = Ledger(kept.ledger) if kept else None
    try:
        if kept:
            asked = {
                "task_set": name, "split": split, "fingerprint": task_set.fingerprint(), "policy": told,
                **asked_of(config),
            }  # fmt: skip
            claim(kept, f"rollout-{label}", asked)
        manager = EpisodeManager(agent, config, ledger=ledger, label=label)
        hint = "Run the same command again to go on." if folder else "Nothing is kept without --out DIR."
        with resumable(hint):
            played = run(_play(manager, chosen), agent)
    finally:
        if ledger is not None:
            ledger.close()
    out().print(episodes_table(played))
    if folder:
        out().print(f"Read one with: agentgym show {folder} --episode '{played[0].id}'", markup=False, soft_wrap=True)


async def _play(manager: EpisodeManager, tasks: list[Task]) -> list[Trajectory]:
    played: list[Trajectory] = []
    solved = 0.0
    with progress_bar() as progress:
        bar = progress.add_task("episodes", total=len(tasks) * manager.config.group_size, note="")
        async for trajectory in manager.run(tasks):
            played.append(trajectory)
            solved += (trajectory.success or 0.0) if trajectory.valid else 0.0
            progress.update(bar, advance=1, note=f"solved {solved / len(played):.0%}")
    return played
