"""What a stage keeps of search trees: the episodes in which they end, with the value of each node as a label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from agentgym.search import Node, SearchedEpisode, make_search
from agentgym.task import Task
from agentgym.training.recipe.stage_options import CollectSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.trajectory import ForkPoint, Trajectory


def searched_ends(
    context: RunContext, learner: Learner, options: CollectSection, tasks: Sequence[Task], advance: Callable[[], None]
) -> list[Trajectory]:
    """Search the tasks, and keep the ends of the trees in the ledger under the name of the stage.

    The nodes, and the episodes that the searches chose, have labels of their own, so that no stage learns from them.
    """
    searched = context.rollouts.search(
        learner.policy,
        tasks,
        make_search(options.search),
        label=f"searched-{context.stage}",
        group_size=options.group_size,
        temperature=options.temperature,
        judged=True,
        on_trajectory=lambda _: advance(),
    )
    ends = [end for each in searched for end in labelled_ends(each, context.stage)]
    context.rollouts.finish(_keep(context, ends))
    return ends


def labelled_ends(searched: SearchedEpisode, label: str) -> Iterator[Trajectory]:
    """The ends of a tree, each a whole judged episode; of a tree without one, the episode that was played on from it.

    `Turn.value` is the value of the node before the turn; before the first one the mean over the first nodes. Where the
    policy has played on there is none.
    """
    tree = searched.tree
    if tree.root.children:
        tree.root.value = float(np.mean([child.value for child in tree.root.children]))
    ends = [node for node in tree.root.descendants() if node.ended]
    for node in ends:
        assert node.trajectory is not None
        yield _labelled(node.trajectory, node.path(), f"{label}-end")
    if not ends and searched.trajectory.valid:
        origin = searched.trajectory.provenance.branch
        by_id = {node.trajectory.id: node for node in tree.root.descendants() if node.trajectory is not None}
        path = by_id[origin.trajectory].path() if origin is not None else [tree.root]
        yield _labelled(searched.trajectory, path, label)


def _labelled(trajectory: Trajectory, path: Sequence[Node], label: str) -> Trajectory:
    values = [node.value for node in path][: len(trajectory.turns)]
    turns = [replace(turn, value=value) for turn, value in zip(trajectory.turns, values, strict=False)]
    return replace(
        trajectory,
        id=f"{label}/{trajectory.task.id}#{trajectory.sample}",
        turns=[*turns, *trajectory.turns[len(turns) :]],
        provenance=replace(trajectory.provenance, branch=ForkPoint(trajectory.id, len(trajectory.turns))),
    )


async def _keep(context: RunContext, ends: Sequence[Trajectory]) -> None:
    """Those that the ledger does not hold yet, as after a run that was broken off."""
    ledger = context.rollouts.ledger
    assert ledger is not None, "the first process keeps the ledger"
    recorded_ids = ledger.finished(context.stage) | ledger.finished(f"{context.stage}-end")
    for end in ends:
        if end.id not in recorded_ids:
            await ledger.finish(end)
