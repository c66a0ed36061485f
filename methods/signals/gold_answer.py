"""The gold answer's likelihood before and after each turn, to measure the turn's information gain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from agentgym import CreditError, Policy, Task, TaskSet, Trajectory
from agentgym.training import Rollouts, TrainingPlan
from agentgym.training.signals import SignalProvider, SignalSources

NO_ANSWER = (
    "{name} has no `answer`, so there is no gold answer to score. "
    "Give the TaskSet one, or choose an estimator that does not require gold_logprobs."
)


class GoldAnswer(SignalProvider):
    """Compute `gold_logprobs`: mean log-probability per token of the gold answer, before each turn and after the last.

    Args:
        policy: scores given tokens; the answer never enters the policy's episodes.
        task_set: its `answer` returns the message that answers a task correctly.
        rollouts: provides the event loop of the policy.
    Raises: CreditError for a policy without a renderer, or a task set without an answer.
    Source: Information Gain-based Policy Optimization, arXiv:2510.14967.
    """

    provides: ClassVar[tuple[str, ...]] = ("gold_logprobs",)
    reads_text_only: ClassVar[bool] = True
    reads_one_context: ClassVar[bool] = True

    def __init__(self, policy: Policy, task_set: TaskSet, rollouts: Rollouts) -> None:
        if policy.renderer is None:
            raise CreditError(
                f"{policy.name} has no renderer, so the gold answer has no token ids and cannot be scored. Use a "
                "local model, or one on a vLLM server."
            )
        if task_set.answer is None:
            raise CreditError(NO_ANSWER.format(name=task_set.name))
        self._policy, self._answer, self._rollouts = policy, task_set.answer, rollouts

    @classmethod
    @override
    def make(cls, sources: SignalSources) -> GoldAnswer:
        return cls(sources.policy, sources.task_set, sources.rollouts)

    @classmethod
    @override
    def requires(cls, plan: TrainingPlan) -> Iterator[str]:
        if plan.task_set.answer is None:
            raise CreditError(NO_ANSWER.format(name=plan.task_set.name))
        yield from ()

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, list[Any]]:
        """Score the gold answer before and after each turn. Raises: PolicyError from the model."""
        rows: list[Any] = []
        pairs: list[tuple[list[int], list[int]]] = []
        for trajectory in trajectories:
            if not trajectory.valid:
                rows.append([0.0] * (len(trajectory.turns) + 1))
                continue
            gold = self._gold(trajectory.task)
            rows.append(len(pairs))
            pairs += [(prefix, gold) for prefix in prefixes(trajectory)]
        logprobs_of_pairs = self._rollouts.score(self._policy, pairs)
        means = [float(np.mean(logprobs)) for logprobs in logprobs_of_pairs]
        return {
            "gold_logprobs": [
                means[row : row + len(t.turns) + 1] if isinstance(row, int) else row
                for row, t in zip(rows, trajectories, strict=True)
            ]
        }

    def _gold(self, task: Task) -> list[int]:
        assert self._policy.renderer is not None
        return self._policy.renderer.encode(self._answer(task))


def prefixes(trajectory: Trajectory) -> list[list[int]]:
    """Return the token ids before each turn, and after the last one: T + 1 lists."""
    trajectory.require_one_row("the gold answer's probability")
    ids, prefix_ids = list(trajectory.prompt_ids), []
    for turn in trajectory.turns:
        prefix_ids.append(list(ids))
        ids += [*turn.token_ids, *turn.observation_ids]
    return [*prefix_ids, ids]
