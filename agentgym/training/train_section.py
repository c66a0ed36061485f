"""The recipe's [train]: reinforcement, what is played, how credit is given, and what is minimised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from agentgym.credit import Estimator, estimator
from agentgym.evaluation.failures import Treatment
from agentgym.section import Count, Rate, Section, Share
from agentgym.training.microbatches import DEFAULT_TOKENS
from agentgym.training.reward_section import ScheduleSection

if TYPE_CHECKING:
    from agentgym.training.objectives import RowLosses, TrlLoss, WeightedTerm


class ReplaySection(Section):
    """Lets the critic of an estimator learn from turns of earlier steps too (see ReplayedCritic).

    `updates`: optimiser steps of the critic after each step. `batch_size`: turns of each. `capacity`: turns that are
    kept, the last ones. `half_life`: turns are drawn half as often for so many optimiser steps of the policy that they
    are old; without it all alike. `follow`: how far the slow copy moves towards the critic after each of its steps.
    `weighted`: turns count by their probability now over that when they were sampled. `max_ratio`: at most so much.
    `runs`: folders of other runs whose episodes are stored from the start. `label`: of these, only the episodes whose
    id begins with it.
    """

    updates: Count = 20
    batch_size: Count = 64
    capacity: Count = 10_000
    half_life: Rate | None = None
    follow: Share = 0.1
    weighted: bool = True
    max_ratio: Rate = 10.0
    runs: list[str] = []
    label: str = "train-"


class SignalsSection(Section):
    """How signals are computed that the estimator requires and no record holds (see agentgym.training.signals).

    `continuations`: episodes that are continued from each turn. `root_episodes`: episodes of a group that are played
    from the start; the others branch off them. `branch_before`: the last turn before which they may branch off.
    `exact_turns`: in episodes of up to this many turns, every subset of the turns is replayed.
    `hindsight`: estimated by a network that is `learnt` during training, or by the `prompted` policy itself.
    `learning_rate`, `epochs`: of these networks.
    `double`: the critic has two heads and a slowly updated copy. `privileged`: the critic reads the task's truth, which
    the policy never does. `replay`: the critic also learns from earlier steps; it is `double` then.
    """

    continuations: Count = 4
    root_episodes: Annotated[int, Field(ge=2)] = 2
    branch_before: Count = 4
    hindsight: Literal["learnt", "prompted"] = "learnt"
    exact_turns: Annotated[int, Field(ge=0, le=10)] = 4
    learning_rate: Rate = 1e-3
    epochs: Count = 2
    double: bool = False
    privileged: bool = False
    replay: ReplaySection | None = None


class ReferenceSection(Section):
    """The model that `train.kl` is measured against: the one that reinforcement starts from, unless it moves.

    `reset_every`: every so many optimiser steps it becomes `mix` x the current weights + (1 - `mix`) x itself; 0
    leaves it as it is. `mix`: 1 is a reset; a small one with `reset_every = 1` is a moving average of the weights.
    """

    reset_every: Annotated[int, Field(ge=0)] = 0
    mix: Share = 1.0


class TermSection(Section):
    """A loss that is added to the objective's, see `agentgym list loss_terms`.

    `weight`: of it. `schedule`: a factor on the weight over the training. `options`: of the term.
    """

    weight: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    schedule: ScheduleSection | None = None
    options: dict[str, float | str | bool] = {}


class TrainSection(Section):
    """Reinforcement with turn-level credit. One step plays `tasks_per_step` x `group_size` episodes.

    `steps`: how many batches of episodes are played. `tasks_per_step`: tasks of a step. `group_size`: episodes of each
    task, which are compared with each other.
    `estimator`: how credit is given to turns, see `agentgym list estimators`. `estimator_options`: its options.
    `estimator_wrappers`: for example `["gated(threshold=1.0)", "off_policy(mode='mis')"]`, innermost first; or write
    all in one string, `estimator = "rloo | gated(threshold=1.0)"`.
    `signals`: how signals are computed that the estimator requires.
    `learning_rate`: of the optimiser, constant unless `trl.lr_scheduler_type` says otherwise. `warmup_steps`: in which
    it rises, with such a scheduler. `max_grad_norm`: longer gradients are clipped to this norm.
    `objective`: the loss, see `agentgym list objectives`; with options as in "topr(max_ratio=1.0)". `terms`: losses
    that are added to it, by name. `kl`: weight of the distance from a reference model. `reference`: that model.
    `iterations`: optimiser steps on each batch of episodes. `microbatch_tokens`: a batch is computed in parts of at
    most so many tokens, padding included, which are one optimiser step together; fewer take less memory.
    `generation`: `transformers` samples in this process; `trl` through the trainer's own backend (vLLM by
    `trl.use_vllm = true`).
    `save_every`: steps between two checkpoints. `keep_checkpoints`: how many of the last are kept.
    `validate_every`: steps between two validations. `validate_tasks`: tasks of each. `until_success`: stop as soon as
    success on validation tasks reaches it.
    `sampler`: what chooses the tasks of a step, for example "curriculum(window=4)", see `agentgym list samplers`; by
    default they are shuffled. `gather`: wrappers of how groups are played, innermost first, for example
    ["max_variance(factor=2)"], see `agentgym list gatherers`.
    `audit_every`: every so many steps the credit is compared with counterfactual credit (0: never).
    `audit_sample`: trajectories of such an audit. `audit_continuations`: episodes continued from each of their turns.
    `failures`: how kinds of failures are treated, for example `{void = "mask_episode"}`; docs/evaluate.md has the
    table of kinds and treatments.
    `trl`: any further option of TRL's GRPOConfig, unchanged.
    """

    steps: Annotated[int, Field(ge=0)] = 100
    tasks_per_step: Count = 8
    group_size: Annotated[int, Field(ge=2)] = 8
    estimator: str = "return_to_go"
    estimator_options: dict[str, float | str | bool] = {}
    estimator_wrappers: list[str] = []
    signals: SignalsSection = SignalsSection()
    learning_rate: Rate = 3e-4
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    objective: str = "dr_grpo"
    terms: dict[str, TermSection] = {}
    iterations: Count = 1
    microbatch_tokens: Count = DEFAULT_TOKENS
    kl: Annotated[float, Field(ge=0)] = 0.0
    reference: ReferenceSection = ReferenceSection()
    max_grad_norm: Rate = 1.0
    generation: Literal["transformers", "trl"] = "transformers"
    save_every: Count = 20
    keep_checkpoints: Count = 2
    validate_every: Count = 10
    validate_tasks: Count = 64
    until_success: Share | None = None
    sampler: str | None = None
    gather: list[str] = []
    audit_every: Annotated[int, Field(ge=0)] = 0
    audit_sample: Annotated[int, Field(ge=2)] = 8
    audit_continuations: Annotated[int, Field(ge=2)] = 4
    failures: dict[str, Treatment] = {}
    trl: dict[str, Any] = {}

    @model_validator(mode="after")
    def _reference_is_used(self) -> TrainSection:
        moves = self.reference.reset_every or self.trl.get("sync_ref_model")
        if moves and not self.trl.get("beta", self.kl):
            raise ValueError("a reference that moves (reference.reset_every, trl.sync_ref_model) needs kl > 0")
        return self

    def autocast(self, device: str) -> Literal["bfloat16", "float16"] | None:
        """The dtype that training computes in, and so sampling and measuring too; None for that of the weights."""
        if self.trl.get("fp16"):
            return "float16"
        return "bfloat16" if self.trl.get("bf16", device != "cpu") else None

    def make_objective(self) -> RowLosses | TrlLoss:
        """Make the objective with its options. Raises: UnknownNameError, CreditError."""
        from agentgym.training.objectives import make_objective

        return make_objective(self.objective)

    def make_terms(self) -> list[WeightedTerm]:
        """Make the loss terms with their options. Raises: UnknownNameError, CreditError."""
        from agentgym.training.objectives import make_term

        return [
            make_term(name, term.weight, term.schedule.make() if term.schedule else None, term.options)
            for name, term in self.terms.items()
        ]

    def make_estimator(self) -> Estimator:
        """Make the estimator with its options and wrappers. Raises: UnknownNameError, CreditError."""
        return estimator(" | ".join([self.estimator, *self.estimator_wrappers]), **self.estimator_options)
