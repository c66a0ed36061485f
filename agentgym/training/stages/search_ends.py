"""What a stage keeps of search trees: the episodes in which they end, with the value of each node as a label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from agentgym.search import Node, SearchedEpisode, SearchTree, make_search
from agentgym.task import Task
from agentgym.training.recipe.stage_options import CollectSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.episode_sources import searched_label
from agentgym.trajectory import EndState, ForkPoint, Trajectory


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
    nodes = [node for each in searched for node in valued_nodes(each.tree)]
    ends = [end for each in searched for end in labelled_ends(each, context.stage)]
    context.rollouts.finish(_keep(context, nodes, ends))
    return ends


def valued_nodes(tree: SearchTree) -> Iterator[Trajectory]:
    """The nodes of a tree but for the root, each with its value in its end state."""
    for node in tree.root.descendants():
        assert node.trajectory is not None
        node.trajectory.end_state = replace(node.trajectory.end_state or EndState(), value=node.value)
        yield node.trajectory


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


async def _keep(context: RunContext, nodes: Sequence[Trajectory], ends: Sequence[Trajectory]) -> None:
    """The values of nodes, and those ends that the ledger does not hold yet, as after a run that was broken off."""
    ledger = context.rollouts.ledger
    assert ledger is not None, "the first process keeps the ledger"
    ledger.amend(nodes)
    recorded_ids = ledger.finished(context.stage) | ledger.finished(f"{context.stage}-end")
    for end in ends:
        if end.id not in recorded_ids:
            await ledger.finish(end)
