"""Values of search nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from agentgym import JudgeError, SearchError, load_reward
from agentgym.options import Count, Share
from agentgym.reward import validate_components

from .tree import Node, SearchTree


class PotentialValue:
    """The environment's potential: how far the task has come. It knows the whole state, which the agent may not see."""

    reads_outcome: ClassVar[bool] = False

    async def __call__(self, tree: SearchTree, nodes: Sequence[Node]) -> list[float | None]:
        """Return the potentials of the nodes. Raises: SearchError for an environment without a potential."""
        values: list[float | None] = []
        for node in nodes:
            end = node.trajectory.end_state if node.trajectory else None
            if end is None or end.potential is None:
                raise SearchError(
                    f"The search values its nodes by the environment's potential, but {tree.task.environment!r} has "
                    f"none after turn {node.depth - 1} of {tree.task.id!r}. Write value='log_prob', or give the "
                    "environment a `potential`."
                )
            values.append(end.potential)
        return values


class LogProbValue:
    """How likely the policy finds the L turns up to the node: the sum of their tokens' log-probabilities / L^alpha.

    Args:
        alpha: 0 prefers short paths, 1 gives the mean per turn.
    Source: BFS-Prover, Xin et al. 2025, arXiv:2502.03438, section 3.1, with turns in place of tactics.
    """

    reads_outcome: ClassVar[bool] = False

    def __init__(self, *, alpha: Share = 0.5) -> None:
        self._alpha = alpha

    async def __call__(self, tree: SearchTree, nodes: Sequence[Node]) -> list[float | None]:
        """Return the policy's log-probability scores. Raises: SearchError for a policy without log-probabilities."""
        values: list[float | None] = []
        for node in nodes:
            turns = node.trajectory.turns if node.trajectory else []
            if not all(turn.logprobs for turn in turns):
                raise SearchError(
                    "The search values its nodes by the policy's log-probabilities, but the policy records none. Use "
                    "a local model or vLLM, or another value, such as 'potential'."
                )
            values.append(sum(map(sum, (turn.logprobs for turn in turns))) / len(turns) ** self._alpha)
        return values


class RolloutValue:
    """The mean return of `count` episodes that the policy plays from the node on; an ended node has its own return."""

    reads_outcome: ClassVar[bool] = True

    def __init__(self, *, count: Count = 1) -> None:
        self._count = count

    async def __call__(self, tree: SearchTree, nodes: Sequence[Node]) -> list[float | None]:
        """Return the values of the nodes."""
        values: list[float | None] = []
        for node in nodes:
            assert node.trajectory is not None
            episodes = [node.trajectory] if node.ended else await tree.rollouts(node, self._count)
            values.append(float(np.mean([episode.return_from() for episode in episodes])) if episodes else None)
        return values


class RewardValue:
    """A registered reward's score of the turns so far, without the task's truth: a reward model, a judge.

    Args:
        name: the reward's name. Any reward may use a verifier, so this counts as reading the outcome.
    """

    reads_outcome: ClassVar[bool] = True

    def __init__(self, *, name: str) -> None:
        self._reward = load_reward(name)

    async def __call__(self, tree: SearchTree, nodes: Sequence[Node]) -> list[float | None]:
        """Return the reward's values. Raises: RewardError for an answer that is not a reward."""
        values: list[float | None] = []
        for node in nodes:
            assert node.trajectory is not None
            without_truth = replace(node.trajectory, task=tree.task.public())
            try:
                components = await validate_components(self._reward.outcome(without_truth), self._reward)
            except JudgeError:  # a judge's failure says nothing about the node
                tree.cost.failed += 1
                values.append(None)
            else:
                values.append(self._reward.total(components))
        return values
