"""`agentgym episodes`: judge saved episodes again, repeat them, continue them from a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.console import err, out, progress_bar, run
from agentgym.cli.fields import Fields, FieldsCommand, takes
from agentgym.cli.options import backend_option, check_sandboxes, endless_budgets, rollout_options
from agentgym.cli.policies import AgentOptions
from agentgym.cli.run_ledger import new_ledger, open_run
from agentgym.cli.user_code import Import
from agentgym.text import counted

if TYPE_CHECKING:
    from agentgym.cli.rollout_options import RolloutOptions
    from agentgym.rollout.manager import EpisodeManager
    from agentgym.rollout.replay import Divergence, Fork
    from agentgym.trajectory.record import Trajectory

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder with a ledger, e.g. runs/quickstart.")]
MAX_SHOWN = 20
REPLAYS_AT_ONCE = 16

app = typer.Typer(help="Saved episodes: judge them again, repeat them, continue one of them.", no_args_is_help=True)


@app.command("rescore")
def rescore(
    folder: RunArgument,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="The evaluation to judge again, e.g. after.")],
    reward: Annotated[str, typer.Option("--reward", help="The registered reward that judges now.")],
    new_label: Annotated[
        str | None, typer.Option("--label", help="Label of the new record; by default LABEL-REWARD.")
    ] = None,
    modules: Import = None,
) -> None:
    """Judge the saved episodes of an evaluation with another reward, without playing them again.

    Example: agentgym episodes rescore runs/quickstart after --reward answer_match
    """
    from agentgym import registry
    from agentgym.cli.tables import evaluation_table
    from agentgym.evaluation.record import Evaluation
    from agentgym.evaluation.rescore import rescore_evaluation

    run_folder, ledger = open_run(folder)
    try:
        before = Evaluation.load(run_folder.path / "evaluation" / f"{label}.json")
        with progress_bar() as progress:
            bar = progress.add_task("episodes", total=sum(len(row.success) for row in before.rows), note="")
            rescoring = rescore_evaluation(
                before,
                ledger,
                registry.load_reward(reward),
                label=new_label or f"{label}-{reward}",
                on_episode=lambda _: progress.advance(bar),
            )
            rescored = run(rescoring)
    finally:
        ledger.close()
    after = rescored.after
    path = run_folder.write_json(f"evaluation/{after.label}.json", after.to_json())
    console = out()
    console.print(evaluation_table(after))
    summary = (
        f"Success was {before.success().percent()} and is {after.success().percent()}: "
        f"{len(rescored.changed)} verdicts differ."
    )
    console.print(summary, markup=False, soft_wrap=True)
    for episode, old, new in rescored.changed[:MAX_SHOWN]:
        console.print(f"  {episode}: {_verdict(old)} -> {_verdict(new)}", markup=False, soft_wrap=True)
    console.print(f"Record: {path}", markup=False, soft_wrap=True)


@app.command("replay", cls=FieldsCommand)
@takes(options=backend_option)
def replay(
    folder: RunArgument,
    options: RolloutOptions,
    episode: Annotated[str | None, typer.Option(metavar="ID", help="Replay only this episode.")] = None,
    prefix: Annotated[str, typer.Option("--list", metavar="PREFIX", help="Replay episodes whose id begins so.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Replay at most this many.")] = 100,
    modules: Import = None,
) -> None:
    """Repeat the calls of saved episodes in fresh environments and report the first turn with another result.

    Ends with exit code 1 if an episode diverges.
    Example: agentgym episodes replay runs/quickstart --list held-out-after --limit 20
    """
    from itertools import islice

    from agentgym.errors import EvaluationError
    from agentgym.policy.scripted import ScriptedPolicy
    from agentgym.rollout.hooks import recorded_hooks
    from agentgym.rollout.manager import EpisodeManager

    _, ledger = open_run(folder)
    try:
        records = [ledger.load(episode)] if episode else list(islice(ledger.trajectories(prefix), limit))
    finally:
        ledger.close()
    valid = [record for record in records if record.valid]
    if not valid:
        raise EvaluationError(
            f"{folder} has no valid finished episode whose id begins with {episode or prefix!r}: there is none, or "
            "all of them failed."
        )
    config = replace(options.make_config(), budgets=endless_budgets())
    check_sandboxes([record.task for record in valid], config)

    def manager_of(record: Trajectory) -> EpisodeManager:
        return EpisodeManager(ScriptedPolicy(()), replace(config, hooks=recorded_hooks(record.provenance)))

    divergences = run(_replay(manager_of, valid))
    diverged = [(record, d) for record, d in zip(valid, divergences, strict=True) if d is not None]
    console = out()
    for record, divergence in diverged[:MAX_SHOWN]:
        console.print(f"{record.id}: {_format(divergence)}", style="red", markup=False, soft_wrap=True)
    excluded = len(records) - len(valid)
    note = f" {excluded} that had failed were left out." if excluded else ""
    console.print(f"{len(valid) - len(diverged)} of {len(valid)} episodes came out as recorded.{note}")
    if diverged:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOptions:
    """The turn at which an episode is forked, and the folder that keeps its branches."""

    episode: Annotated[str, typer.Option(metavar="ID")]
    """The episode to fork."""
    turn: Annotated[int, typer.Option(min=1)]
    """Fork before this turn, counted from 1 as in `show`."""
    target: Annotated[Path | None, typer.Option("--out", metavar="DIR")] = None
    """Keep the new episodes in DIR/ledger.sqlite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchAgent(AgentOptions):
    """The options of `fork` that choose the policy which continues the forked episode."""

    policy: Annotated[str | None, typer.Option(metavar="POLICY")] = None  # type: ignore[assignment]
    """The policy that continues the episode, named as in eval. By default you play on yourself."""


