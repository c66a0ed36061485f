"""RunContext and Learner, which the stages of a training run share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from agentgym.credit import Estimator
from agentgym.policy.checkpoint import save_model
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.vllm_training import ServedModel, TrainedVllmPolicy, VllmEngine
from agentgym.reward.contract import Reward
from agentgym.rollout.progress import PhaseProgress
from agentgym.rollout.rollouts import Rollouts
from agentgym.rollout.sandbox_check import check_limits
from agentgym.storage.adaptations import adaptations_of
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.task.task_set import TaskSet
from agentgym.training.demonstrate import Demonstrations
from agentgym.training.model.sharding import gather_into, is_sharded
from agentgym.training.processes import ALONE, Processes
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.signals.provider import SignalProvider, SignalSources
from agentgym.training.stages.stored_episodes import EpisodeSource, StoredEpisodes
from agentgym.training.trained_policy import TrainedPolicy, trained_policy
from agentgym.trajectory.record import Trajectory

STEP_TASKS = "tasks.jsonl"


def with_tasks_of(folder: RunFolder, task_set: TaskSet) -> TaskSet:
    """Return the task set with the training tasks that a stage saved in its folder; other splits stay the same."""
    tasks = TaskSet.from_jsonl(folder.path / STEP_TASKS)["train"]
    splits = {"train": tasks, "validation": task_set["validation"], "held_out": task_set["held_out"]}
    if {task.environment for task in tasks} <= {task.environment for task in task_set["train"]}:
        return task_set.with_splits(splits)
    return TaskSet(task_set.name, splits)  # drop the set's players, which cannot play these tasks


@dataclass(frozen=True, slots=True)
class Learner:
    """The model being trained.

    Attributes:
        model: a model of transformers.
        processing_class: its tokenizer, or its processor if it reads images.
        policy: samples from `model`. The weights of `model` are trained in place.
    """

    model: Any
    processing_class: Any
    policy: TrainedPolicy

    @property
    def renderer(self) -> TemplateRenderer:
        """Return the policy's renderer."""
        return self.policy.renderer

    @property
    def reads_images(self) -> bool:
        return self.tokenizer is not self.processing_class

    @property
    def tokenizer(self) -> Any:
        return self.renderer.tokenizer

    @property
    def full_model(self) -> Any:
        """Return the model to publish and save; for a sharded model, the full copy in the first process."""
        return self.policy.trained if isinstance(self.policy, TrainedVllmPolicy) else self.model

    def save(self, folder: Path) -> None:
        """Write the model and its processing class into a folder, atomically."""
        save_model(self.full_model, self.processing_class, folder)

    def gather(self) -> None:
        """Update the full copy of a sharded model. All processes must call this together."""
        if is_sharded(self.model):
            full_copy = self.full_model
            gather_into(self.model, None if full_copy is self.model else full_copy)


