"""Checks a run's parts, task set and TRL options before a run folder is written."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from agentgym.errors import CreditError, RecipeError, TaskError
from agentgym.policy.silence import silence_libraries
from agentgym.policy.vllm_check import check_vllm
from agentgym.rollout.engine import ConnectingEngine
from agentgym.storage.trackers import check_trackers
from agentgym.task.task_set import TaskSet
from agentgym.training.checks.parts import PlannedSampler, parts_of, plan_of
from agentgym.training.checks.trials import check_environments, check_reward
from agentgym.training.fit import check_parts
from agentgym.training.gatherers import make_gatherer, play_groups
from agentgym.training.model.grpo_config import check_trl_options, grpo_config
from agentgym.training.model.models import FINAL, check_model
from agentgym.training.processes import ALONE, Processes
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.samplers import sampler_of
from agentgym.training.stages.contract import PlannedStage
from agentgym.training.stages.plan import planned_stages
from agentgym.training.stages.stored_episodes import LEDGER, EpisodeSource, check_usable, finished_of
from agentgym.trajectory.record import Trajectory


def check_before_start(recipe: Recipe, task_set: TaskSet, processes: Processes = ALONE) -> None:
    """Check everything that can be checked without a model. This resets environments and plays an episode of the
    oracle.

    Raises: RecipeError naming key and value; TaskError for a task set without a needed player; CreditError for an
        estimator that requires signals which the environments or the task set do not provide; ClusterError for an
        unusable cluster.
    """
    check_trackers(recipe.track)
    check_model(recipe.policy)
    stages = planned_stages(recipe)
    check_stages(stages, task_set, processes)
    if recipe.vllm is not None:
        check_vllm(recipe.vllm, recipe.policy, recipe.episode.max_episode_tokens)
    check_stored_sources(stages, task_set)
    title, control = recipe.tasks.title, recipe.evaluate.control
    source_options = recipe.tasks.source_options
    check_environments(task_set, recipe.episode, control, title=title, seed=recipe.seed, source_options=source_options)
    check_reward(task_set, recipe.reward, recipe.episode, title=title, seed=recipe.seed)
    if isinstance(engine := recipe.rollout_config(task_set).engine, ConnectingEngine):
        engine.connect()


def check_stages(stages: Sequence[PlannedStage], task_set: TaskSet, processes: Processes = ALONE) -> None:
    """Check the compatibility of a run's stages and their parts. Raises: as `check_before_start`."""
    checked: list[tuple[Recipe, bool]] = []
    for stage in stages:
        plan = plan_of(stage, task_set, processes)
        check_parts([stage], plan)
        trains = stage.stage.section == "train"
        if (stage.recipe, trains) not in checked:
            checked.append((stage.recipe, trains))
            _check_tasks(stage, task_set, plan.task_set)
            if trains:
                check_parts([PlannedSampler()], plan)
            check_parts(parts_of(plan), plan)
            _check_batches(stage, processes)
        if trains and stage.tasks_of is None:
            plan.train.check_tasks(plan.task_set)
    trained = [stage for stage in stages if stage.stage.checkpoint]
    if any(stage.recipe.policy.lora and stage.stage.checkpoint == FINAL for stage in trained[:-1]):
        raise RecipeError(
            "With [policy.lora], only the last training stage may train, because it merges the adapter into the "
            f"model; but the stage {trained[-1].name!r} would train after one that has merged it. Make `reinforce` "
            "the only stage that trains an adapter, or leave [policy.lora] out."
        )


def _check_batches(stage: PlannedStage, processes: Processes) -> None:
    """Check that batches divide evenly among the processes, and that TRL accepts its options."""
    recipe = stage.recipe
    with silence_libraries():
        arguments = recipe.episode, recipe.machine, Path("checkpoints"), recipe.machine.torch_device, processes
        check_trl_options(recipe.train, grpo_config(recipe.train, *arguments, seed=recipe.seed))
    if recipe.warm_start is not None:
        processes.part_of(recipe.warm_start.batch_size, "warm_start.batch_size")


def _check_tasks(stage: PlannedStage, task_set: TaskSet, trained: TaskSet) -> None:
    """Check that the task set has what a stage's recipe needs: tasks, tags, players, hints and answers.

    Args:
        trained: the task set that the stage trains on.
    """
    recipe = stage.recipe
    warm_start, train = recipe.warm_start, recipe.train
    _check_splits(task_set, recipe.tasks.title, is_validated=bool(train.steps or (warm_start and warm_start.steps)))
    _check_tag("evaluate.stratum", recipe.evaluate.stratum, task_set, "held_out")
    _check_tag("train.validate_stratum", train.validate_stratum, task_set, "validation")
    for tag in warm_start.tags if warm_start else ():
        _check_tag("warm_start.tags", tag, task_set, "train")
    if (warm_start and not warm_start.episodes) or recipe.policy.tiny:
        task_set.player("oracle")
    if warm_start and warm_start.imperfect_oracle:
        task_set.player("imperfect_oracle")
    try:
        sampler = sampler_of(train.sampler, trained["train"], recipe.seed, recipe.tasks.weights)
        if train.steps:
            sampler.draw(train.tasks_per_step, 0)
        make_gatherer(play_groups, train.gather).read_tasks(trained)
    except (CreditError, TaskError) as error:
        raise RecipeError(
            f"train.sampler = {train.sampler!r} with train.gather = {train.gather} cannot be used on these tasks: "
            f"{error}"
        ) from error


def check_stored_sources(stages: Sequence[PlannedStage], task_set: TaskSet) -> None:
    """Check the stages whose episodes are all stored in other runs.

    Raises: RecipeError if a stage has no episode, has one of another task set or of a task that is not for training, or
        has nothing to learn from.
    """
    read: dict[EpisodeSource, list[Trajectory]] = {}
    for stage in stages:
        if not stage.sources or not all(source.run for source in stage.sources):
            continue
        for source in stage.sources:
            if source not in read:
                read[source] = finished_of(Path(source.run) / LEDGER, source.label)
        trajectories = [trajectory for source in stage.sources for trajectory in read[source]]
        check_usable(stage.name, stage.sources, trajectories)
        if stage.stage.check_episodes is not None:
            stage.stage.check_episodes(stage, task_set, trajectories)


def _check_splits(task_set: TaskSet, title: str, *, is_validated: bool) -> None:
    readers = {"train": "episodes for training are played on it", "held_out": "it is measured before and after"}
    if is_validated:
        readers["validation"] = "success on it is logged every [train] validate_every steps"
    for split, reason in readers.items():
        if not len(task_set[split]):
            sizes = ", ".join(f"{name} {len(tasks)}" for name, tasks in task_set.items())
            raise RecipeError(
                f"{title} has no tasks in its split {split!r}, which this recipe needs: {reason}. Its splits are: "
                f"{sizes}. Give some of its tasks split={split!r}."
            )


def _check_tag(key: str, tag: str | None, task_set: TaskSet, split: str) -> None:
    tags = sorted({tag for task in task_set[split] for tag in task.tags})
    if tag is not None and tag not in tags:
        close = get_close_matches(tag, tags, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Tags: {', '.join(tags[:20]) or 'none'}."
        raise RecipeError(f"{key} = {tag!r}: no {split.replace('_', '-')} task of {task_set.name} has this tag. {hint}")
