"""The model that training starts from, and supervised imitation of demonstrations on the agent's own tokens."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch.nn.utils.rnn import pad_sequence

from agentgym import registry
from agentgym.policy.contract import Renderer
from agentgym.policy.formats.contract import CallFormat
from agentgym.policy.tiny import make_model, make_tokenizer
from agentgym.training.callbacks import LoggingCallback, ValidationCallback
from agentgym.training.model_failures import DivergenceCallback, out_of_memory_named
from agentgym.training.models import load_model, save_atomically
from agentgym.training.muon import Muon
from agentgym.training.recipe import WarmStartSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.demonstrate import demonstrate
from agentgym.training.stages.measure import validate
from agentgym.training.vision_inputs import VisionInputs
from agentgym.trajectory import Trajectory

WARM_START = "warm_start"
"""Name of the checkpoint that exists once the warm start is done."""


def starting_learner(context: RunContext) -> Learner:
    """Return the finished warm start, else the recipe's model, after the warm start that the recipe asks for."""
    recipe = context.recipe
    finished = context.folder.checkpoints / WARM_START
    if finished.is_dir():
        return context.learner(*load_model(finished, context.device))
    if recipe.policy.path is not None:
        learner = context.learner(*load_model(recipe.policy.path, context.device))
        if recipe.warm_start:
            warm_start(context, recipe.warm_start, learner, demonstrate(context))
        return learner
    examples = demonstrate(context)
    learner = _tiny_learner(context, examples)
    if recipe.warm_start:
        warm_start(context, recipe.warm_start, learner, examples)
    return learner


def _tiny_learner(context: RunContext, examples: Sequence[Trajectory]) -> Learner:
    """Make the recipe's [policy.tiny]: random weights, and a tokenizer trained on the demonstrations' text."""
    section = context.recipe.policy.tiny
    assert section is not None  # a recipe has policy.path or [policy.tiny]
    shape = section.model_dump()
    tokenizer = make_tokenizer(texts(examples, context.call_format()), vocab_size=shape.pop("vocabulary"))
    model = make_model(tokenizer, seed=context.recipe.seed, **shape).to(context.device)
    return context.learner(model, tokenizer)


def warm_start(
    context: RunContext, section: WarmStartSection, learner: Learner, examples: Sequence[Trajectory]
) -> None:
    """Imitate the demonstrations and save the checkpoint."""
    scratch = context.folder.path / "scratch"
    bar = context.progress.add_task("warm start", total=section.steps, line_a_note=True)
    shown_metrics = {"loss": "loss", "mean_token_accuracy": "token accuracy"}
    validation = ValidationCallback(
        lambda step: validate(context, learner, step, section.validate_tasks, "warm_start_validation"),
        every=section.validate_every,
        until=section.until_success,
    )
    if section.steps:
        imitate(
            learner.model,
            learner.tokenizer,
            [tokenise(trajectory, learner.renderer) for trajectory in examples],
            folder=scratch,
            steps=section.steps,
            batch_size=section.batch_size,
            learning_rate=section.learning_rate,
            optimizer=section.optimizer,
            seed=context.recipe.seed,
            callbacks=[
                LoggingCallback(context.folder, "warm_start", context.progress, bar, shown_metrics),
                DivergenceCallback("warm start", "warm_start.learning_rate"),
                validation,
            ],
            use_cpu=context.device == "cpu",
            vision_inputs=VisionInputs.of(learner.policy, learner.model),
        )
    shutil.rmtree(scratch, ignore_errors=True)
    save_atomically(learner.model, learner.processing_class, context.folder.checkpoints / WARM_START)


def texts(trajectories: Iterable[Trajectory], call_format: CallFormat) -> list[str]:
    """Return every message, calls as the agent writes them, and the tools' signatures: text to train a tokenizer on."""
    passages = []
    for trajectory in trajectories:
        if trajectory.tools:
            passages += [json.dumps(schema, ensure_ascii=False) for schema in trajectory.tools]
        else:
            tools = registry.prototype(trajectory.task.environment).tools.values()
            passages += [tool.signature(choices=False) for tool in tools]  # as ever: tokenizers depend on it
        for message in trajectory.messages():
            passages.append(message.text)
            if message.calls:
                passages.append(call_format.render(message.calls))
    return [passage for passage in passages if passage]


