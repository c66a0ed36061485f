"""`agentgym rollout`: play episodes and keep them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.choosing import (
    BackendName,
    Concurrency,
    Limit,
    MaxTokens,
    MaxTurns,
    RewardName,
    Seed,
    Tasks,
    Temperature,
)
from agentgym.cli.choosing import split_tasks as split_of
from agentgym.cli.policies import ApiKeyEnv, CallFormat, Device, PolicyArgument, load_policy
from agentgym.cli.screen import out, progress_bar, resumable, run
from agentgym.cli.user_code import Import

if TYPE_CHECKING:
    from agentgym.rollout.manager import EpisodeManager
    from agentgym.task import Task
    from agentgym.trajectory import Trajectory


def rollout(
    tasks: Tasks,
    policy: PolicyArgument = "oracle",
    group_size: Annotated[int, typer.Option(min=1, help="Episodes per task.")] = 1,
    limit: Limit = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep the episodes in DIR/ledger.sqlite, and resume.")
    ] = None,
    temperature: Temperature = 1.0,
    max_turns: MaxTurns = 16,
    max_tokens: MaxTokens = 512,
    concurrency: Concurrency = 64,
    seed: Seed = 0,
    reward: RewardName = None,
    backend: BackendName = None,
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
    from agentgym.policy.contract import Sampling
    from agentgym.rollout.budgets import Budgets
    from agentgym.rollout.manager import EpisodeManager
    from agentgym.storage.ledger import Ledger
    from agentgym.storage.run_folder import RunFolder

    name, split = split_of(tasks, "train")
    task_set = registry.load_task_set(name)
    chosen = choose(task_set, split, limit)
    agent, told = load_policy(policy, task_set, call_format=call_format, api_key_env=api_key_env, device=device)
    kept = RunFolder(folder).create() if folder else None
    ledger = Ledger(kept.ledger) if kept else None
    try:
        if kept:
            asked = {
                "task_set": name, "split": split, "fingerprint": task_set.fingerprint(), "policy": told, "seed": seed,
                "temperature": temperature, "max_turns": max_turns, "max_tokens": max_tokens, "reward": reward,
            }  # fmt: skip
            claim(kept, f"rollout-{label}", asked)
        manager = EpisodeManager(
            agent, reward=reward, budgets=Budgets(max_turns=max_turns), concurrency=concurrency, ledger=ledger,
            sampling=Sampling(temperature=temperature, max_tokens=max_tokens), seed=seed, run=label, backend=backend,
        )  # fmt: skip
        hint = "Run the same command again to go on." if folder else "Nothing is kept without --out DIR."
        with resumable(hint):
            played = run(_play(manager, chosen, group_size), agent)
    finally:
        if ledger is not None:
            ledger.close()
    out().print(episodes_table(played))
    if folder:
        out().print(f"Read one with: agentgym show {folder} --episode '{played[0].id}'", markup=False, soft_wrap=True)


async def _play(manager: EpisodeManager, tasks: list[Task], group_size: int) -> list[Trajectory]:
    played: list[Trajectory] = []
    solved = 0.0
    with progress_bar() as progress:
        bar = progress.add_task("episodes", total=len(tasks) * group_size, note="")
        async for trajectory in manager.run(tasks, group_size):
            played.append(trajectory)
            solved += (trajectory.success or 0.0) if trajectory.valid else 0.0
            progress.update(bar, advance=1, note=f"solved {solved / len(played):.0%}")
    return played
