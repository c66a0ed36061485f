"""The objective and the loss terms of a recipe, and checks of their requirements on the recipe."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from typing_extensions import override

from agentgym.credit.named_parts import parse_part
from agentgym.errors import CreditError, RecipeError
from agentgym.training.fit import PlannedPart, TrainingPlan, is_implied
from agentgym.training.objectives.contract import LossRequirements, TrlLoss, make_objective, make_terms, needs_of
from agentgym.training.objectives.trl_losses import LOSES_TURNS, RATIO_BY_EPISODE
from agentgym.training.recipe.train_section import TrainSection

_ONLY_IN_LOSSES_OF_TRL = (
    "delta",
    "entropy_coef",
    "epsilon",
    "importance_sampling_level",
    "loss_type",
    "off_policy_mask_threshold",
    "sapo_",
    "top_entropy_quantile",
    "use_adaptive_entropy",
    "use_bias_correction_kl",
    "vespo_",
)
"""Options of GRPOConfig, or their prefixes, that only TRL's own losses read."""
_EXPERTS = "experts"
"""The training part with a section of its own in the recipe."""
_CRITICS = {"values", "action_values", "token_values"}
"""Signals that a critic provides."""


@dataclass(frozen=True, slots=True)
class PlannedLoss(PlannedPart):
    """A loss of a recipe.

    Attributes:
        key: the loss's key in the recipe, which begins each message.
        needs: the loss's declared requirements.
    """

    key: str
    needs: LossRequirements

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        train, needs = plan.train, self.needs
        if needs.reference and not train.keeps_reference:
            yield (
                f"{self.key} needs a reference model, and the run keeps none. Set [train.reference] kind, for example "
                "to 'fixed'."
            )
        if _EXPERTS in needs.rows and train.experts is None:
            yield f"{self.key} needs episodes of an expert. Add [train.experts], with player = 'oracle'."
        for name in needs.from_parts:
            if name not in (_EXPERTS, *train.parts) and not is_implied(name):
                yield (
                    f"{self.key} needs the training part {name!r}. Name its options in [train.parts.{name}], see "
                    "`agentgym list training_parts`."
                )

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        if self.needs.rows != ("policy",) and plan.process_count > 1:
            yield (
                f"{self.key} trains on other episodes than the policy's, which works in one process, not in "
                f"{plan.process_count}."
            )


class PlannedObjective(PlannedLoss):
    """The objective of a recipe. Unlike a loss term it may use advantages, and loss terms may replace part of it."""

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        estimator = plan.train.make_estimator()
        if self.needs.critic and not _CRITICS & set(estimator.requires):
            yield (
                f"{self.key} takes the advantages of a critic, and the estimator {estimator.name} has none. Leave "
                "train.estimator out, or choose one that requires values, such as turn_gae(lam=0.95)."
            )
        yield from super().requires(plan)

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        yield from self._conflicts_of_estimator(plan.train)
        yield from self._conflicts_of_groups(plan.train)
        yield from super().conflicts(plan)
        yield from _conflicts_of_shares(plan.train)

    def _conflicts_of_estimator(self, train: TrainSection) -> Iterator[str]:
        estimator, needs = train.make_estimator(), self.needs
        default = train.estimator == TrainSection.model_fields["estimator"].default
        if not needs.advantages and not (default and not train.estimator_wrappers and not train.estimator_options):
            yield (
                f"{self.key} reads outcomes instead of advantages, so train.estimator = {train.estimator!r} would "
                "change nothing. Leave the estimator out, or choose an objective that takes advantages, such as "
                "dr_grpo."
            )
        if needs.advantages and train.group_size < estimator.minimum_group:
            yield (
                f"{self.key} takes advantages, and the estimator {estimator.name} compares at least "
                f"{estimator.minimum_group} episodes of a task: with train.group_size = {train.group_size} all of them "
                "would be 0. Raise it, or choose an estimator that compares none, such as turn_gae or reinforce_pp."
            )
        if estimator.by_turn and train.trl.get(RATIO_BY_EPISODE) == "sequence":
            yield f"{self.key} with train.estimator = {estimator.name!r} and [train.trl] {LOSES_TURNS}"
        if needs.group_outcomes and "branches" in estimator.requires:
            yield (
                f"{self.key} compares whole episodes of a group, and those of {estimator.name} branch off each other. "
                "Choose an estimator without branches."
            )

    def _conflicts_of_groups(self, train: TrainSection) -> Iterator[str]:
        if self.needs.whole_groups and (steps := train.trl.get("steps_per_generation", 1)) != 1:
            yield (
                f"{self.key} compares whole groups, which [train.trl] steps_per_generation = {steps!r} shares out "
                "among several optimiser steps. Leave that out."
            )
        if self.needs.group_outcomes and train.group_size == 1:
            yield (
                f"{self.key} compares the episodes of a group, and train.group_size = 1 plays one of each task. Raise "
                "it."
            )


def planned_losses(train: TrainSection) -> list[PlannedLoss]:
    """Return the objective, then the terms; an empty list for a recipe without training steps.

    Raises: RecipeError for unknown options of a loss, and for TRL options that the objective does not read.
    """
    try:
        objective = make_objective(train.objective)
    except (CreditError, ValueError) as error:
        raise RecipeError(f"train.objective = {train.objective!r} cannot be used: {error}") from error
    try:
        terms = make_terms(train.terms)
    except (CreditError, ValueError) as error:
        raise RecipeError(f"A loss term of [train.terms] cannot be used: {error}") from error
    unread = [key for key in train.trl if key.startswith(_ONLY_IN_LOSSES_OF_TRL)]
    if unread and not isinstance(objective, TrlLoss):
        key, value = unread[0], train.trl[unread[0]]
        has_its_own = key in inspect.signature(getattr(objective, "func", objective)).parameters
        own = f"{parse_part(train.objective).name}({key}={value!r})"
        raise RecipeError(
            (
                f"[train.trl] {key} = {value!r} applies only to losses that TRL computes, but agentgym computes "
                f"train.objective = {train.objective!r}. "
            )
            + (f"Write it as the objective's own option: {own!r}." if has_its_own else "Leave it out.")
        )
    if not train.steps:
        return []
    planned = [PlannedLoss(f"train.terms.{term.name}", needs_of(term.row_losses)) for term in terms]
    return [PlannedObjective(f"train.objective = {train.objective!r}", needs_of(objective)), *planned]


def _conflicts_of_shares(train: TrainSection) -> Iterator[str]:
    """Yield an error for terms that replace part of the objective if a weight or their sum is outside 0 to 1."""
    highest = 0.0
    for term in make_terms(train.terms):
        if not needs_of(term.row_losses).instead:
            continue
        low, high = train.terms[term.name].weights
        highest += high
        if low < 0 or highest > 1:
            yield (
                f"train.terms.{term.name}: its weight is taken off the objective's, so it has to stay between 0 and 1. "
                f"With its schedule it goes from {low:g} to {high:g}."
            )


@dataclass(frozen=True, slots=True)
class PlannedReference(PlannedPart):
    """The reference model of [train.reference], which some loss must read. `losses`: the recipe's losses."""

    losses: Sequence[PlannedLoss]

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        kind, is_read = plan.train.reference.kind, any(loss.needs.reference for loss in self.losses)
        if kind is not None and not (plan.train.reference_weight or is_read):
            yield (
                f"[train.reference] kind = {kind!r}: nothing reads the reference model. Set train.kl above 0, or leave "
                "`kind` out."
            )