def _branch_options() -> Fields:
    names = ("group_size", "temperature", "max_turns", "max_turn_tokens", "seed", "reward", "backend")
    return Fields(rollout_options(), names)


@app.command("fork", cls=FieldsCommand)
@takes(fork_at=ForkOptions, player=BranchAgent, options=_branch_options)
def fork(
    folder: RunArgument,
    fork_at: ForkOptions,
    player: BranchAgent,
    options: RolloutOptions,
    modules: Import = None,
) -> None:
    """Continue a saved episode from one of its turns, by another policy or by hand. Earlier turns are repeated.

    Example: agentgym episodes fork runs/quickstart --episode 'held-out-after/h-0001#0' --turn 2
    """
    from agentgym.cli.human import HumanPolicy
    from agentgym.cli.tables import print_episode
    from agentgym.errors import EvaluationError
    from agentgym.rollout.hooks import recorded_hooks
    from agentgym.rollout.manager import EpisodeManager
    from agentgym.rollout.replay import Fork
    from agentgym.task.task_set import TaskSet

    _, ledger = open_run(folder)
    try:
        record = ledger.load(fork_at.episode)
    finally:
        ledger.close()
    turn, config = fork_at.turn, options.make_config()
    if turn > len(record.turns) + 1:
        raise EvaluationError(
            f"--turn {turn} is too large: {record.id} has {counted(len(record.turns), 'turn')}. Turn 1 starts from "
            "its beginning."
        )
    check_sandboxes([record.task], config)
    agent: Any
    if player.policy is None:
        agent, config = HumanPolicy(out()), replace(config, group_size=1)
    else:
        agent, _ = player.load(TaskSet("the episode's own", {record.task.split: [record.task]}))
    max_turns = max(config.budgets.max_turns, turn + 1)
    config = replace(
        config,
        temperature=1.0 if config.temperature is None else config.temperature,
        budgets=endless_budgets(max_turns=max_turns, max_turn_tokens=config.budgets.max_turn_tokens),
        hooks=recorded_hooks(record.provenance),
    )
    with new_ledger(fork_at.target) as target:
        manager = EpisodeManager(agent, config, ledger=target, label="fork")
        branches = run(_fork(manager, Fork(record, turn - 1)), agent)
    for branch in branches:
        print_episode(branch, out())
    if errors := [branch.error for branch in branches if not branch.valid]:
        err().print(f"{len(errors)} could not be continued: {errors[0]}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1)


async def _replay(
    manager_of: Callable[[Trajectory], EpisodeManager], records: list[Trajectory]
) -> list[Divergence | None]:
    slots = asyncio.Semaphore(REPLAYS_AT_ONCE)
    with progress_bar() as progress:
        bar = progress.add_task("episodes", total=len(records), note="")

        async def replay_one(record: Trajectory) -> Divergence | None:
            async with slots:
                divergence = await manager_of(record).replay(record)
            progress.advance(bar)
            return divergence

        return await asyncio.gather(*map(replay_one, records))


async def _fork(manager: EpisodeManager, fork: Fork) -> list[Trajectory]:
    return [branch async for branch in manager.branch([fork])]


def _format(divergence: Divergence) -> str:
    from agentgym.text import visible

    return visible(divergence)


def _verdict(value: float | None) -> str:
    return "not judged" if value is None else f"{value:g}"
