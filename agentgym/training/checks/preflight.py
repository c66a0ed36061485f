"""What a recipe needs of its task set and of TRL, checked before a run folder is written or anything is trained."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from transformers.integrations import get_available_reporting_integrations, get_reporting_integration_callbacks
from trl import GRPOConfig
from trl.import_utils import is_vllm_available

from agentgym.errors import CreditError, MissingExtraError, PolicyError, RecipeError, TaskError
from agentgym.policy.checkpoint import check_checkpoint
from agentgym.policy.device import device_of
from agentgym.policy.logit_hooks.served_masks import require_vllm_form
from agentgym.policy.quantization import quantization_config
from agentgym.registry import load
from agentgym.reward import Reward
from agentgym.rollout.engine import ConnectingEngine
from agentgym.storage import checkpoint_in
from agentgym.task import TaskSet
from agentgym.training.checks.losses import check_losses
from agentgym.training.checks.part_checks import check_parts
from agentgym.training.checks.trial_episode import check_reward
from agentgym.training.checks.trial_reset import check_environments
from agentgym.training.demonstrate import DEMONSTRATION, script_of
from agentgym.training.gatherers import make_gatherer, play_groups
from agentgym.training.model.grpo_config import grpo_config
from agentgym.training.model.models import FINAL
from agentgym.training.monitoring.silence import silence_libraries
from agentgym.training.monitoring.trackers import check_trackers
from agentgym.training.parts import TrainingPlan
from agentgym.training.processes import ALONE, Processes
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.samplers import sampler_of
from agentgym.training.signals.selection import check_signal_options, check_signals_available
from agentgym.training.stages.episode_manifest import check_usable, finished_of
from agentgym.training.stages.episode_sources import LEDGER, EpisodeSource
from agentgym.training.stages.plan import PlannedStage, planned_stages
from agentgym.training.vllm.check import check_vllm
from agentgym.trajectory import Trajectory

_UNTRUNCATED = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
"""Options of sampling that make the tokens come from another distribution than the model's, with values that do not."""


def check_before_start(recipe: Recipe, task_set: TaskSet, processes: Processes = ALONE) -> None:
    """Check everything that can be checked without a model, and with one episode of the oracle.

    Raises: RecipeError naming key and value; TaskError for a task set without a scripted player; CreditError for an
        estimator that requires what the environments or the task set do not provide; ClusterError for a cluster that
        cannot be used.
    """
    check_trackers(recipe.track)
    _check_model(recipe)
    _check_logit_hook(recipe)
    check_vllm(recipe)
    stages = planned_stages(recipe)
    recipes: list[Recipe] = []
    for stage in stages:
        if stage.recipe not in recipes:
            recipes.append(stage.recipe)
            _check_sections(stage.recipe, task_set, processes)
    trained = [stage for stage in stages if stage.stage.checkpoint]
    if recipe.policy.lora and any(stage.stage.checkpoint == FINAL for stage in trained[:-1]):
        raise RecipeError(
            f"policy.lora: the stage {trained[-1].name!r} would train after one that has merged the adapter into the "
            "model. With an adapter, `reinforce` is the last stage that trains."
        )
    for stage in stages:
        if stage.kind == "reinforce":
            section = stage.recipe.train
            if stage.tasks_of is None:
                section.check_tasks(section.adapt.tasks(task_set) if section.adapt else task_set)
            _check_recorded(stage, task_set)
    check_stored_sources(stages, task_set)
    title, control = recipe.tasks.title, recipe.evaluate.control
    check_environments(task_set, recipe.episode, control, title=title, seed=recipe.seed)
    check_reward(task_set, recipe.reward, recipe.episode, title=title, seed=recipe.seed)
    if isinstance(engine := recipe.rollout_config(task_set).engine, ConnectingEngine):
        engine.connect()


def _check_logit_hook(recipe: Recipe) -> None:
    """Check that what samples and what trains know the masks of [policy] logit_hook. Raises: RecipeError."""
    if recipe.policy.logit_hook is None:
        if recipe.policy.logit_hook_options:
            raise RecipeError("policy.logit_hook_options belong to a policy.logit_hook, and the recipe names none.")
        return
    where = f"policy.logit_hook = {recipe.policy.logit_hook!r}"
    if recipe.vllm is not None:
        try:
            require_vllm_form(recipe.policy.logit_hook)
        except PolicyError as error:
            raise RecipeError(f"[vllm] and {where}: {error}") from error
    if recipe.train.generation != "transformers":
        raise RecipeError(f"{where} needs train.generation = 'transformers', not {recipe.train.generation!r}.")
    if getattr(load("logit_hooks", recipe.policy.logit_hook), "tilts", False) and recipe.train.steps:
        raise RecipeError(
            f"{where} changes the logits, which no record keeps, so nothing can be trained under it. Evaluate with it, "
            "in a stage `evaluate_guided` or by `agentgym eval`, and train without."
        )
    if recipe.train.signals.replay is not None:
        raise RecipeError(f"{where}: train.signals.replay scores stored turns without masks. Leave out one of the two.")
    estimator = recipe.train.make_estimator()
    for name in ("score_norms", "token_certainties"):
        if name in estimator.requires:
            raise RecipeError(f"{where}: {estimator.name} requires {name}, which are of unrestricted distributions.")


