"""The stages of one run in their order: those that the recipe lists, or those of every run without a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from typing_extensions import override

from agentgym import registry
from agentgym.credit.options import check_options
from agentgym.errors import CreditError, RecipeError, UnknownNameError
from agentgym.options import Section, explain_refusal
from agentgym.storage.adaptations import joined, note_adaptations
from agentgym.storage.run_folder import RunFolder, StageFolder
from agentgym.task import TaskSet
from agentgym.training.fit import PlannedPart, TrainingPlan
from agentgym.training.gatherers import changes_left_in
from agentgym.training.recipe.evaluate_section import EvaluateSection
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.recipe.stage_section import ReadsEpisodes, RepeatSection, StageSection
from agentgym.training.recipe.train_section import TrainSection
from agentgym.training.recipe.warm_start_section import WarmStartSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import Stage, define_stage
from agentgym.training.stages.episode_sources import EpisodeSource, sources_of
from agentgym.training.stages.stage_files import with_tasks_of


@dataclass(frozen=True, slots=True)
class PlannedStage(PlannedPart):
    """A stage of one run.

    Attributes:
        name: unique in the run. kind: registered.
        recipe: the run's, with the stage's options in their section.
        options: of a stage without a section; a Section where the stage says which.
        has_folder: whether it keeps its checkpoints in stages/<name> instead of the run folder.
        base_name: the name without the number of the round, which `repeat` adds.
        sources: the episodes that it learns from, if it learns from any.
        tasks_of: the stage whose tasks it trains on, instead of those of the set.
        earlier: the stages before it.
    """

    name: str
    kind: str
    stage: Stage
    recipe: Recipe
    options: Mapping[str, Any] | Section = field(default_factory=dict)
    has_folder: bool = False
    base_name: str = ""
    sources: Sequence[EpisodeSource] = ()
    tasks_of: PlannedStage | None = None
    earlier: Sequence[PlannedStage] = field(default=(), repr=False)

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        sharding, stage = plan.hardware.sharding, self.stage
        if sharding is not None and stage.checkpoint is not None and not stage.trains_in_parts:
            in_parts = [kind for kind in registry.names("stages") if registry.load("stages", kind).trains_in_parts]
            yield (
                f"machine.sharding = {sharding!r}: the stage {self.name!r} trains a model that is whole, and only "
                f"{' and '.join(in_parts)} train one in parts. Run it by itself, without sharding."
            )
        yield from filter(None, (excludes(self, plan) for excludes in stage.excludes))

    def context(self, context: RunContext) -> RunContext:
        """The context of the run, as this stage sees it."""
        trained = [stage for stage in self.earlier if stage.stage.checkpoint is not None]
        checkpoints = {
            stage.name: stage.folder(context.folder).checkpoints / str(stage.stage.checkpoint) for stage in trained
        }
        return replace(
            context,
            recipe=self.recipe,
            folder=self.folder(context.folder),
            stage=self.name,
            sources=self.sources,
            earlier_checkpoints=checkpoints,
            adapted=joined(context.adapted, *_adaptations(self.earlier, context.task_set)),
        )

    def folder(self, run: RunFolder) -> RunFolder:
        """Where it writes, in the folder of the run."""
        return StageFolder(run, self.name) if self.has_folder else run

    def run(self, context: RunContext, learner: Learner) -> Learner:
        """Run it. Returns: the learner for the next stage."""
        changes: dict[str, Any] = {}
        for stage in self.earlier:
            if stage.stage.section == "train":
                changes |= changes_left_in(stage.folder(context.folder), stage.recipe.train.gather)
        context = replace(context, rollouts=context.rollouts.with_config(**changes))
        if self.tasks_of is not None:
            context = replace(context, task_set=with_tasks_of(self.tasks_of.folder(context.folder), context.task_set))
        if isinstance(self.options, Section):
            return self.stage.run(self.context(context), learner, self.options)
        return self.stage.run(self.context(context), learner, **self.options)

    def mark(self, context: RunContext) -> None:
        """Write into its checkpoint what that was adapted to without labels, by this stage or before it."""
        if (checkpoint := self.stage.checkpoint) is not None:
            own = _adaptations([*self.earlier, self], context.task_set)
            note_adaptations(self.folder(context.folder).checkpoints / checkpoint, joined(context.adapted, *own))

    @property
    def section(self) -> Any:
        """What says how it runs: its section of the recipe, or its options."""
        return self.options if self.stage.section is None else getattr(self.recipe, self.stage.section)

    @property
    def reads_episodes(self) -> ReadsEpisodes | None:
        """What names the episodes that it learns from, beside its own or instead of them; None for one without."""
        section = self.section.experts if isinstance(self.section, TrainSection) else self.section
        return section if isinstance(section, ReadsEpisodes) else None

    def is_done(self, context: RunContext) -> bool:
        """Whether it has trained and saved what it was to."""
        return self.stage.is_done(self.context(context))

    def result(self, context: RunContext) -> Path | None:
        """The file or folder that it leaves, if it leaves any."""
        return self.stage.result_in(self.context(context))


def _adaptations(stages: Sequence[PlannedStage], task_set: TaskSet) -> Iterator[str]:
    for stage in stages:
        if stage.stage.section == "train" and (adapt := stage.recipe.train.adapt) is not None:
            yield adapt.describe(task_set)


def planned_stages(recipe: Recipe) -> list[PlannedStage]:
    """The stages of a run. Raises: RecipeError for options that a stage does not take, or stages that do not fit."""
    planned: list[PlannedStage] = []
    sections = recipe.stage or default_stages(recipe.evaluate, recipe.warm_start, recipe.train)
    for base_name, section in _unrolled(sections):
        stage = replace(_planned(recipe, section), base_name=base_name, earlier=tuple(planned))
        if (reader := stage.reads_episodes) is not None:
            stage = replace(stage, sources=tuple(sources_of(reader, stage.name, planned)))
        if stage.stage.section == "train" and (maker := stage.recipe.train.tasks_of):
            stage = replace(stage, tasks_of=_maker_of_tasks(maker, stage.name, planned))
        if stage.stage.check is not None:
            stage.stage.check(stage, planned)
        planned.append(stage)
    counts = Counter(stage.name for stage in planned)
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise RecipeError(f"Two stages are called {repeated[0]!r}: give one of them another `name`.")
    return planned


def _maker_of_tasks(maker: str, name: str, earlier: Sequence[PlannedStage]) -> PlannedStage:
    """The last stage before it that makes tasks and has this name. Raises: RecipeError."""
    makers = [stage for stage in earlier if stage.stage.makes_tasks]
    named = [stage for stage in makers if maker in (stage.name, stage.base_name)]
    if not named:
        known = ", ".join(stage.name for stage in makers) or "none"
        raise RecipeError(
            f"[[stage]] {name!r}: train.tasks_of = {maker!r} is no stage before it that makes tasks, as `step_tasks` "
            f"does. Such stages: {known}."
        )
    return named[-1]


def default_stages(
    evaluate: EvaluateSection, warm_start: WarmStartSection | None, train: TrainSection
) -> Sequence[StageSection]:
    """Return the stages of a recipe without a list of its own, as its sections ask for them."""
    usual = (
        (evaluate.zero_shot, StageSection(kind="evaluate", name="zero_shot")),
        (warm_start is not None, StageSection(kind="imitate")),
        (True, StageSection(kind="evaluate", name="before")),
        (train.steps > 0, StageSection(kind="reinforce")),
        (True, StageSection(kind="evaluate", name="after")),
        (bool(evaluate.control), StageSection(kind="control")),
    )
    return [section for is_asked_for, section in usual if is_asked_for]


def _unrolled(sections: Sequence[StageSection], ending: str = "") -> list[tuple[str, StageSection]]:
    """Every stage with its name in the recipe, a block of `repeat` as often as it says."""
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
        raise RecipeError(f"stage.kind = {section.kind!r}. {error}") from error
    has_folder = bool(recipe.stage) and stage.has_folder
    if stage.options is not None:
        return PlannedStage(
            section.given_name, section.kind, stage, recipe, _parsed(stage.options, section), has_folder
        )
    if stage.section is None:
        try:
            check_options(section.kind, stage.run, section.options, kind="stage")
        except CreditError as error:
            raise RecipeError(f"[[stage]] {section.given_name!r}: {error}") from error
        return PlannedStage(section.given_name, section.kind, stage, recipe, section.options, has_folder)
    if not section.options and getattr(recipe, stage.section) is not None:
        return PlannedStage(section.given_name, section.kind, stage, recipe, has_folder=has_folder)
    changed = recipe.with_options(stage.section, section.options, f"[[stage]] {section.given_name!r}")
    return PlannedStage(section.given_name, section.kind, stage, changed, has_folder=has_folder)


def _parsed(kind: type[Section], section: StageSection) -> Any:
    """The options of a stage as a Section of this kind. Raises: RecipeError."""
    try:
        return kind.model_validate(section.options)
    except ValidationError as error:
        raise RecipeError(f"[[stage]] {section.given_name!r}: {explain_refusal(error, kind)}") from error


@define_stage(options=RepeatSection)
def repeat_stage(context: RunContext, learner: Learner, options: RepeatSection) -> Learner:
    """Runs a block of stages several times, for example `collect` and `imitate`."""
    return learner  # the plan has put the stages of the block in its place
