"""How likely the gold answer is after each turn: information that a turn brought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from agentgym.errors import CreditError
from agentgym.policy.contract import Policy
from agentgym.task import Task, TaskSet
from agentgym.training.rollouts import Rollouts
from agentgym.training.signals.provider import Rows
from agentgym.trajectory import Trajectory

NO_ANSWER = (
    "{name} has no `answer`, so there is no gold answer whose likelihood could be asked for. "
    "Give the TaskSet one, or choose an estimator that does not require gold_logprobs."
)


class GoldAnswer:
    """`gold_logprobs`: mean log-probability per token of the gold answer, before each turn and after the last.

    Args:
        policy: scores given tokens; it is asked, never told.
        task_set: whose `answer` is the message that answers a task rightly.
        rollouts: whose event loop the policy lives on.
    Raises: CreditError for a policy without a renderer, or a task set without an answer.
    Source: Information Gain-based Policy Optimization, arXiv:2510.14967.
    """

    provides: tuple[str, ...] = ("gold_logprobs",)

    def __init__(self, policy: Policy, task_set: TaskSet, rollouts: Rollouts) -> None:
        if policy.renderer is None:
            raise CreditError(f"{policy.name} has no renderer: the gold answer cannot be scored without token ids.")
        if task_set.answer is None:
            raise CreditError(NO_ANSWER.format(name=task_set.name))
        self._policy, self._answer, self._rollouts = policy, task_set.answer, rollouts

    def signals(self, played: Sequence[Trajectory], step: int) -> Mapping[str, Rows]:
        """Raises: PolicyError from the model."""
        rows: Rows = []
        pairs: list[tuple[list[int], list[int]]] = []
        for trajectory in played:
            if not trajectory.valid:
                rows.append([0.0] * (len(trajectory.turns) + 1))
                continue
            gold = self._gold(trajectory.task)
            rows.append(len(pairs))
            pairs += [(prefix, gold) for prefix in prefixes(trajectory)]
        scored = self._rollouts.score(self._policy, pairs)
        means = [float(np.mean(one)) for one in scored]
        return {
            "gold_logprobs": [
                means[row : row + len(t.turns) + 1] if isinstance(row, int) else row
                for row, t in zip(rows, played, strict=True)
            ]
        }

    def _gold(self, task: Task) -> list[int]:
        assert self._policy.renderer is not None
        return self._policy.renderer.encode(self._answer(task))

    def update(self, played: Sequence[Trajectory]) -> Mapping[str, float]:
        return {}


def prefixes(trajectory: Trajectory) -> list[list[int]]:
    """Token ids before each turn, and after the last: K + 1 lists."""
    ids, found = list(trajectory.prompt_ids), []
    for turn in trajectory.turns:
        found.append(list(ids))
        ids += [*turn.token_ids, *turn.observation_ids]
    return [*found, ids]