def tokenise(trajectory: Trajectory, renderer: Renderer) -> Trajectory:
    """Fill in the token ids of a trajectory that was played without a renderer, as its own agent would have."""
    schemas = trajectory.tools or [
        tool.schema() for tool in registry.prototype(trajectory.task.environment).tools.values()
    ]
    trajectory.prompt_ids = renderer.prompt(trajectory.opening, schemas)
    for turn in trajectory.turns:
        turn.token_ids = renderer.encode(turn.message)
        turn.logprobs = [0.0] * len(turn.token_ids)
        if turn is not trajectory.turns[-1]:
            turn.observation_ids = renderer.observation([result.message() for result in turn.results] + [*turn.replies])
    return trajectory


def imitate(
    model: Any,
    tokenizer: Any,
    examples: Sequence[Trajectory],
    *,
    folder: Path,
    steps: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
    optimizer: Literal["adamw", "muon"] = "adamw",
    callbacks: Sequence[Any] = (),
    use_cpu: bool = True,
    vision_inputs: VisionInputs | None = None,
) -> None:
    """Train `model` in place on token-exact trajectories with TRL's SFTTrainer.

    Args:
        examples: tokenised trajectories (see `tokenise`).
        steps: optimiser steps; the learning rate decays to a tenth after a short warm-up.
        optimizer: see agentgym.training.muon.
        callbacks: transformers TrainerCallbacks; one may stop the training.
        vision_inputs: of a model that reads images; it is given those of the examples.
    """
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import SFTConfig, SFTTrainer

    config = SFTConfig(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=batch_size,
        learning_rate=learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.1},
        warmup_steps=min(20, steps // 10),
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=seed,
        data_seed=seed,
        max_length=None,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=use_cpu,
        dataloader_pin_memory=False,
        weight_decay=0.0,
        max_grad_norm=1.0,
        adam_beta2=0.98,
        remove_unused_columns=vision_inputs is None,
    )
    trainer = SFTTrainer(
        model,
        args=config,
        train_dataset=Dataset.from_list(_supervised_rows(examples)),
        processing_class=tokenizer,
        callbacks=list(callbacks),
        optimizers=(Muon(model, learning_rate=learning_rate) if optimizer == "muon" else None, None),
        data_collator=None if vision_inputs is None else _VisionCollator(vision_inputs, model, tokenizer, examples),
    )
    trainer.remove_callback(PrinterCallback)  # it prints every log line; we have our own
    with out_of_memory_named("the warm start", "Lower warm_start.batch_size or episode.max_episode_tokens."):
        trainer.train()


def _supervised_rows(examples: Sequence[Trajectory]) -> list[dict[str, Any]]:
    """Token ids and labels of each example; the label -100 leaves a token out of the loss."""
    rows = []
    for index, trajectory in enumerate(examples):
        arrays = trajectory.arrays()
        labels = [int(i) if own else -100 for i, own in zip(arrays.ids, arrays.loss_mask, strict=True)]
        rows.append({"input_ids": arrays.ids.tolist(), "labels": labels, "row": index})
    return rows


class _VisionCollator:
    """Makes a batch of supervised rows: padded on the right, with the images that the examples show."""

    def __init__(self, vision_inputs: VisionInputs, model: Any, tokenizer: Any, examples: Sequence[Trajectory]) -> None:
        self._vision_inputs, self._model, self._pad = vision_inputs, model, int(tokenizer.pad_token_id)
        self._images = [vision_inputs.images_of(example) for example in examples]

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        def padded(name: str, filler: int) -> torch.Tensor:
            return pad_sequence([torch.tensor(row[name]) for row in rows], batch_first=True, padding_value=filler)

        ids, labels = padded("input_ids", self._pad), padded("labels", -100)
        lengths = torch.tensor([len(row["input_ids"]) for row in rows])
        mask = (torch.arange(ids.size(1)) < lengths[:, None]).long()
        images = [self._images[row["row"]] for row in rows]
        model_kwargs = self._vision_inputs.model_kwargs(ids, images, self._model)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels, **model_kwargs}
