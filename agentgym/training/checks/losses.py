"""Whether a recipe has what its objective and its loss terms need, checked before anything is loaded."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path

from transformers import AutoTokenizer

from agentgym import registry
from agentgym.errors import CreditError, RecipeError, TaskError, UnknownNameError
from agentgym.storage import checkpoint_in
from agentgym.task import TaskSet
from agentgym.training.demonstrate import script_of
from agentgym.training.objectives import Needs, TrlLoss, make_objective, make_terms, needs_of
from agentgym.training.processes import ALONE, Processes
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.recipe.train_section import CorrectionsSection, TrainSection

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
"""Options of GRPOConfig, or how they begin, that only TRL's own losses read."""


_CRITICS = {"values", "action_values", "token_values"}
"""Signals that a critic gives."""


def check_losses(recipe: Recipe, task_set: TaskSet, processes: Processes = ALONE) -> None:
    """The options of the objective and of the loss terms, what they need, and options of TRL that nobody would read.

    Raises: RecipeError naming key, value and remedy.
    """
    section = recipe.train
    try:
        objective = make_objective(section.objective)
    except (CreditError, ValueError) as error:
        raise RecipeError(f"train.objective = {section.objective!r}: {error}") from error
    try:
        terms = make_terms(section.terms)
    except (CreditError, ValueError) as error:
        raise RecipeError(f"[train.terms]: {error}") from error
    unread = [key for key in section.trl if key.startswith(_ONLY_IN_LOSSES_OF_TRL)]
    if unread and not isinstance(objective, TrlLoss):
        raise RecipeError(
            f"[train.trl] {unread[0]} = {section.trl[unread[0]]!r} is an option of the losses that TRL computes, and "
            f"train.objective = {section.objective!r} is none of them. Leave it out."
        )
    if not section.steps:
        return
    of_objective, where = needs_of(objective), f"train.objective = {section.objective!r}"
    for reason in _reasons_of_objective(section, of_objective):
        raise RecipeError(f"{where} {reason}")
    everything = [(where, of_objective), *((f"train.terms.{term.name}", needs_of(term.row_losses)) for term in terms)]
    for named, needs in everything:
        for reason in _reasons(recipe, needs, task_set, processes):
            raise RecipeError(f"{named} {reason}")
    _check_shares(section)
    _check_gradients_of_groups(section, [needs for _, needs in everything], processes)
    is_read = section.reference_weight or any(needs.reference for _, needs in everything)
    if section.reference.kind is not None and not is_read:
        raise RecipeError(
            f"[train.reference] kind = {section.reference.kind!r}: nothing reads the reference model. Set train.kl "
            "above 0, or leave `kind` out."
        )


def _reasons_of_objective(section: TrainSection, needs: Needs) -> Iterator[str]:
    """Why the estimator and the objective do not fit, one reason after the other."""
    estimator = section.make_estimator()
    default = section.estimator == TrainSection.model_fields["estimator"].default
    if not needs.advantages and not (default and not section.estimator_wrappers and not section.estimator_options):
        yield (
            f"reads outcomes instead of advantages, so train.estimator = {section.estimator!r} would change nothing. "
            "Leave the estimator out, or choose an objective that takes advantages, such as dr_grpo."
        )
    if needs.critic and not _CRITICS & set(estimator.requires):
        yield (
            f"takes the advantages of a critic, and the estimator {estimator.name} has none. Leave train.estimator "
            "out, or choose one that requires values, such as turn_gae(lam=0.95)."
        )
    if needs.whole_groups and (steps := section.trl.get("steps_per_generation", 1)) != 1:
        yield (
            f"compares whole groups, which [train.trl] steps_per_generation = {steps!r} shares out among several "
            "optimiser steps. Leave that out."
        )
    if section.group_size == 1 and needs.group_outcomes:
        yield "compares the episodes of a group, and train.group_size = 1 plays one of each task. Raise it."
    if section.group_size < estimator.minimum_group and needs.advantages:
        yield (
            f"takes advantages, and the estimator {estimator.name} compares at least {estimator.minimum_group} "
            f"episodes of a task: with train.group_size = {section.group_size} all of them would be 0. Raise it, or "
            "choose an estimator that compares none, such as turn_gae or reinforce_pp."
        )
    if needs.group_outcomes and "branches" in estimator.requires:
        yield (
            f"compares whole episodes of a group, and those of {estimator.name} branch off each other. Choose an "
            "estimator without branches."
        )


