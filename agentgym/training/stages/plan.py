"""The stages of one run in order: the recipe's list, or the default stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from agentgym import registry
from agentgym.credit.options import check_options
from agentgym.errors import CreditError, RecipeError, UnknownNameError
from agentgym.options import Section, explain_refusal
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.recipe.stage_section import RepeatSection, StageSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import PlannedStage, Stage, define_stage
from agentgym.training.stages.stored_episodes import sources_of


def planned_stages(recipe: Recipe) -> list[PlannedStage]:
    """Return the stages of a run. Raises: RecipeError for unknown options or incompatible stages."""
    planned: list[PlannedStage] = []
    for base_name, section in _unrolled(recipe.stages):
        stage = replace(_planned(recipe, section), base_name=base_name, earlier=tuple(planned))
        if (reader := stage.reads_episodes) is not None:
            players = [(each.name, each.base_name) for each in planned if each.stage.plays]
            stage = replace(stage, sources=tuple(sources_of(reader, stage.name, players)))
        if stage.stage.section == "train" and (maker := stage.recipe.train.tasks_of):
            stage = replace(stage, tasks_of=_maker_of_tasks(maker, stage.name, planned))
        if stage.stage.check is not None:
            stage.stage.check(stage, planned)
        planned.append(stage)
    counts = Counter(stage.name for stage in planned)
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise RecipeError(f"Two stages have the name {repeated[0]!r}. Give one of them another `name`.")
    return planned


def _maker_of_tasks(maker: str, name: str, earlier: Sequence[PlannedStage]) -> PlannedStage:
    """Return the last earlier stage named `maker` that makes tasks. Raises: RecipeError if there is none."""
    makers = [stage for stage in earlier if stage.stage.makes_tasks]
    named = [stage for stage in makers if maker in (stage.name, stage.base_name)]
    if not named:
        known = ", ".join(stage.name for stage in makers) or "none"
        raise RecipeError(
            f"[[stage]] {name!r}: train.tasks_of = {maker!r} must name an earlier stage that makes tasks, as "
            f"`step_tasks` does. Such stages: {known}."
        )
    return named[-1]


def _unrolled(sections: Sequence[StageSection], ending: str = "") -> list[tuple[str, StageSection]]:
    """Return every stage with its name in the recipe, repeating each block of `repeat`."""
    unrolled: list[tuple[str, StageSection]] = []
    for section in sections:
        if section.kind != "repeat":
            name = section.given_name
            unrolled.append((name, section.model_copy(update={"name": name + ending}) if ending else section))
            continue
        block = _parsed(RepeatSection, section)
        for number in range(1, block.times + 1):
            unrolled += _unrolled(block.stages, f"{ending}_{number}")
    return unrolled


def _planned(recipe: Recipe, section: StageSection) -> PlannedStage:
    try:
        stage: Stage = registry.load("stages", section.kind)
    except UnknownNameError as error:
        raise RecipeError(f"stage.kind = {section.kind!r} cannot be used. {error}") from error
    has_folder = bool(recipe.stage and stage.has_folder)
    if stage.options is not None:
        return PlannedStage(
            section.given_name, section.kind, stage, recipe, _parsed(stage.options, section), has_folder
        )
    if stage.section is None:
        try:
            check_options(section.kind, stage.run, section.options, kind="stage")
        except CreditError as error:
            raise RecipeError(f"[[stage]] {section.given_name!r} cannot be used: {error}") from error
        return PlannedStage(section.given_name, section.kind, stage, recipe, section.options, has_folder)
    if not section.options and getattr(recipe, stage.section) is not None:
        return PlannedStage(section.given_name, section.kind, stage, recipe, has_folder=has_folder)
    changed = recipe.with_options(stage.section, section.options, f"[[stage]] {section.given_name!r}")
    return PlannedStage(section.given_name, section.kind, stage, changed, has_folder=has_folder)


def _parsed(kind: type[Section], section: StageSection) -> Any:
    """Return the options of a stage as a Section of this kind. Raises: RecipeError."""
    try:
        return kind.model_validate(section.options)
    except ValidationError as error:
        raise RecipeError(f"[[stage]] {section.given_name!r} is not valid: {explain_refusal(error, kind)}") from error


@define_stage(options=RepeatSection)
def repeat_stage(context: RunContext, learner: Learner, options: RepeatSection) -> Learner:
    """Runs a block of stages several times, for example `collect` and `imitate`."""
    return learner  # the plan replaced it with the block's stages