def _check_sections(recipe: Recipe, task_set: TaskSet, processes: Processes) -> None:
    """The sections of a recipe, as a stage uses them."""
    _check_splits(recipe, task_set)
    _check_strata(recipe, task_set)
    if (recipe.warm_start and not recipe.warm_start.episodes) or recipe.policy.tiny:
        script_of(task_set, "oracle")
    if recipe.warm_start and recipe.warm_start.imperfect_oracle:
        script_of(task_set, "imperfect_oracle")
    reward = recipe.make_reward(task_set)
    if (adapt := recipe.train.adapt) is not None:
        task_set, reward = adapt.tasks(task_set), adapt.make_reward()
    if recipe.train.steps:
        check_signals_available(recipe.train.make_estimator(), task_set)
        check_signal_options(recipe.train.make_estimator(), recipe.train.signals)
    check_losses(recipe, task_set, processes)
    _check_supply(recipe, task_set, reward, processes)
    _check_streaming(recipe, reward)
    with silence_libraries():
        arguments = recipe.episode, recipe.machine, Path("checkpoints"), device_of(recipe.machine.device), processes
        _check_trainer(recipe, grpo_config(recipe.train, *arguments, seed=recipe.seed))
    _check_processes(recipe, processes)


def _check_supply(recipe: Recipe, task_set: TaskSet, reward: Reward | str | None, processes: Processes) -> None:
    """The options of the sampler and of the gatherers, and whether they suit the tasks and the estimator."""
    section = recipe.train
    try:
        sampler_of(section.sampler, task_set["train"], recipe.seed, recipe.tasks.weights)
        gatherer = make_gatherer(play_groups, section.gather)
        gatherer.read_tasks(task_set)
    except (CreditError, TaskError) as error:
        raise RecipeError(f"train.sampler = {section.sampler!r}, train.gather = {section.gather}: {error}") from error
    if section.gather and "branches" in section.make_estimator().requires:
        raise RecipeError(
            f"train.gather = {section.gather}: {section.estimator} compares the branches of whole trees, of which a "
            "gatherer may leave some out. Leave train.gather out, or choose an estimator without branches."
        )
    check_parts([gatherer], TrainingPlan(section, recipe.episode, task_set, reward, processes.count))


def _check_recorded(stage: PlannedStage, task_set: TaskSet) -> None:
    """Check that the stages before record the episodes that a gatherer begins with. Raises: RecipeError."""
    section, labels = stage.recipe.train, [DEMONSTRATION, *(earlier.name for earlier in stage.earlier)]
    plan = TrainingPlan(section, stage.recipe.episode, task_set, stage=stage.name, recorded_labels=labels)
    check_parts([make_gatherer(play_groups, section.gather)], plan)