@dataclass(frozen=True, slots=True)
class RunContext:
    """One execution of a recipe.

    Attributes:
        folder: the run folder, in which every stage writes its result.
        device: torch's name of the training device.
        task_set, rollouts: the recipe's tasks, and the rollouts that play them.
        reward: the recipe's reward, if it names one; a stage may train with another reward.
        adapted: a description of the tasks without truth to which the policy was adapted before this stage; "" for
            none.
        console, progress: the terminal and its progress bars.
        processes: this process among the run's processes. Only the first process plays, writes and prints.
        engine: the vLLM engine that samples, if the recipe has a section [vllm].
        stage: the name of the running stage; "" before the first.
        sources: the stored episodes that the stage learns from, if it reads any.
        earlier_checkpoints: checkpoints of the earlier stages that trained, by stage name.
        demonstrations: the demonstrations that the run has played.
    """

    folder: RunFolder
    recipe: Recipe
    device: str
    task_set: TaskSet
    rollouts: Rollouts
    console: Console
    progress: PhaseProgress
    processes: Processes = ALONE
    engine: VllmEngine | None = None
    reward: Reward | None = None
    adapted: str = ""
    stage: str = ""
    sources: Sequence[EpisodeSource] = ()
    earlier_checkpoints: Mapping[str, Path] = field(default_factory=dict)
    demonstrations: Demonstrations = field(default_factory=Demonstrations)

    @classmethod
    def open(
        cls,
        folder: RunFolder,
        recipe: Recipe,
        task_set: TaskSet,
        console: Console,
        processes: Processes = ALONE,
        *,
        state_keys: bool,
    ) -> RunContext:
        """Create the context with its rollouts; call `close` at the end. `state_keys`: see RolloutConfig."""
        device, progress = recipe.machine.torch_device, PhaseProgress(console)
        engine = None
        if recipe.vllm is not None:
            precision = recipe.train.autocast(device)
            served = ServedModel(recipe.policy, device, precision, recipe.seed, recipe.guard.drift)
            staleness = recipe.train.staleness
            engine = VllmEngine(recipe.vllm, served, folder.path, console.print, staleness=staleness)
        rollouts = Rollouts(
            replace(recipe.rollout_config(task_set), state_keys=state_keys),
            pool=recipe.episode.pool,
            ledger=Ledger(folder.ledger) if processes.is_first else None,
            on_failures=partial(console.print, style="yellow", markup=False, highlight=False, soft_wrap=True),
        )
        run = folder, recipe, device, task_set, rollouts, console, progress, processes, engine
        return cls(*run, reward=rollouts.reward, adapted=adaptations_of(recipe.policy.path))

    def check_sandboxes(self) -> None:
        """Check, before a model is loaded, that this host enforces the limits of sandboxes. Raises: LimitUnenforceable.

        A run that goes on may do so on another host than it began on.
        """
        tasks = [task for split in self.task_set for task in self.task_set[split]]
        self.rollouts.finish(check_limits(tasks, self.rollouts.config))

    def close(self) -> None:
        """Close the vLLM server, if there is one, the sandboxes and the ledger."""
        try:
            if self.engine is not None:
                self.rollouts.finish(self.engine.close())
        finally:
            self.rollouts.close()

    @property
    def weights_device(self) -> str:
        """Return the device for loading models: "cpu" if training shards them, else the training device."""
        return "cpu" if self.recipe.machine.sharding else self.device

    @contextmanager
    def progress_bar(self, description: str, total: int) -> Iterator[Callable[[], None]]:
        """Show a progress bar. Yields a function that advances it by one."""
        bar = self.progress.add_task(description, total=total)
        yield lambda: self.progress.advance(bar)

    @property
    def stored_episodes(self) -> StoredEpisodes:
        """Return the stored episodes that the stage may learn from."""
        return StoredEpisodes(self.folder, self.stage, self.sources, self.recipe.seed)

    def demonstrate(self) -> list[Trajectory]:
        """Play the demonstrations of [warm_start]; without that section, enough to train a tokenizer.

        They are played once in a run.
        """
        recipe = self.recipe
        options = recipe.warm_start, self.task_set, recipe.tasks.weights, recipe.seed
        return self.demonstrations.play(self.rollouts, *options, bar=self.progress_bar)

    @property
    def tasks_file(self) -> Path:
        """Return the path of the training tasks that a stage makes."""
        return self.folder.path / STEP_TASKS

    def signal_providers(self, learner: Learner, estimator: Estimator) -> list[SignalProvider]:
        """Make the providers of the signals that an estimator requires, for this learner and [train.signals]."""
        sources = SignalSources(
            model=learner.model,
            policy=learner.policy,
            rollouts=self.rollouts,
            task_set=self.task_set,
            encode=learner.tokenizer.encode,
            estimator=estimator,
            options=self.recipe.train.signals,
            seed=self.recipe.seed,
        )
        return sources.providers()

    def learner(self, model: Any, processing_class: Any, *, lockstep: bool = True) -> Learner:
        """Wrap a model in a policy that samples from it; with a processor, in a vision policy.

        Args:
            lockstep: False forbids the policy to wait for all live episodes, even if the recipe allows it.
        """
        hardware = self.recipe.machine
        policy = trained_policy(
            model,
            processing_class,
            self.recipe.policy,
            hardware.model_copy(update={"lockstep": hardware.lockstep and lockstep}),
            precision=self.recipe.train.autocast(self.device),
            engine=self.engine,
            is_first=self.processes.is_first,
        )
        return Learner(model, processing_class, policy)

    @contextmanager
    def hooked(self, learner: Learner, hook: str, options: Mapping[str, Any], name: str) -> Iterator[Learner]:
        """Inside the block, sample from the learner's model in this process under a logit hook.

        Args:
            hook, options: the registered name of the hook, and its options. name: appended to the name of the learner's
            policy.
        """
        section = self.recipe.policy.model_copy(update={"logit_hook": hook, "logit_hook_options": dict(options)})
        policy = trained_policy(
            learner.model,
            learner.processing_class,
            section,
            self.recipe.machine,
            precision=self.recipe.train.autocast(self.device),
            engine=None,
            is_first=self.processes.is_first,
        )
        policy.name = f"{learner.policy.name} {name}"
        try:
            yield replace(learner, policy=policy)
        finally:
            self.rollouts.finish(policy.close())
