"""What a stage keeps of search trees: the episodes in which they end, with the value of each node as a label."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym.evaluation.search import make_search
from agentgym.task import Task
from agentgym.training.recipe.stage_options import CollectSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.episode_sources import searched_label
from agentgym.trajectory import Trajectory


def searched_ends(
    context: RunContext, learner: Learner, options: CollectSection, tasks: Sequence[Task], advance: Callable[[], None]
) -> list[Trajectory]:
    """Search the tasks, and keep the ends of the trees in the ledger under the name of the stage.

    The nodes, and the episodes that the searches chose, have labels of their own. Of these a stage learns only where it
    asks for nodes, which keep their values for it.
    """
    searched = context.rollouts.search(
        learner.policy,
        tasks,
        make_search(options.search),
        label=searched_label(context.stage),
        group_size=options.group_size,
        temperature=options.temperature,
        judged=True,
        on_trajectory=lambda _: advance(),
    )
    nodes = [node for each in searched for node in each.nodes()]
    ends = [end for each in searched for end in each.ends(context.stage, traces=options.traces)]
    context.rollouts.finish(_keep(context, nodes, ends))
    return ends


async def _keep(context: RunContext, nodes: Sequence[Trajectory], ends: Sequence[Trajectory]) -> None:
    """Keep the values of nodes, and the ends that the ledger does not hold yet, as after a run that was broken off."""
    ledger = context.rollouts.ledger
    assert ledger is not None, "the first process keeps the ledger"
    ledger.amend(nodes)
    recorded_ids = ledger.finished(context.stage) | ledger.finished(f"{context.stage}-end")
    for end in ends:
        if end.id not in recorded_ids:
            await ledger.finish(end)
