"""Plays episodes of training tasks once, and stores them in the ledger for later stages to learn from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agentgym import registry
from agentgym.credit.named_parts import load_part, parse_part
from agentgym.errors import CreditError, RecipeError, UnknownNameError
from agentgym.evaluation.diagnostics import summarise
from agentgym.evaluation.search import make_search
from agentgym.policy.contract import Policy
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.task.definition import Task, seed_of
from agentgym.task.task_set import TaskSet
from agentgym.text import counted
from agentgym.training.gatherers import StepRequest
from agentgym.training.model.model_failures import PLAYING_REMEDY, out_of_memory_named
from agentgym.training.recipe.stage_section import CollectSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import PlannedStage, define_stage
from agentgym.training.stages.stored_episodes import searched_label
from agentgym.trajectory.record import Trajectory


def searched_ends(
    context: RunContext, learner: Learner, options: CollectSection, tasks: Sequence[Task], advance: Callable[[], None]
) -> list[Trajectory]:
    """Search the tasks, and store the complete episodes of the trees in the ledger under the stage's name.

    The nodes, and the episodes that the searches chose, have separate labels. A later stage learns from the nodes and
    their stored values only if it asks for nodes.
    """
    searched = context.rollouts.at_temperature(options.temperature).search(
        learner.policy,
        tasks,
        make_search(options.search),
        label=searched_label(context.stage),
        group_size=options.group_size,
        judged=True,
        on_trajectory=lambda _: advance(),
    )
    nodes = [node for each in searched for node in each.nodes()]
    ends = [end for each in searched for end in each.ends(context.stage, traces=options.traces)]
    context.rollouts.finish(_keep(context, nodes, ends))
    return ends


async def _keep(context: RunContext, nodes: Sequence[Trajectory], ends: Sequence[Trajectory]) -> None:
    """Store the values of nodes, and the complete episodes that an interrupted run has not stored yet."""
    ledger = context.rollouts.ledger
    assert ledger is not None, "the first process keeps the ledger"
    ledger.amend(nodes)
    recorded_ids = ledger.finished(context.stage) | ledger.finished(f"{context.stage}-end")
    for end in ends:
        if end.id not in recorded_ids:
            await ledger.finish(end)


PLAYERS = ("current", "oracle", "imperfect_oracle")


def _check(stage: PlannedStage, earlier: Sequence[PlannedStage]) -> None:
    """Raise RecipeError for an unknown policy, or a group too small for trees."""
    options: CollectSection = stage.section
    if options.policy not in PLAYERS:
        try:
            load_part("policies", (part := parse_part(options.policy)).name, part.options)
        except (UnknownNameError, CreditError) as error:
            raise RecipeError(
                f"[[stage]] {stage.name!r}: policy = {options.policy!r} cannot be used. {error}"
            ) from error
    if options.trees and options.group_size <= (roots := stage.recipe.train.signals.root_episodes):
        raise RecipeError(
            f"[[stage]] {stage.name!r}: trees = true needs a group_size above train.signals.root_episodes, but a "
            f"group of {options.group_size} with {roots} root episodes has no branch. Lower "
            "train.signals.root_episodes, or raise group_size."
        )


@define_stage(options=CollectSection, plays=True, check=_check)
def collect_stage(context: RunContext, learner: Learner, options: CollectSection) -> Learner:
    """Plays training tasks and keeps the episodes in the ledger, for `imitate`, `prefer` and `rank`."""
    context.processes.share(lambda: _collect(context, learner, options))
    return learner


def _collect(context: RunContext, learner: Learner, options: CollectSection) -> None:
    tasks = sorted(context.task_set["train"], key=lambda task: seed_of(context.recipe.seed, context.stage, task.id))
    tasks = tasks[: options.tasks]
    context.folder.forget((context.stage,), -1)
    with (
        TaskSet.training_only(),
        out_of_memory_named(f"the stage {context.stage}", PLAYING_REMEDY),
        context.progress_bar(context.stage, len(tasks) * options.group_size) as advance,
    ):
        trajectories = _play(context, learner, options, tasks, advance)
    metrics = summarise(trajectories)
    context.folder.log(0, context.stage, **metrics)
    line = f"{context.stage}: success {metrics.get('success', 0.0):.3f} of {counted(len(trajectories), 'episode')}"
    context.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _play(
    context: RunContext, learner: Learner, options: CollectSection, tasks: Sequence[Task], advance: Callable[[], None]
) -> list[Trajectory]:
    if options.trees:
        signals = context.recipe.train.signals
        grow = registry.load("signal_providers", "branches").gatherer(signals, context.recipe.seed)
        groups = grow(StepRequest(context.rollouts, learner.policy, tasks, context.stage, options.group_size))
        return [trajectory for group in groups for trajectory in group.episodes]
    if options.search:
        return searched_ends(context, learner, options, tasks, advance)
    return context.rollouts.at_temperature(options.temperature).play(
        _player(context, learner, options.policy),
        tasks,
        label=context.stage,
        group_size=options.group_size,
        on_trajectory=lambda _: advance(),
    )


def _player(context: RunContext, learner: Learner, policy: str) -> Any:
    """Return the policy that an option names, or a function from a task to a policy."""
    if policy == "current":
        return learner.policy
    if policy in PLAYERS:
        script = context.task_set.player(policy)
        return lambda task: ScriptedPolicy(script(task), name=policy)
    part = parse_part(policy)
    player = registry.load("policies", part.name)(**part.options)
    if not isinstance(player, Policy):
        raise RecipeError(f"policy = {policy!r} makes {player!r:.80}, which is not a Policy. Name a registered policy.")
    return player
