"""`agentgym rollout`: play episodes and keep them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import exit_by_failures, out, progress_bar, resumable, run
from agentgym.cli.fields import Fields, takes
from agentgym.cli.options import TaskOptions, check_sandboxes, load_tasks, rollout_options
from agentgym.cli.policies import AgentOptions
from agentgym.cli.user_code import Import
from agentgym.text import percent

if TYPE_CHECKING:
    from agentgym.cli.rollout_options import RolloutOptions
    from agentgym.evaluation.price import Spending
    from agentgym.rollout.config import RolloutConfig
    from agentgym.rollout.manager import EpisodeManager
    from agentgym.task.definition import Task
    from agentgym.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepOptions:
    """The folder that keeps the episodes, and the beginning of their ids."""

    folder: Annotated[Path | None, typer.Option("--out", metavar="DIR")] = None
    """Keep the episodes in DIR/ledger.sqlite, and resume."""
    label: str = "rollout"
    """The text with which the id of every episode begins."""
    price: Annotated[str | None, typer.Option("--price", metavar="IN,OUT")] = None
    """The price of a million tokens read by a paid policy, and of a million written, such as 0.15,0.6."""
    max_cost: float | None = None
    """Stop once the ended episodes have cost more than this in total; needs --price."""


ORACLE = Fields(AgentOptions, defaults={"policy": "oracle"})
"""The options of a command that plays the oracle by default."""


@takes(tasks=TaskOptions, agent=ORACLE, output=KeepOptions, options=rollout_options)
def rollout(
    tasks: TaskOptions, agent: AgentOptions, output: KeepOptions, options: RolloutOptions, modules: Import = None
) -> None:
    """Play episodes with a policy, keep them in a ledger and print a summary.

    Example: agentgym rollout sql/store-v1:train --policy oracle --limit 20 --out runs/demo
    """
    play_and_keep(options.make_config(), tasks.choose("train"), agent, tasks.limit, output)


def play_and_keep(
    config: RolloutConfig,
    tasks: tuple[str, str],
    player: AgentOptions,
    limit: int | None,
    output: KeepOptions,
) -> None:
    """Play episodes, keep them and print a summary.

    Args:
        tasks: the task set and the split.
    """
    from agentgym.cli.run_ledger import opened_ledger, say_what_is_there
    from agentgym.cli.tables import episodes_table
    from agentgym.evaluation.price import Price, Spending
    from agentgym.rollout.manager import EpisodeManager
    from agentgym.storage.identity import identity_of_policy

    spending = Spending(Price.parse(output.price) if output.price else None, output.max_cost)
    config = replace(config, temperature=1.0 if config.temperature is None else config.temperature)
    task_set, chosen = load_tasks(tasks, limit, config)
    check_sandboxes(chosen, config)
    agent, agent_name = player.load(task_set)
    hint = "Run the same command again to go on." if output.folder else "Nothing is kept without --out DIR."
    identity = {"policy": identity_of_policy(agent, agent_name), "task_set": tasks[0], "split": tasks[1]}
    with opened_ledger(output.folder, config) as ledger, resumable(hint):
        say_what_is_there(ledger, output.label, len(chosen) * config.group_size)
        manager = EpisodeManager(agent, config, ledger=ledger, label=output.label, identity=identity)
        trajectories = run(_play(manager, chosen, spending), agent)
    out().print(episodes_table(trajectories))
    if note := _driver_note(config.engine):
        out().print(note.removeprefix(", "), markup=False)
    if output.folder:
        hint = f"Read one with: agentgym show {output.folder} --episode '{trajectories[0].id}'"
        out().print(hint, markup=False, soft_wrap=True)
    exit_by_failures(Counter(t.error or "" for t in trajectories if not t.scored), len(trajectories))


def _driver_note(engine: object) -> str:
    """Return how busy this process is, if it drives a cluster."""
    from agentgym.rollout.engine import ReportingEngine

    busy = engine.report().get("driver/busy") if isinstance(engine, ReportingEngine) else None
    return "" if busy is None else f", driver {percent(busy)} busy"


async def _play(manager: EpisodeManager, tasks: list[Task], spending: Spending) -> list[Trajectory]:
    trajectories: list[Trajectory] = []
    solved = 0.0
    with progress_bar() as progress:
        total = len(tasks) * manager.config.group_size
        bar = progress.add_task("episodes", total=total, note="")
        async for trajectory in manager.run(tasks):
            trajectories.append(trajectory)
            solved += (trajectory.success or 0.0) if trajectory.scored else 0.0
            note = f"solved {percent(solved / len(trajectories))}{_driver_note(manager.config.engine)}"
            progress.update(bar, advance=1, note=note)
            spending.add(trajectory, len(trajectories), total)
    return trajectories
