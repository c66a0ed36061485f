"""The model that training starts from, after the imitation of demonstrations that a recipe asks for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence

from agentgym import registry
from agentgym.policy.contract import Renderer
from agentgym.policy.formats.contract import CallFormat
from agentgym.policy.tiny import make_model, make_tokenizer
from agentgym.training.callbacks import LoggingCallback, ValidationCallback, latest_checkpoint, step_of
from agentgym.training.imitation import imitate
from agentgym.training.model_failures import DivergenceCallback
from agentgym.training.models import load_model, save_model
from agentgym.training.recipe import WarmStartSection
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import define_stage
from agentgym.training.stages.demonstrate import demonstrate
from agentgym.training.stages.measure import validate
from agentgym.training.vision_inputs import VisionInputs
from agentgym.trajectory import Trajectory

WARM_START = "warm_start"
"""Name of the checkpoint that exists once the warm start is done."""
STEPS = "warm_start_steps"
"""Name of the folder with the checkpoints that a broken-off warm start goes on from."""


def starting_learner(context: RunContext) -> Learner:
    """The recipe's model, before any stage."""
    recipe = context.recipe
    if recipe.policy.path is not None:
        return context.learner(*load_model(recipe.policy, context.device, recipe.seed))
    return _tiny_learner(context, context.processes.share(lambda: demonstrate(context)))


@define_stage(section="warm_start", checkpoint=WARM_START)
def imitate_stage(context: RunContext, learner: Learner) -> Learner:
    """Imitates the task set's scripted players, as [warm_start] says."""
    section = context.recipe.warm_start
    assert section is not None  # the plan of the stages fills it in
    warm_start(context, section, learner, context.processes.share(lambda: demonstrate(context)))
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
    processes, steps_folder = context.processes, context.folder.checkpoints / STEPS
    logged = ("warm_start", "warm_start_validation")
    processes.share(lambda: context.folder.forget(logged, step_of(latest_checkpoint(steps_folder))))
    bar = context.progress.add_task("warm start", total=section.steps, line_a_note=True)
    shown_metrics = {"loss": "loss", "mean_token_accuracy": "token accuracy"}
    logging = LoggingCallback(context.folder, "warm_start", context.progress, bar, shown_metrics)
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
            folder=steps_folder,
            steps=section.steps,
            batch_size=section.batch_size,
            microbatch_tokens=section.microbatch_tokens,
            learning_rate=section.learning_rate,
            optimizer=section.optimizer,
            save_every=section.save_every,
            gradient_checkpointing=context.recipe.machine.gradient_checkpointing,
            seed=context.recipe.seed,
            callbacks=[
                logging,
                DivergenceCallback("warm start", "warm_start.learning_rate"),
                validation,
            ],
            use_cpu=context.device == "cpu",
            processes=processes,
            vision_inputs=VisionInputs.of(learner.policy, learner.model),
        )

    def save() -> None:
        save_model(learner.model, learner.processing_class, context.folder.checkpoints / WARM_START)
        shutil.rmtree(steps_folder, ignore_errors=True)

    processes.share(save)


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
