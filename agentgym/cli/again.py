"""`agentgym rescore`, `replay` and `fork`: saved episodes judged again, run again, and played on from a turn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.choosing import BackendName, MaxTurns, MaxTurnTokens, RewardName, Seed, Temperature
from agentgym.cli.policies import ApiKeyEnv, CallFormat, Device, load_policy
from agentgym.cli.screen import err, out, progress_bar, run
from agentgym.cli.user_code import Import

if TYPE_CHECKING:
    from agentgym.rollout import Divergence, EpisodeManager, Fork, RolloutConfig
    from agentgym.storage.ledger import Ledger
    from agentgym.trajectory import Trajectory

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder with a ledger, e.g. runs/quickstart.")]
MOST_SHOWN = 20


def rescore(
    folder: RunFolder,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="The evaluation to judge again, e.g. after.")],
    reward: Annotated[str, typer.Option("--reward", help="Who judges now, by registered name.")],
    new_label: Annotated[str | None, typer.Option("--label", help="Of the new record: LABEL-REWARD.")] = None,
    modules: Import = None,
) -> None:
    """Judge the saved episodes of an evaluation with another reward, without playing them.

    Example: [b]agentgym rescore runs/quickstart after --reward answer_match[/b]
    """
    from agentgym import registry
    from agentgym.cli.tables import evaluation_table
    from agentgym.evaluation.record import Evaluation
    from agentgym.evaluation.rescore import rescore_evaluation

    place, ledger = _opened(folder)
    try:
        before = Evaluation.load(place.path / "evaluation" / f"{label}.json")
        judge = registry.load_reward(reward)
        with progress_bar() as progress:
            bar = progress.add_task("episodes", total=sum(len(row.success) for row in before.rows), note="")
            found = run(
                rescore_evaluation(
                    before, ledger, judge, label=new_label or f"{label}-{reward}",
                    seen=lambda _: progress.advance(bar),
                )
            )  # fmt: skip
    finally:
        ledger.close()
    path = place.write_json(f"evaluation/{found.after.label}.json", found.after.to_json())
    console = out()
    console.print(evaluation_table(found.after))
    was, now = before.success(), found.after.success()
    told = f"Success was {was.percent()} and is {now.percent()}: {len(found.changed)} verdicts differ."
    console.print(told, markup=False, soft_wrap=True)
    for name, old, new in found.changed[:MOST_SHOWN]:
        console.print(f"  {name}: {_verdict(old)} -> {_verdict(new)}", markup=False, soft_wrap=True)
    console.print(f"Record: {path}", markup=False, soft_wrap=True)


def replay(
    folder: RunFolder,
    episode: Annotated[str | None, typer.Option(metavar="ID", help="Only this episode.")] = None,
    prefix: Annotated[str, typer.Option("--list", metavar="PREFIX", help="Those whose id begins so.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
    backend: BackendName = None,
    modules: Import = None,
) -> None:
    """Run the calls of saved episodes again in fresh worlds, and report the first turn that comes out otherwise.

    Ends with exit code 1 where one does.
    Example: [b]agentgym replay runs/quickstart --list held-out-after --limit 20[/b]
    """
    from itertools import islice

    from agentgym.errors import EvaluationError
    from agentgym.policy import ScriptedPolicy
    from agentgym.rollout import EpisodeManager

    _, ledger = _opened(folder)
    try:
        records = [ledger.load(episode)] if episode else list(islice(ledger.trajectories(prefix), limit))
    finally:
        ledger.close()
    usable = [record for record in records if record.valid]
    if not usable:
        raise EvaluationError(
            f"No finished episode in {folder} has an id that begins with {episode or prefix!r}, or all of them failed."
        )
    manager = EpisodeManager(ScriptedPolicy(()), _config(backend))
    found = run(_replay(manager, usable))
    console, differ = out(), [(r, d) for r, d in zip(usable, found, strict=True) if d is not None]
    for record, divergence in differ[:MOST_SHOWN]:
        console.print(f"{record.id}: {_shown(divergence)}", style="red", markup=False, soft_wrap=True)
    left_out = f" {len(records) - len(usable)} that had failed were left out." if len(usable) < len(records) else ""
    console.print(f"{len(usable) - len(differ)} of {len(usable)} episodes came out as recorded.{left_out}")
    if differ:
        raise typer.Exit(1)


def fork(
    folder: RunFolder,
    episode: Annotated[str, typer.Option(metavar="ID", help="Which episode to leave.")],
    turn: Annotated[int, typer.Option(min=1, help="Before which of its turns, counted from 1 as in `show`.")],
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="POLICY", help="Who plays on, as in eval; by default you.")
    ] = None,
    group_size: Annotated[int, typer.Option(min=1, help="How many episodes go on from there.")] = 1,
    target: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep the new episodes in DIR/ledger.sqlite.")
    ] = None,
    temperature: Temperature = 1.0,
    max_turns: MaxTurns = 16,
    max_turn_tokens: MaxTurnTokens = 512,
    seed: Seed = 0,
    reward: RewardName = None,
    backend: BackendName = None,
    call_format: CallFormat = None,
    api_key_env: ApiKeyEnv = None,
    device: Device = "auto",
    modules: Import = None,
) -> None:
    """Play a saved episode on from before one of its turns, by another policy or by hand; what came before is repeated.

    Example: [b]agentgym fork runs/quickstart --episode 'held-out-after/h-0001#0' --turn 2[/b]
    """
    from agentgym import registry
    from agentgym.cli.human import HumanPolicy
    from agentgym.cli.tables import print_episode
    from agentgym.errors import EvaluationError
    from agentgym.rollout import EpisodeManager, Fork
    from agentgym.storage.ledger import Ledger
    from agentgym.storage.run_folder import RunFolder as Folder
    from agentgym.task import TaskSet

    _, ledger = _opened(folder)
    try:
        record = ledger.load(episode)
    finally:
        ledger.close()
    if not turn <= len(record.turns) + 1:
        raise EvaluationError(f"--turn {turn}: {episode} has {len(record.turns)} turns. 1 is before the first.")
    agent: Any
    if policy is None:
        agent = HumanPolicy(registry.prototype(record.task.environment).tools, out())
        group_size = 1
    else:
        task_set = TaskSet("the episode's own", {record.task.split: [record.task]})
        agent, _ = load_policy(policy, task_set, call_format=call_format, api_key_env=api_key_env, device=device)
    kept = Ledger(Folder(target).create().ledger) if target else None
    config = replace(
        _config(backend, max_turns=max(max_turns, turn + 1), max_turn_tokens=max_turn_tokens),
        group_size=group_size,
        temperature=temperature,
        reward=reward,
        seed=seed,
    )
    manager = EpisodeManager(agent, config, ledger=kept, label="fork")
    try:
        played = run(_fork(manager, Fork(record, turn - 1)), agent)
    finally:
        if kept is not None:
            kept.close()
    for branch in played:
        print_episode(branch, out())
    if failed := [branch.error for branch in played if not branch.valid]:
        err().print(f"{len(failed)} could not be played on: {failed[0]}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1)


async def _replay(manager: EpisodeManager, records: list[Trajectory]) -> list[Divergence | None]:
    import asyncio

    gate = asyncio.Semaphore(16)
    with progress_bar() as progress:
        bar = progress.add_task("episodes", total=len(records), note="")

        async def one(record: Trajectory) -> Divergence | None:
            async with gate:
                found = await manager.replay(record)
            progress.advance(bar)
            return found

        return await asyncio.gather(*map(one, records))


async def _fork(manager: EpisodeManager, fork: Fork) -> list[Trajectory]:
    return [branch async for branch in manager.branch([fork])]


def _config(backend: str | None, *, max_turns: int = 10_000, max_turn_tokens: int = 512) -> RolloutConfig:
    """Budgets that end no episode by themselves: the question is another one, and a person may think for a day."""
    from agentgym.rollout import Budgets, RolloutConfig

    budgets = Budgets(
        max_turns=max_turns,
        max_turn_tokens=max_turn_tokens,
        max_calls=100_000,
        time_s=24 * 3600.0,
        max_void_turns=10_000,
    )
    return RolloutConfig(budgets=budgets, backend=backend)


def _opened(folder: Path) -> tuple[Any, Ledger]:
    """The run folder and its ledger. Raises: LedgerError, EvaluationError."""
    from agentgym.errors import EvaluationError
    from agentgym.storage.ledger import Ledger
    from agentgym.storage.run_folder import RunFolder as Folder

    place = Folder.existing(folder)
    if not place.ledger.is_file():
        raise EvaluationError(f"{place.path} holds no ledger.sqlite: this run kept no episodes.")
    return place, Ledger(place.ledger)


def _shown(divergence: Divergence) -> str:
    from agentgym.evaluation.visible import visible

    return visible(divergence)


def _verdict(value: float | None) -> str:
    return "not judged" if value is None else f"{value:g}"
