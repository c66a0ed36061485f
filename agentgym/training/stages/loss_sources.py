"""The training parts that a recipe's objective and terms need: the teacher, the experts and the optimal values."""

from __future__ import annotations

from functools import partial

from agentgym.training.loss_inputs.experts import ExpertEpisodes, Experts, ScriptedExperts, StoredExperts
from agentgym.training.loss_inputs.optimal_values import OptimalValues
from agentgym.training.loss_inputs.teacher import TeacherScores
from agentgym.training.objectives import LossRequirements
from agentgym.training.objectives.contract import make_objective, make_terms, needs_of
from agentgym.training.parts import TrainingPart
from agentgym.training.recipe.train_section import ExpertsSection, TrainSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.episode_manifest import episode_set
from agentgym.training.stages.stored_episodes import EXPERTS_MANIFEST, expert_episodes

OPTIMAL_VALUES = "optimal_values.json"


def loss_requirements(section: TrainSection) -> list[LossRequirements]:
    """Return what the objective and each term need."""
    terms = [term.row_losses for term in make_terms(section.terms)]
    return [needs_of(losses) for losses in (make_objective(section.objective), *terms)]


def input_parts(context: RunContext, learner: Learner) -> list[TrainingPart]:
    """Make the built-in parts that the objective or a term needs, and no others.

    Raises: RecipeError for stored experts that solved nothing.
    """
    section = context.recipe.train
    needed = {name for needs in loss_requirements(section) for name in needs.from_parts}
    parts: list[TrainingPart] = []
    if section.teacher is not None and "teacher" in needed:
        parts.append(TeacherScores(section.teacher))
    if section.experts is not None and "experts" in needed:
        parts.append(ExpertEpisodes(_experts(context, learner, section.experts)))
    if "optimal_values" in needed:
        reference = section.reference
        parts.append(
            OptimalValues(
                lambda model: context.learner(model, learner.processing_class).policy,
                episodes=reference.episodes,
                temperature=reference.temperature,
                file=context.folder.checkpoints / OPTIMAL_VALUES,
            )
        )
    return parts


def _experts(context: RunContext, learner: Learner, section: ExpertsSection) -> Experts:
    if not section.episodes:
        return ScriptedExperts(context.task_set, section.scripted_player, learner.renderer)
    choose = partial(expert_episodes, context.stage, context.task_set["train"])
    chosen = episode_set(
        context, learner.renderer, choose, earlier_rounds=section.earlier_rounds, file=EXPERTS_MANIFEST
    )
    return StoredExperts(list(chosen.episodes.values()))