def _reasons(recipe: Recipe, needs: Needs, task_set: TaskSet, processes: Processes) -> Iterator[str]:
    """What is missing, one reason after the other."""
    section = recipe.train
    if needs.reference and not section.keeps_reference:
        yield "needs a reference model, and the run keeps none. Set [train.reference] kind, for example to 'fixed'."
    if needs.teacher and section.teacher is None:
        yield "needs a teacher. Name its checkpoint as `path` in [train.teacher]."
    if "experts" in needs.rows:
        if section.experts is None:
            yield "needs episodes of an expert. Add [train.experts], with player = 'oracle'."
        elif not section.experts.episodes:
            try:
                script_of(task_set, section.experts.scripted_player)
            except TaskError as error:
                yield f"needs episodes of an expert. {error}"
    if "corrections" in needs.rows:
        yield from _reasons_of_corrector(section.corrections)
    if needs.teacher and section.teacher is not None:
        yield from _reasons_of_teacher(recipe, section.teacher.path)
    if needs.rows != ("policy",) and processes.count > 1:
        yield f"trains on other episodes than the policy's, which works in one process, not in {processes.count}."
    if needs.optimal_values:
        if recipe.policy.lora or recipe.vllm is not None:
            yield "plays episodes with the reference model, which works neither with [policy.lora] nor with [vllm]."
        if section.reference.moves_as != "fixed":
            yield f"needs a reference that stays, not one of the kind {section.reference.moves_as!r}."


def _reasons_of_teacher(recipe: Recipe, path: str) -> Iterator[str]:
    """Why a teacher cannot score the policy's tokens. What may be a hub model is looked for when it is loaded."""
    is_local = Path(path).exists() or path.startswith((".", "/", "~"))
    folder = checkpoint_in(Path(path))
    if is_local and folder is None:
        yield f"needs a teacher, and train.teacher.path = {path!r} holds no checkpoint."
    own = checkpoint_in(Path(recipe.policy.path)) if recipe.policy.path and not recipe.policy.tokenizer else None
    if folder is not None and own is not None and _vocabulary(folder) != _vocabulary(own):
        yield (
            f"needs a teacher with the vocabulary of policy.path = {recipe.policy.path!r}, and train.teacher.path = "
            f"{path!r} has another."
        )


def _vocabulary(folder: Path) -> dict[str, int]:
    vocabulary: dict[str, int] = AutoTokenizer.from_pretrained(folder).get_vocab()
    return vocabulary


def _reasons_of_corrector(section: CorrectionsSection | None) -> Iterator[str]:
    """Why there is no policy that corrects thoughts."""
    if section is None:
        yield "needs a policy that corrects thoughts. Name it in [train.corrections]."
        return
    try:
        inspect.signature(registry.load("policies", section.policy)).bind(**section.options)
    except UnknownNameError as error:
        yield f"needs a policy that corrects thoughts. [train.corrections] policy = {section.policy!r}: {error}"
    except TypeError as error:
        yield (
            f"needs a policy that corrects thoughts. [train.corrections] policy = {section.policy!r} cannot be made "
            f"with the options {sorted(section.options)}: {error}."
        )


def _check_gradients_of_groups(section: TrainSection, needs: Sequence[Needs], processes: Processes) -> None:
    """A signal-to-noise ratio is of the policy's own groups, in one process and one batch."""
    reasons = {
        "is measured in one process, and this run has several": processes.count > 1,
        "counts the policy's own groups, and a loss of this recipe trains on other episodes": any(
            of_loss.rows != ("policy",) for of_loss in needs
        ),
        "is of one batch, and [train.trl] gradient_accumulation_steps joins several": section.trl.get(
            "gradient_accumulation_steps", 1
        )
        != 1,
    }
    for reason, applies in reasons.items():
        if section.snr_learning_rate and applies:
            raise RecipeError(f"train.snr_learning_rate: the ratio {reason}. Leave one of them out.")


def _check_shares(section: TrainSection) -> None:
    """The terms that take the objective's place have weights between 0 and 1, together too."""
    highest = 0.0
    for term in make_terms(section.terms):
        if not needs_of(term.row_losses).instead:
            continue
        name = term.name
        low, high = section.terms[name].weights
        highest += high
        if low < 0 or highest > 1:
            raise RecipeError(
                f"train.terms.{name}: its weight is taken off the objective's, so it has to stay between 0 and 1. With "
                f"its schedule it goes from {low:g} to {high:g}."
            )
