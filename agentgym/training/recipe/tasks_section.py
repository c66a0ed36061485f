"""The recipe's [tasks]: one task set, or several that are mixed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from agentgym import registry
from agentgym.options import Section
from agentgym.task import mixed
from agentgym.task.task_set import TaskSet


class SourceSection(Section):
    """One set of a mixture."""

    set: str
    """A registered task set, or the path of a .jsonl file."""
    tags: tuple[str, ...] = ()
    """Use only the tasks that carry one of these tags. By default all tasks are used."""
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """How often tasks of this set are drawn, relative to the other weights. A set of weight 0 is left out."""

    environment_options: dict[str, Any] = {}
    """Options of the constructor of these tasks' environment, in addition to those of `episode.environment_options`."""

    def load(self) -> TaskSet:
        """Load the set and select the tasks with the tags. Raises: UnknownNameError, TaskError."""
        task_set = registry.load_task_set(self.set)
        return task_set.tagged(*self.tags) if self.tags else task_set


class TasksSection(Section):
    """The task set: the run trains on `train`, validates on `validation`, and measures `held_out` before and after
    training.
    """

    set: str = ""
    """A registered task set, or the path of a .jsonl file."""
    tags: tuple[str, ...] = ()
    """Use only the tasks that carry one of these tags, in every split. By default all tasks are used."""
    sources: tuple[SourceSection, ...] = ()
    """Several sets with weights, in place of `set`. Each step draws a set by its weight and then one of its tasks,
    unless `train.sampler` says otherwise. Each task is judged by its environment's own reward, if [reward] names none.
    Metrics are also given for each set."""

    @model_validator(mode="after")
    def _one_or_several(self) -> TasksSection:
        if bool(self.set) == bool(self.sources):
            raise ValueError(
                "give either `set`, which names one task set, or `sources`, which mixes several; not both, and not "
                "neither"
            )
        if self.sources and self.tags:
            raise ValueError(
                f"tags = {list(self.tags)} cannot stand beside `sources`: write the tags in the source that they "
                "select from"
            )
        names = [source.set for source in self.sources]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"`sources` lists {repeated[0]!r} twice: combine its tags and its weight in one entry")
        if self.sources and not any(source.weight for source in self.sources):
            raise ValueError(
                "every weight in `sources` is 0, so no task would be drawn: give at least one a weight above 0"
            )
        return self

    def load(self) -> TaskSet:
        """Load the set, or the mixture without sets of weight 0. Raises: UnknownNameError, TaskError."""
        if not self.sources:
            return SourceSection(set=self.set, tags=self.tags).load()
        return mixed({source.set: source.load() for source in self.sources if source.weight})

    @property
    def weights(self) -> Mapping[str, float]:
        """Return the weight of each set of the mixture; empty for a single set."""
        return {source.set: source.weight for source in self.sources if source.weight}

    @property
    def source_options(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the environment options of each set of the mixture, by set."""
        return {source.set: source.environment_options for source in self.sources if source.environment_options}

    @property
    def title(self) -> str:
        """Return the name of the tasks in messages."""
        return f"tasks.set = {self.set!r}" if self.set else f"tasks.sources = {[s.set for s in self.sources]}"

    def names(self) -> Iterator[tuple[str, str]]:
        """Return each named set with its key in the recipe."""
        if self.set:
            yield self.set, "tasks.set"
        for index, source in enumerate(self.sources):
            yield source.set, f"tasks.sources[{index}].set"
