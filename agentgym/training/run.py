"""Execute a recipe: demonstrations, warm start, held-out before, reinforcement, held-out after, report.

Every stage leaves its result in the run folder, whole or not at all; a run that was cut short goes on
from the last stage, and within reinforcement from the last complete checkpoint.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from torch.utils.tensorboard import SummaryWriter
from transformers import PrinterCallback
from transformers.integrations import TensorBoardCallback
from trl import GRPOConfig

from agentgym import registry
from agentgym.credit import Estimator
from agentgym.errors import RecipeError
from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.report import write_report
from agentgym.evaluation.runner import choose, from_trajectories, opened_before
from agentgym.policy.contract import Policy
from agentgym.policy.device import device_of
from agentgym.policy.formats.contract import CallFormat
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.tiny import make_model, make_tokenizer
from agentgym.policy.transformers import TransformersPolicy
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.task import TaskSet
from agentgym.training.branching import Branching
from agentgym.training.callbacks import (
    HEALTHY,
    CheckpointCompleteCallback,
    CollapseGuardCallback,
    LoggingCallback,
    ValidationCallback,
    latest_checkpoint,
)
from agentgym.training.collapse_guard import CollapseGuard
from agentgym.training.credit_audit import CreditAudit
from agentgym.training.curriculum import curriculum_of
from agentgym.training.models import load_model, load_state, save_atomically, tokenizer_of
from agentgym.training.recipe import Recipe, WarmStartSection
from agentgym.training.rollouts import Rollouts
from agentgym.training.signals.selection import check_signals_available, providers_for
from agentgym.training.silence import silence_libraries
from agentgym.training.turn_grpo import TurnGRPOTrainer, Watcher, summary
from agentgym.training.vision_inputs import VisionInputs
from agentgym.training.warm_start import demonstrations, imitate, texts, tokenise
from agentgym.trajectory import Trajectory


def train(
    recipe: Recipe,
    *,
    folder: str | Path | None = None,
    resume: bool = False,
    console: Console | None = None,
) -> RunFolder:
    """Run a whole recipe and return its folder.

    Args:
        folder: where to write, by default runs/<name>.
        resume: go on with a run that was cut short; without it an existing run is an error.
        console: where progress is shown.
    Raises: RecipeError if the folder holds another run; any typed error of a room below.
    """
    run = RunFolder(folder or Path("runs") / recipe.name).create()
    _claim(run, recipe, resume)
    if recipe.machine.threads:
        torch.set_num_threads(recipe.machine.threads)
    session = _Session(run, recipe, console or Console())
    try:
        session.execute()
    finally:
        session.close()
    return run


class _Session:
    """One execution of a recipe: what its stages share."""

    def __init__(self, run: RunFolder, recipe: Recipe, console: Console) -> None:
        self.run, self.recipe, self.console = run, recipe, console
        self.device = device_of(recipe.machine.device)
        self.task_set: TaskSet = recipe.tasks.load()
        episode = recipe.episode
        self.rollouts = Rollouts(
            reward=recipe.judge(self.task_set),
            budgets=episode.budgets(),
            concurrency=episode.concurrency,
            backend=episode.backend,
            pool=episode.pool,
            seed=recipe.seed,
            ledger=Ledger(run.ledger),
        )
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<22}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
        )
        self.started = time.monotonic()
        self._warm = run.checkpoints / "warm_start"  # there once the warm start is done

    def execute(self) -> None:
        recipe = self.recipe
        if recipe.train.steps:
            check_signals_available(recipe.train.make_estimator(), self.task_set)
        with silence_libraries(), self.progress:
            model, reader = self._policy_model()
            policy = self._local_policy(model, reader)
            if recipe.warm_start and recipe.policy.path and not self._warm.is_dir():
                self._warm_start(model, reader, self._demonstrations(), policy)
            self._measure("before", policy)
            if recipe.train.steps:
                self._reinforce(model, reader, policy)
            self._measure("after", policy)
            if recipe.evaluate.control:
                self._measure("control", policy, recipe.evaluate.control)
        self._conclude()

    def close(self) -> None:
        self.rollouts.close()

    # ---- stages -------------------------------------------------------------------------------------------

    def _policy_model(self) -> tuple[Any, Any]:
        """The model to start from: a checkpoint, the finished warm start, or a tiny one made and warm-started."""
        recipe = self.recipe
        source = self._warm if self._warm.is_dir() else recipe.policy.path
        if source is not None:
            return load_model(source, self.device)
        examples = self._demonstrations()
        shape = recipe.policy.tiny
        assert shape is not None  # the recipe has a path or a tiny section
        sizes = shape.model_dump()
        tokenizer = make_tokenizer(texts(examples, self._call_format()), vocab_size=sizes.pop("vocabulary"))
        model = make_model(tokenizer, seed=recipe.seed, **sizes).to(self.device)
        policy = self._local_policy(model, tokenizer)
        if recipe.warm_start:
            self._warm_start(model, tokenizer, examples, policy)
        return model, tokenizer

    def _demonstrations(self) -> list[Trajectory]:
        section = self.recipe.warm_start or WarmStartSection(demonstrations=200)
        count = min(section.demonstrations, len(self.task_set["train"]))
        with self._bar("demonstrations", count) as advance:
            return demonstrations(
                self.rollouts,
                self.task_set,
                count,
                imperfect_oracle=section.imperfect_oracle,
                seed=self.recipe.seed,
                seen=lambda _: advance(),
            )

    def _warm_start(self, model: Any, reader: Any, examples: list[Trajectory], policy: TransformersPolicy) -> None:
        section = self.recipe.warm_start
        assert section is not None
        renderer = policy.renderer
        assert renderer is not None
        examples = [tokenise(trajectory, renderer) for trajectory in examples]
        bar = self.progress.add_task("warm start", total=section.steps, note="")
        show = {"loss": "loss", "mean_token_accuracy": "token accuracy"}
        looked = ValidationCallback(
            lambda step: self._validate(policy, step, section.validate_tasks, "warm_start_validation"),
            every=section.validate_every,
            until=section.until_success,
        )
        if section.steps:
            imitate(
                model,
                tokenizer_of(reader),
                examples,
                folder=self.run.path / "scratch",
                steps=section.steps,
                batch_size=section.batch_size,
                learning_rate=section.learning_rate,
                seed=self.recipe.seed,
                callbacks=[LoggingCallback(self.run, "warm_start", self.progress, bar, show), looked],
                use_cpu=self.device == "cpu",
                sight=VisionInputs.of(policy, model),
            )
        shutil.rmtree(self.run.path / "scratch", ignore_errors=True)
        save_atomically(model, reader, self._warm)

    def _reinforce(self, model: Any, reader: Any, policy: TransformersPolicy) -> None:
        section, final, tokenizer = self.recipe.train, self.run.checkpoints / "final", tokenizer_of(reader)
        if final.is_dir():
            model.load_state_dict(load_state(final))
            return
        checkpoint = latest_checkpoint(self.run.checkpoints)
        self.run.forget(("train", "validation"), int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0)
        bar = self.progress.add_task("reinforcement", total=section.steps * section.iterations, note="")
        show = {"success": "success", "reward": "reward", "calls_ok": "calls ok", "turns": "turns"}
        chosen = section.make_estimator()
        curriculum = curriculum_of(section.curriculum, self.task_set["train"], self.recipe.seed, checkpoint)
        guarded = CollapseGuardCallback(CollapseGuard(self.recipe.guard), self.run, self.console)
        trainer = TurnGRPOTrainer(
            model,
            args=self._grpo_config(),
            tasks=list(self.task_set["train"]),
            policy=policy if section.generation == "transformers" else self._trl_policy(tokenizer),
            rollouts=self.rollouts,
            estimator=chosen,
            sampling=self.recipe.episode.sampling(),
            sources=providers_for(
                chosen,
                section.signals,
                model=model,
                policy=policy,
                rollouts=self.rollouts,
                sampling=self.recipe.episode.sampling(),
                task_set=self.task_set,
                encode=tokenizer.encode,
                seed=self.recipe.seed,
            ),
            failures=section.failures,
            branching=self._branching(chosen),
            watch=self._watch(policy),
            curriculum=curriculum,
            processing_class=tokenizer,
            callbacks=[
                LoggingCallback(self.run, "train", self.progress, bar, show),
                ValidationCallback(
                    lambda step: self._validate(policy, step, section.validate_tasks, "validation"),
                    every=section.validate_every,
                ),
                CheckpointCompleteCallback(curriculum),
                guarded,
                TensorBoardCallback(SummaryWriter(str(self.run.tensorboard))),
            ],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        if guarded.stopped and (healthy := self.run.checkpoints / HEALTHY).is_dir():
            model.load_state_dict(load_state(healthy))
        save_atomically(model, reader, final)

    def _branching(self, chosen: Estimator) -> Branching | None:
        signals = self.recipe.train.signals
        if "branches" not in chosen.requires:
            return None
        return Branching(signals.trunks, signals.branch_before, self.recipe.seed)

    def _measure(self, when: str, policy: Policy, parameters: Mapping[str, Any] | None = None) -> None:
        """Held-out success, written to evaluation/<when>.json; skipped where it is already there.

        `parameters` replaces some of the tasks' own: another world under the same questions and truth.
        """
        section = self.recipe.evaluate
        label = f"evaluation/{when}.json"
        if (self.run.path / label).is_file():
            return
        tasks = choose(self.task_set, "held_out", section.tasks)
        if parameters:
            tasks = [replace(task, parameters={**task.parameters, **parameters}) for task in tasks]
        opened = opened_before(
            self.task_set,
            "held_out",
            tasks,
            policy=policy.name,
            label=f"{self.run.path.resolve()}/{when}",
            seed=self.recipe.seed,
        )
        with self._bar(f"held-out {when}", len(tasks) * section.samples) as advance:
            played = self.rollouts.play(
                policy,
                tasks,
                run=f"held-out-{when}",
                group_size=section.samples,
                sampling=self.recipe.episode.sampling(section.temperature),
                seen=lambda _: advance(),
            )
        evaluation = from_trajectories(
            played,
            label=when,
            task_set=self.task_set,
            split="held_out",
            policy=policy.name,
            seed=self.recipe.seed,
            sampling=self.recipe.episode.sampling(section.temperature),
        )
        evaluation.opened = opened
        self.run.write_json(label, evaluation.to_json())

    # ---- what stages use -----------------------------------------------------------------------------------

    def _validate(self, policy: TransformersPolicy, step: int, count: int, phase: str) -> dict[str, float]:
        training = policy.model.training
        tasks = choose(self.task_set, "validation", count)
        played = self.rollouts.play(
            policy,
            tasks,
            run=f"{phase}-{step:06d}",
            record=False,
            sampling=self.recipe.episode.sampling(self.recipe.evaluate.temperature),
        )
        policy.model.train(training)
        found = summary(played)
        self.run.log(step, phase, **found)
        return found

    def _watch(self, policy: Policy) -> Watcher:
        """What is done with the credit of every step: it is written down and, where the recipe says so, audited."""
        section = self.recipe.train
        audit = (
            CreditAudit(
                policy,
                self.rollouts,
                self.recipe.episode.sampling(),
                every=section.audit_every,
                sample=section.audit_sample,
                continuations=section.audit_continuations,
                group_size=section.group_size,
                iterations=section.iterations,
                seed=self.recipe.seed,
            )
            if section.audit_every
            else None
        )

        def watch(step: int, played: Sequence[Trajectory], credit: Sequence[np.ndarray]) -> Mapping[str, float]:
            self._record_credit(step, played, credit)
            return audit(step, played, credit) if audit else {}

        return watch

    def _record_credit(self, step: int, played: Sequence[Trajectory], credit: Sequence[np.ndarray]) -> None:
        with (self.run.path / "credit.jsonl").open("a", encoding="utf-8") as file:
            for trajectory, advantages in zip(played, credit, strict=True):
                row = {"trajectory": trajectory.id, "step": step, "advantages": [float(a) for a in advantages]}
                file.write(json.dumps(row) + "\n")

    def _local_policy(self, model: Any, reader: Any) -> TransformersPolicy:
        machine, tokenizer = self.recipe.machine, tokenizer_of(reader)
        kind, images = TransformersPolicy, None
        if tokenizer is not reader:
            from agentgym.policy.image_tokens import ImageTokens
            from agentgym.policy.vision import VisionPolicy

            kind, images = VisionPolicy, ImageTokens(reader)
        renderer = TemplateRenderer(tokenizer, self._call_format(), images=images)
        policy = kind(model, renderer, max_batch=machine.max_batch, lockstep=machine.lockstep)
        policy.name = f"{type(model).__name__} of {model.num_parameters() / 1e6:.1f} M parameters"
        return policy

    def _trl_policy(self, tokenizer: Any) -> Callable[[TurnGRPOTrainer], Policy]:
        from agentgym.training.trl_policy import TrlPolicy

        renderer = TemplateRenderer(tokenizer, self._call_format())
        return lambda trainer: TrlPolicy(trainer, renderer)

    def _call_format(self) -> CallFormat:
        made: CallFormat = registry.load("call_formats", self.recipe.policy.call_format)()
        return made

    def _grpo_config(self) -> GRPOConfig:
        """TRL's settings from the recipe; [train.trl] passes anything else through."""
        recipe, section = self.recipe, self.recipe.train
        rows = section.tasks_per_step * section.group_size
        if rows % section.minibatches:
            raise RecipeError(
                f"train.minibatches = {section.minibatches} does not divide the {rows} episodes of a step "
                "(train.tasks_per_step x train.group_size)."
            )
        options: dict[str, Any] = dict(
            output_dir=str(self.run.checkpoints),
            max_steps=section.steps * section.iterations,
            per_device_train_batch_size=rows // section.minibatches,
            steps_per_generation=section.minibatches,
            gradient_accumulation_steps=section.minibatches,
            num_generations=section.group_size,
            num_iterations=section.iterations,
            learning_rate=section.learning_rate,
            lr_scheduler_type="constant",
            warmup_steps=section.warmup_steps,
            loss_type=section.loss_type,
            beta=section.kl,
            temperature=recipe.episode.temperature,
            top_p=recipe.episode.top_p,
            max_completion_length=recipe.episode.max_tokens,
            max_grad_norm=section.max_grad_norm,
            logging_steps=1,
            save_strategy="steps",
            save_steps=section.save_every,
            save_total_limit=section.keep_checkpoints,
            report_to=[],
            disable_tqdm=True,
            seed=recipe.seed,
            data_seed=recipe.seed,
            gradient_checkpointing=False,
            bf16=self.device != "cpu",
            use_cpu=self.device == "cpu",
            weight_decay=0.0,
            dataloader_pin_memory=False,
        )
        try:
            return GRPOConfig(**{**options, **section.trl})
        except (TypeError, ValueError) as error:
            raise RecipeError(f"[train.trl] {section.trl}: TRL's GRPOConfig refuses it: {error}") from error

    @contextmanager
    def _bar(self, what: str, total: int) -> Iterator[Callable[[], None]]:
        bar = self.progress.add_task(what, total=total, note="")
        yield lambda: self.progress.advance(bar)

    def _conclude(self) -> None:
        """The report, and the last lines of the terminal: what was learned, and where to read about it."""
        minutes = (time.monotonic() - self.started) / 60
        report = write_report(self.run)
        self.console.print()
        files = [self.run.path / "evaluation" / f"{when}.json" for when in ("before", "after")]
        if all(file.is_file() for file in files):
            before, after = (Evaluation.load(file) for file in files)
            stratum = self.recipe.evaluate.stratum
            self.console.print(after.compared_to(before, first=stratum))
            control = self.run.path / "evaluation" / "control.json"
            if control.is_file():
                guessed = Evaluation.load(control).success(stratum).value
                self.console.print(f"  with tools that answer from another world: {guessed:.0%} (what can be guessed)")
        self.console.print(f"[bold]{self.recipe.name}[/] took {minutes:.1f} minutes. Report: [bold]{report}[/]")


def _claim(run: RunFolder, recipe: Recipe, resume: bool) -> None:
    """Write the resolved recipe into a new folder, or see that the folder to resume holds the same one."""
    file, text = run.recipe, recipe.to_toml()
    if not file.is_file():
        file.write_text(text, encoding="utf-8")
        return
    if not resume:
        raise RecipeError(
            f"{run.path} already holds a run. Go on with it by --resume, give another folder by --out, or remove it."
        )
    if Recipe.load(file) != recipe:
        raise RecipeError(
            f"{run.path} holds a run of another recipe: compare {file} with yours. A run is resumed with the recipe "
            "it began with."
        )
