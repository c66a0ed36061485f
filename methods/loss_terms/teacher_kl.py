"""On-policy distillation: a teacher scores what the agent itself wrote.

The training part `teacher` loads the teacher; the term `teacher_kl` reads its log-probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import torch
from typing_extensions import override

from agentgym import CreditError
from agentgym.options import Weight
from agentgym.training import FrozenModel, StepBatch, TrainingPart, TrainingPlan, TrainingRun
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss

TEACHER = "teacher"


@define_loss(LossRequirements(parts=(TEACHER,)))
def teacher_kl(
    tokens: TokenBatch,
    *,
    estimate: Literal["k2", "k3"] = "k2",
    mask: Literal["none", "response", "group"] = "none",
    gate: str = "",
    threshold: Weight = 0.5,
) -> torch.Tensor:
    """R^2 / 2 for each own token, R = log teacher - log pi: its gradient is that of KL(pi, teacher).

    [train.parts.teacher] names the teacher. The loss and its gradient are 0 where teacher and policy agree.

    Args:
        estimate: "k2" is as above. "k3" is exp(R) - 1 - R; where the tokens are the teacher's, its gradient is that of
            KL(teacher, pi).
        mask: "response" leaves out successful episodes, "group" leaves out groups with a success.
        gate, threshold: use only episodes whose outcome component `gate` reaches the threshold; "" uses all.

    Source: k2 and k3, Schulman 2020, http://joschu.net/blog/kl-approx.html; the masks and the gate as
    features of published systems describe them (on-policy distillation beside reinforcement), not checked against code.
    """
    if TEACHER not in tokens.inputs:
        raise CreditError("teacher_kl needs the log-probabilities of a teacher. Name one in [train.parts.teacher].")
    gaps = (tokens.inputs[TEACHER] - tokens.logps) * tokens.own
    values = gaps**2 / 2 if estimate == "k2" else gaps.exp() - 1 - gaps
    counts = torch.ones_like(tokens.returns)
    if mask == "response":
        counts = counts * ~(tokens.successes > 0)
    elif mask == "group":
        counts = counts * ~(tokens.group_successes > 0).any(1)
    if gate:
        counts = counts * (tokens.outcome(gate) >= threshold)
    return tokens.per_row(values) * counts


class TeacherScores(TrainingPart):
    """A second model that scores the agent's tokens for terms such as `teacher_kl`.

    Args:
        path: a local checkpoint, a run folder or a hub name, with the vocabulary of the policy.
    """

    provides: ClassVar[tuple[str, ...]] = (TEACHER,)

    def __init__(self, *, path: str) -> None:
        self._path, self._model = path, FrozenModel(path, "train.parts.teacher.path")

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        if objection := self._model.objection(plan.policy):
            yield objection

    @override
    def further_models(self) -> Mapping[str, str]:
        return {TEACHER: self._path}

    @override
    def prepare(self, run: TrainingRun) -> None:
        self._model.load(run.tokenizer, run.device)

    @override
    def attach(self, trainer: Any) -> None:
        self._model.attach(trainer)

    @override
    def columns(self, step: StepBatch) -> Mapping[str, torch.Tensor]:
        return {TEACHER: self._model.logps(step)}
