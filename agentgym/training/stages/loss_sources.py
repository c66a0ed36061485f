"""The teacher, the experts, the optimal values and the corrector that a recipe's objective and terms need."""

from __future__ import annotations

from functools import partial

from agentgym import registry
from agentgym.errors import PolicyError, RecipeError
from agentgym.policy.contract import Policy
from agentgym.training.loss_inputs.corrections import ThoughtCorrector
from agentgym.training.loss_inputs.experts import Experts, ScriptedExperts, StoredExperts
from agentgym.training.loss_inputs.loss_inputs import LossInputs
from agentgym.training.loss_inputs.optimal_values import OptimalValues
from agentgym.training.loss_inputs.teacher import load_teacher, prepare_teacher
from agentgym.training.objectives import make_objective, make_terms, needs_of
from agentgym.training.recipe.train_section import CorrectionsSection, ExpertsSection, TrainSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.episode_manifest import episode_set
from agentgym.training.stages.stored_episodes import EXPERTS_MANIFEST, expert_episodes
from agentgym.training.turn_grpo import TurnGRPOTrainer

OPTIMAL_VALUES = "optimal_values.json"


def loss_inputs_for(context: RunContext, learner: Learner, trainer: TurnGRPOTrainer) -> LossInputs:
    """Make what the objective and the terms of a stage need, and nothing else.

    Raises: RecipeError for a teacher or a corrector that cannot be loaded, or stored experts that solved nothing.
    """
    section = context.recipe.train
    terms = [term.row_losses for term in make_terms(section.terms)]
    needs = [needs_of(losses) for losses in (make_objective(section.objective), *terms)]
    teacher = experts = optimal_values = corrector = None
    if section.teacher is not None and any(of_loss.teacher for of_loss in needs):
        model = load_teacher(section.teacher.path, learner.tokenizer, context.device)
        teacher = prepare_teacher(model, trainer)
    if section.experts is not None and any("experts" in of_loss.rows for of_loss in needs):
        experts = _experts(context, learner, section.experts)
    if any(of_loss.optimal_values for of_loss in needs):
        optimal_values = _optimal_values(context, learner, trainer, section)
    if section.corrections is not None and any("corrections" in of_loss.rows for of_loss in needs):
        corrector = ThoughtCorrector(
            corrector_of(section.corrections),
            context.rollouts,
            learner.renderer,
            turns_per_step=section.corrections.turns_per_step,
            max_tokens=section.corrections.max_tokens,
        )
    return LossInputs(teacher, experts, optimal_values, corrector)


def _experts(context: RunContext, learner: Learner, section: ExpertsSection) -> Experts:
    if not section.episodes:
        return ScriptedExperts(context.task_set, section.scripted_player, context.rollouts, learner.renderer)
    choose = partial(expert_episodes, context.stage, context.task_set["train"])
    chosen = episode_set(
        context, learner.renderer, choose, earlier_rounds=section.earlier_rounds, file=EXPERTS_MANIFEST
    )
    return StoredExperts(list(chosen.episodes.values()))


def corrector_of(section: CorrectionsSection) -> Policy:
    """Make the policy that corrects thoughts. Raises: RecipeError if it cannot be made."""
    try:
        policy: Policy = registry.load("policies", section.policy)(**section.options)
    except (TypeError, ValueError, PolicyError) as error:
        raise RecipeError(
            f"train.corrections.policy = {section.policy!r} cannot be made with {sorted(section.options)}: {error}"
        ) from error
    return policy


def _optimal_values(
    context: RunContext, learner: Learner, trainer: TurnGRPOTrainer, section: TrainSection
) -> OptimalValues:
    reference = context.learner(trainer.accelerator.unwrap_model(trainer.ref_model), learner.processing_class)
    return OptimalValues(
        reference.policy,
        context.rollouts,
        episodes=section.reference.episodes,
        temperature=section.reference.temperature,
        file=context.folder.checkpoints / OPTIMAL_VALUES,
    )
