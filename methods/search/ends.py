"""Makes training data from a search tree: its nodes, and its finished episodes labelled with the values of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from agentgym import Trajectory, Turn
from agentgym.trajectory import EndState, ForkPoint

from .tree import Node, SearchTree

MAX_CHARS = 80
"""The largest number of characters of a result that a trace shows."""


def valued_nodes(tree: SearchTree) -> Iterator[Trajectory]:
    """Yield the episodes of all nodes of a tree except the root; each has the node's value in its end state."""
    for node in tree.root.descendants():
        assert node.trajectory is not None
        node.trajectory.end_state = replace(node.trajectory.end_state or EndState(), value=node.value)
        yield node.trajectory


def labelled_ends(tree: SearchTree, chosen: Trajectory, label: str, *, traces: bool = False) -> Iterator[Trajectory]:
    """Yield the finished ends of a tree as whole judged episodes; for a tree without any, yield `chosen`.

    `Turn.value` is the value of the node before the turn; before the first turn it is the mean over the first nodes.
    Turns that the policy played on after the search have no value.

    Args:
        chosen: the episode that the search chose, played to its end.
        label: begins the ids of the episodes.
        traces: see `with_trace`.
    """
    if tree.root.children:
        tree.root.value = float(np.mean([child.value for child in tree.root.children]))
    ends = [node for node in tree.root.descendants() if node.ended]
    for node in ends:
        assert node.trajectory is not None
        yield _labelled(node.trajectory, node.path(), f"{label}-end", traces)
    if not ends and chosen.valid:
        origin = chosen.provenance.branch
        by_id = {node.trajectory.id: node for node in tree.root.descendants() if node.trajectory is not None}
        path = by_id[origin.trajectory].path() if origin is not None else [tree.root]
        yield _labelled(chosen, path, label, traces)


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
    """Return the turn as if the policy had thought about the search before it: ReSim's training data.

    Before the turn's own move, its message then lists the moves that were tried from the node before it, the best
    first, each with its result and value. The turn has no token ids any more; a learner encodes the new message.

    Source: Dyna-Mind, Yu et al. 2025, arXiv:2510.09577; written from descriptions, not checked against its code. There,
        a model verbalises the tree.
    """
    if not node.children:
        return turn
    children = sorted(node.children, key=lambda child: -child.value)
    lines = [f"- {_move_of(child.turn)} -> {_result_of(child.turn)} ({child.value:.2f})" for child in children]
    text = "\n".join(["What each move would lead to:", *lines, turn.message.written]).rstrip()
    return replace(turn, message=replace(turn.message, content=text, reasoning=""), token_ids=[], logprobs=[])


def _move_of(turn: Turn) -> str:
    return ", ".join(call.in_one_line() for call in turn.calls) or _in_one_line(turn.message.text)


def _result_of(turn: Turn) -> str:
    messages = turn.observation()
    return _in_one_line(" ".join(message.text for message in messages))


def _in_one_line(text: str) -> str:
    """Return as many leading words as fit in a line of a trace."""
    return " ".join(text.split())[:MAX_CHARS]