def check_stored_sources(stages: Sequence[PlannedStage], task_set: TaskSet) -> None:
    """Check the stages all of whose episodes are stored in other runs already.

    Raises: RecipeError where a stage has no episode, one of a task that is not for training or of
        another set, or nothing to learn from.
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


def _check_streaming(recipe: Recipe, reward: Reward | str | None) -> None:
    """What playing in the background cannot do, or not yet."""
    section = recipe.train
    if not section.is_streamed:
        return
    reasons = {
        "machine.sharding brings the weights together only when a step is played. Leave it out.": (
            recipe.machine.sharding is not None
        ),
        "it needs train.generation = 'transformers'.": section.generation != "transformers",
        f"{section.estimator} compares branches, which are grown a step at once. Choose another estimator.": "branches"
        in section.make_estimator().requires,
        "train.adapt lets another reward judge than validations do. Leave it out.": section.adapt is not None,
        "the reward judges whole groups, and a group_quorum does not wait for them. Leave one of them out.": (
            section.group_quorum is not None and isinstance(reward, Reward) and reward.has_stage("group")
        ),
    }
    for reason, applies in reasons.items():
        if applies:
            raise RecipeError(f"{section.stream_key} plays episodes in the background: {reason}")


def _check_trainer(recipe: Recipe, config: GRPOConfig) -> None:
    """What TRL and transformers would find out once the model is loaded, or once the first step is taken."""
    for key, value in recipe.train.trl.items():
        default = GRPOConfig.__dataclass_fields__[key].default
        if isinstance(value, str) and isinstance(default, (bool, int, float)):
            raise RecipeError(f"[train.trl] {key} = {value!r} is text, where TRL expects a value such as {default!r}.")
    _check_sampling(recipe, config)
    try:
        get_reporting_integration_callbacks(config.report_to)
    except ValueError as error:
        raise RecipeError(f"[train.trl] report_to = {recipe.train.trl['report_to']!r}: {error}") from error
    if missing := set(config.report_to) - set(get_available_reporting_integrations()):
        raise RecipeError(f"[train.trl] report_to: {', '.join(sorted(missing))} is not installed.")
    if not config.use_vllm:
        return
    if recipe.train.generation != "trl":
        raise RecipeError("[train.trl] use_vllm = true is used only with train.generation = 'trl'.")
    if not is_vllm_available():
        raise RecipeError("[train.trl] use_vllm = true needs the package vllm, which is not installed.")


def _check_processes(recipe: Recipe, processes: Processes) -> None:
    if (section := recipe.warm_start) is not None:
        processes.part_of(section.batch_size, "warm_start.batch_size")
    if processes.count > 1 and recipe.train.generation == "trl":
        raise RecipeError(
            "train.generation = 'trl' makes every process sample, where only the first of several plays. Leave it out."
        )


def _check_sampling(recipe: Recipe, config: GRPOConfig) -> None:
    """The importance ratio compares the model with what was sampled from: both must be the model."""
    given = {name: getattr(config, name) for name in _UNTRUNCATED} | (config.generation_kwargs or {})
    for name, neutral in _UNTRUNCATED.items():
        if recipe.train.steps and given[name] not in (neutral, None):
            key = "episode.top_p" if name == "top_p" and "top_p" not in recipe.train.trl else f"train.trl.{name}"
            raise RecipeError(
                f"{key} = {given[name]}: training samples from the whole distribution, because the probabilities that "
                f"are trained are the model's own. Leave it out; episode.temperature is corrected for."
            )


def _check_model(recipe: Recipe) -> None:
    """A hub model is only looked for when it is loaded: that may need a network."""
    source, template = recipe.policy.path, recipe.policy.chat_template
    if template is not None and not Path(template).is_file():
        raise RecipeError(f"policy.chat_template = {template!r}: there is no such file here.")
    if recipe.policy.quantization:
        try:
            quantization_config()
        except MissingExtraError as error:
            raise RecipeError(f"policy.{error}") from error
    if source is None or (not Path(source).exists() and re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", source)):
        return
    if (checkpoint := checkpoint_in(Path(source))) is None:
        raise RecipeError(
            f"policy.path = {source!r} holds no checkpoint. Give a folder written by save_pretrained (it has a "
            "config.json), a run folder whose training or warm start has ended, or the name of a hub model."
        )
    try:
        check_checkpoint(checkpoint, recipe.policy.load_options(), recipe.policy.lora)
    except (PolicyError, MissingExtraError) as error:
        raise RecipeError(f"policy.path cannot be loaded. {error}") from error


def _check_splits(recipe: Recipe, task_set: TaskSet) -> None:
    readers = {"train": "episodes for training are played on it", "held_out": "it is measured before and after"}
    if recipe.train.steps or (recipe.warm_start and recipe.warm_start.steps):
        readers["validation"] = "success on it is logged every [train] validate_every steps"
    for split, reason in readers.items():
        if not len(task_set[split]):
            sizes = ", ".join(f"{name} {len(tasks)}" for name, tasks in task_set.items())
            raise RecipeError(
                f"{recipe.tasks.title} has no task in its split {split!r}, which is needed: {reason}. It "
                f"has: {sizes}. Give some of its tasks split={split!r}."
            )


def _check_strata(recipe: Recipe, task_set: TaskSet) -> None:
    for key, stratum, split in (
        ("evaluate.stratum", recipe.evaluate.stratum, "held_out"),
        ("train.validate_stratum", recipe.train.validate_stratum, "validation"),
        *(("warm_start.tags", tag, "train") for tag in (recipe.warm_start.tags if recipe.warm_start else ())),
    ):
        tags = sorted({tag for task in task_set[split] for tag in task.tags})
        if stratum is not None and stratum not in tags:
            close = get_close_matches(stratum, tags, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Tags: {', '.join(tags[:20]) or 'none'}."
            raise RecipeError(
                f"{key} = {stratum!r} is no tag of a {split.replace('_', '-')} task of {task_set.name}. {hint}"
            )
