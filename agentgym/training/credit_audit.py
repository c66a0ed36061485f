"""Does the credit agree with what the turns brought? Asked every few steps while training, at a cost that is logged."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agentgym.errors import EvaluationError
from agentgym.evaluation.credit_audit import draw
from agentgym.policy.contract import Policy, Sampling
from agentgym.training.rollouts import Rollouts
from agentgym.trajectory import Trajectory

NAME = "credit"


class CreditAudit:
    """Compares a step's advantages with counterfactual credit, as `agentgym credit audit` does with a finished run's.

    Costs `continuations` episodes for every turn but the first of `sample` trajectories. They are played with the
    weights that played the step, kept in no ledger, and change nothing of what is learnt.

    Args:
        every: audited steps: every so many, the first being number `every`.
        iterations: optimiser steps to a step of the recipe.
        group_size: trajectories of one task, which follow one another in a batch.
        clock: tells seconds.
    """

    def __init__(
        self,
        policy: Policy,
        rollouts: Rollouts,
        sampling: Sampling,
        *,
        every: int,
        sample: int,
        continuations: int,
        group_size: int,
        iterations: int = 1,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy, self._rollouts, self._sampling = policy, rollouts, sampling
        self._every, self._iterations = every * iterations, iterations
        self._sample, self._continuations, self._size = sample, continuations, group_size
        self._seed, self._clock = seed, clock

    def __call__(self, step: int, played: Sequence[Trajectory], credit: Sequence[np.ndarray]) -> Mapping[str, float]:
        """Figures of the log, or nothing at a step that is not audited.

        Args:
            step: optimiser steps done before this batch. `played`, `credit`: its trajectories, and their advantages.
        Returns: by name under "audit/": `sign` and `rank`, the agreement; `zero_gradient` and `singletons`, shares;
            `noise` of the counterfactual credit, in reward units; `turns` that were compared, 0 where none could be;
            `episodes` played on, those `diverged`, and `seconds`. What is not defined is left out.
        """
        if (step + self._iterations) % self._every:
            return {}
        started = self._clock()
        found = {"turns": 0.0, "episodes": 0.0, "diverged": 0.0}
        rows = range(0, len(played), self._size)
        groups = [played[at : at + self._size] for at in rows]
        given = {NAME: [[np.asarray(one) for one in credit[at : at + self._size]] for at in rows]}
        try:
            sample = draw(groups, given, sample=self._sample, seed=self._seed + step)
            others = self._rollouts.branch(
                self._policy, sample.forks, self._continuations, run=f"audit-{step:06d}", sampling=self._sampling
            )
            found |= {"episodes": float(len(others)), "diverged": float(sum(not other.valid for other in others))}
            audit = sample.compared(others, seed=self._seed)
        except EvaluationError:
            pass  # nothing to compare in this step: the figures say so, and what it cost
        else:
            agreed, facts = audit.agreements[NAME], audit.facts[NAME]
            found |= {
                "turns": float(audit.turns),
                "sign": agreed.sign,
                "rank": agreed.rank,
                "noise": audit.noise,
                "zero_gradient": facts.zero_gradient,
                "singletons": facts.singletons,
            }
        found["seconds"] = self._clock() - started
        return {f"audit/{name}": value for name, value in found.items() if math.isfinite(value)}
