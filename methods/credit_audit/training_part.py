"""Compares the credit of a training step with counterfactual credit, every few steps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field
from typing_extensions import override

from agentgym import EvaluationError, Policy, Trajectory
from agentgym.options import WholeNumber
from agentgym.training import Rollouts, TrainingPart, TrainingRun

from .comparison import draw

NAME = "credit"


class StepAudit:
    """Compares a step's advantages with counterfactual credit. `agentgym credit audit` does the same for a finished
    run.

    An audit costs `continuations` episodes for every turn but the first of `sample` trajectories. These episodes are
    played with the weights that played the step, are not written to the ledger, and do not affect training.

    Args:
        every: steps of the recipe between two audits; the first is at step `every`.
        sample: number of trajectories in an audit. continuations: number of episodes from each of their turns.
        iterations: optimiser steps per step of the recipe.
        group_size: number of trajectories per task, which are consecutive in a batch.
        clock: returns seconds.
    """

    def __init__(
        self,
        policy: Policy,
        rollouts: Rollouts,
        *,
        every: int,
        sample: int,
        continuations: int,
        group_size: int,
        iterations: int = 1,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy, self._rollouts = policy, rollouts
        self._every, self._iterations, self._size = every * iterations, iterations, group_size
        self._sample, self._continuations = sample, continuations
        self._seed, self._clock = seed, clock

    def __call__(
        self, step: int, trajectories: Sequence[Trajectory], credit: Sequence[np.ndarray]
    ) -> Mapping[str, float]:
        """Return metrics, or an empty dict at a step that is not audited.

        Args:
            step: number of optimiser steps done before this batch.
            trajectories, credit: the batch's trajectories, and one array of advantages per trajectory.
        Returns: by name under "audit/": `sign` and `rank`, the agreement; `zero_gradient` and `singletons`, fractions;
            `noise` of the counterfactual credit, in reward units; `turns`, the number of compared turns; `episodes`,
            the number of continuations; `diverged`, the number of invalid continuations; `seconds`. Undefined metrics
            are left out.
        """
        if (step + self._iterations) % self._every:
            return {}
        started = self._clock()
        metrics = {"turns": 0.0, "episodes": 0.0, "diverged": 0.0}
        starts = range(0, len(trajectories), self._size)
        groups = [trajectories[start : start + self._size] for start in starts]
        credit_by_name = {
            NAME: [[np.asarray(advantages) for advantages in credit[start : start + self._size]] for start in starts]
        }
        try:
            sample = draw(groups, credit_by_name, sample=self._sample, seed=self._seed + step)
            continuations = self._rollouts.at_step(step).branch(
                self._policy, sample.forks, self._continuations, label=f"audit-{step:06d}"
            )
            metrics |= {
                "episodes": float(len(continuations)),
                "diverged": float(sum(not continuation.valid for continuation in continuations)),
            }
            audit = sample.compared(continuations, seed=self._seed)
        except EvaluationError:
            pass  # nothing to compare in this step: the metrics show 0 turns and the cost
        else:
            agreement, facts = audit.agreements[NAME], audit.facts[NAME]
            metrics |= {
                "turns": float(audit.turns),
                "sign": agreement.sign,
                "rank": agreement.rank,
                "noise": audit.noise,
                "zero_gradient": facts.zero_gradient,
                "singletons": facts.singletons,
            }
        metrics["seconds"] = self._clock() - started
        return {f"audit/{name}": value for name, value in metrics.items() if math.isfinite(value)}


class CreditAudit(TrainingPart):
    """Audits the credit every few steps, and logs the agreement; what is learnt does not change.

    Args:
        every: steps between two audits; 0 for none.
        sample: number of trajectories in an audit.
        continuations: number of episodes that are continued from each turn of an audited trajectory.
    """

    def __init__(
        self,
        *,
        every: WholeNumber = 10,
        sample: Annotated[int, Field(ge=2)] = 8,
        continuations: Annotated[int, Field(ge=2)] = 4,
    ) -> None:
        self._every, self._sample, self._continuations = every, sample, continuations
        self._audit: StepAudit | None = None

    @property
    @override
    def reads_state_keys(self) -> bool:
        return self._every > 0

    @override
    def prepare(self, run: TrainingRun) -> None:
        if self._every:
            self._audit = StepAudit(
                run.policy,
                run.rollouts,
                every=self._every,
                sample=self._sample,
                continuations=self._continuations,
                group_size=run.train.group_size,
                iterations=run.train.passes,
                seed=run.seed,
            )

    @override
    def credited(
        self, step: int, trajectories: Sequence[Trajectory], credit: Sequence[np.ndarray]
    ) -> Mapping[str, float]:
        return {} if self._audit is None else self._audit(step, trajectories, credit)
