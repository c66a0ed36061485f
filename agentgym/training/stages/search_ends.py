"""What a stage keeps of search trees: the episodes in which they end, with the value of each node as a label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from agentgym.search import Node, SearchedEpisode, SearchTree, make_search
from agentgym.task import Task
from agentgym.training.gatherers.writing import in_words
from agentgym.training.recipe.stage_options import CollectSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.episode_sources import searched_label
from agentgym.trajectory import EndState, ForkPoint, Trajectory, Turn

MAX_CHARS = 80
"""Of a result, as a trace shows it."""


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
    ends = [end for each in searched for end in labelled_ends(each, context.stage, traces=options.traces)]
    context.rollouts.finish(_keep(context, nodes, ends))
    return ends


def valued_nodes(tree: SearchTree) -> Iterator[Trajectory]:
    """The nodes of a tree but for the root, each with its value in its end state."""
    for node in tree.root.descendants():
        assert node.trajectory is not None
        node.trajectory.end_state = replace(node.trajectory.end_state or EndState(), value=node.value)
        yield node.trajectory


def labelled_ends(searched: SearchedEpisode, label: str, *, traces: bool = False) -> Iterator[Trajectory]:
    """The ends of a tree, each a whole judged episode; of a tree without one, the episode that was played on from it.

    `Turn.value` is the value of the node before the turn; before the first one the mean over the first nodes. Where the
    policy has played on there is none. `traces`: see `with_trace`.
    """
    tree = searched.tree
    if tree.root.children:
        tree.root.value = float(np.mean([child.value for child in tree.root.children]))
    ends = [node for node in tree.root.descendants() if node.ended]
    for node in ends:
        assert node.trajectory is not None
        yield _labelled(node.trajectory, node.path(), f"{label}-end", traces)
    if not ends and searched.trajectory.valid:
        origin = searched.trajectory.provenance.branch
        by_id = {node.trajectory.id: node for node in tree.root.descendants() if node.trajectory is not None}
        path = by_id[origin.trajectory].path() if origin is not None else [tree.root]
        yield _labelled(searched.trajectory, path, label, traces)


def _labelled(trajectory: Trajectory, path: Sequence[Node], label: str, traces: bool) -> Trajectory:
    nodes = path[: len(trajectory.turns)]
    turns = [replace(turn, value=node.value) for turn, node in zip(trajectory.turns, nodes, strict=False)]
    if traces:
        turns = [with_trace(turn, node) for turn, node in zip(turns, nodes, strict=True)]
    return replace(
        trajectory,
        id=f"{label}/{trajectory.task.id}#{trajectory.sample}",
        turns=[*turns, *trajectory.turns[len(turns) :]],
        provenance=replace(trajectory.provenance, branch=ForkPoint(trajectory.id, len(trajectory.turns))),
    )


def with_trace(turn: Turn, node: Node) -> Turn:
    """The turn as if the policy had thought before it of what the search found: ReSim's training data.

    Its message begins with the moves that were tried from the node before it, the best first, each with what followed
    and its value, and goes on with the move that was made. The turn has no token ids any more; who learns from it gets
    those of the new message.

    Source: Dyna-Mind, Yu et al. 2025, arXiv:2510.09577; from descriptions, not checked against its code. There, a
        model puts the tree into words.
    """
    if not node.children:
        return turn
    children = sorted(node.children, key=lambda child: -child.value)
    lines = [f"- {_move_of(child.turn)} -> {_result_of(child.turn)} ({child.value:.2f})" for child in children]
    text = "\n".join(["What each move would lead to:", *lines, turn.message.text]).rstrip()
    return replace(turn, message=replace(turn.message, content=text), token_ids=[], logprobs=[])


def _move_of(turn: Turn) -> str:
    return ", ".join(map(in_words, turn.calls)) or _in_one_line(turn.message.text)


def _result_of(turn: Turn) -> str:
    messages = turn.observation()
    return _in_one_line(" ".join(message.text for message in messages))


def _in_one_line(text: str) -> str:
    """The first words, as many as a line of a trace has room for."""
    return " ".join(text.split())[:MAX_CHARS]


async def _keep(context: RunContext, nodes: Sequence[Trajectory], ends: Sequence[Trajectory]) -> None:
    """The values of nodes, and those ends that the ledger does not hold yet, as after a run that was broken off."""
    ledger = context.rollouts.ledger
    assert ledger is not None, "the first process keeps the ledger"
    ledger.amend(nodes)
    recorded_ids = ledger.finished(context.stage) | ledger.finished(f"{context.stage}-end")
    for end in ends:
        if end.id not in recorded_ids:
            await ledger.finish(end)
