"""Compares the credit of a training step with counterfactual credit, every few steps."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from agentgym.errors import EvaluationError
from agentgym.evaluation.credit_audit import draw
from agentgym.policy.contract import Policy
from agentgym.rollout.rollouts import Rollouts
from agentgym.storage.run_folder import RunFolder
from agentgym.training.parts import TrainingPart
from agentgym.training.recipe.train_groups import AuditSection
from agentgym.training.recipe.train_section import TrainSection
from agentgym.trajectory.record import Trajectory

NAME = "credit"


class CreditAudit:
    """Compares a step's advantages with counterfactual credit, as `agentgym credit audit` does for a finished run.

    An audit costs `continuations` episodes for every turn but the first of `sample` trajectories. These episodes are
    played with the weights that played the step, are not written to the ledger, and do not affect training.

    Args:
        section: the recipe's [train.audit]; the first audit is at step `every`.
        iterations: optimiser steps per step of the recipe.
        group_size: number of trajectories per task, which are consecutive in a batch.
        clock: returns seconds.
    """

    def __init__(
        self,
        policy: Policy,
        rollouts: Rollouts,
        section: AuditSection,
        *,
        group_size: int,
        iterations: int = 1,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy, self._rollouts = policy, rollouts
        self._every, self._iterations, self._size = section.every * iterations, iterations, group_size
        self._sample, self._continuations = section.sample, section.continuations
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


class CreditLog(TrainingPart):
    """Appends the credit of every step to credit.jsonl in a run folder, and audits it if [train] says so.

    Args:
        policy, rollouts: continue episodes for the audit.
    """

    def __init__(
        self, section: TrainSection, folder: RunFolder, policy: Policy, rollouts: Rollouts, *, seed: int
    ) -> None:
        self._file, self._audit = folder.path / "credit.jsonl", None
        if section.audit.every:
            self._audit = CreditAudit(
                policy,
                rollouts,
                section.audit,
                group_size=section.group_size,
                iterations=section.passes,
                seed=seed,
            )

    @override
    def trainer_options(self) -> Mapping[str, Any]:
        return {"credit_callback": self}

    def __call__(
        self, step: int, trajectories: Sequence[Trajectory], credit: Sequence[np.ndarray]
    ) -> Mapping[str, float]:
        """Write the credit of a batch. Returns: the metrics of the audit."""
        with self._file.open("a", encoding="utf-8") as file:
            for trajectory, advantages in zip(trajectories, credit, strict=True):
                if trajectory.stop_reason is None:
                    continue  # unfinished: the group did not wait for this episode
                row = {"trajectory": trajectory.id, "step": step, "advantages": [float(a) for a in advantages]}
                file.write(json.dumps(row) + "\n")
        return {} if self._audit is None else self._audit(step, trajectories, credit)
