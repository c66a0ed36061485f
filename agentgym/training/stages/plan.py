"""The stages of one run in their order: those that the recipe lists, or those of every run without a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentgym import registry
from agentgym.credit.options import check_options
from agentgym.errors import CreditError, RecipeError
from agentgym.storage.run_folder import StageFolder
from agentgym.training.recipe import Recipe
from agentgym.training.stage_section import StageSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import Stage


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """A stage of one run.

    Attributes:
        name: unique in the run. kind: registered.
        recipe: the run's, with the stage's options in their section.
        options: of a stage without a section.
        has_folder: whether it keeps its checkpoints in stages/<name> instead of the run folder.
    """

    name: str
    kind: str
    stage: Stage
    recipe: Recipe
    options: Mapping[str, Any] = field(default_factory=dict)
    has_folder: bool = False

    def context(self, context: RunContext) -> RunContext:
        """The context of the run, as this stage sees it."""
        folder = StageFolder(context.folder, self.name) if self.has_folder else context.folder
        return replace(context, recipe=self.recipe, folder=folder, stage=self.name)

    def run(self, context: RunContext, learner: Learner) -> Learner:
        """Run it. Returns: the learner for the next stage."""
        return self.stage.run(self.context(context), learner, **self.options)

    def is_done(self, context: RunContext) -> bool:
        """Whether it has trained and saved what it was to."""
        return self.stage.is_done(self.context(context))


def planned_stages(recipe: Recipe) -> list[PlannedStage]:
    """The stages of a run. Raises: RecipeError for options that a stage does not take."""
    return [_planned(recipe, section) for section in recipe.stage or default_stages(recipe)]


def default_stages(recipe: Recipe) -> Sequence[StageSection]:
    """The stages of a recipe without a list of its own, as its sections ask for them."""
    evaluate = recipe.evaluate
    usual = (
        (evaluate.zero_shot, StageSection(kind="evaluate", name="zero_shot")),
        (recipe.warm_start is not None, StageSection(kind="imitate")),
        (True, StageSection(kind="evaluate", name="before")),
        (recipe.train.steps > 0, StageSection(kind="reinforce")),
        (True, StageSection(kind="evaluate", name="after")),
        (bool(evaluate.control), StageSection(kind="control")),
    )
    return [section for is_asked_for, section in usual if is_asked_for]


def _planned(recipe: Recipe, section: StageSection) -> PlannedStage:
    stage: Stage = registry.load("stages", section.kind)
    has_folder = bool(recipe.stage) and stage.checkpoint is not None
    if stage.section is None:
        try:
            check_options(section.kind, stage.run, section.options, kind="stage")
        except CreditError as error:
            raise RecipeError(f"[[stage]] {section.given_name!r}: {error}") from error
        return PlannedStage(section.given_name, section.kind, stage, recipe, section.options, has_folder)
    if not section.options and getattr(recipe, stage.section) is not None:
        return PlannedStage(section.given_name, section.kind, stage, recipe, has_folder=has_folder)
    data = recipe.model_dump(exclude_none=True) | {"stage": []}
    data[stage.section] = {**data.get(stage.section, {}), **section.options}
    changed = Recipe.parse(data, f"[[stage]] {section.given_name!r}")
    return PlannedStage(section.given_name, section.kind, stage, changed, has_folder=has_folder)
