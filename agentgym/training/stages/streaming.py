"""Play the episodes of a reinforcement in the background, if the recipe asks for background play."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.policy.contract import Policy
from agentgym.policy.transformers import TransformersPolicy
from agentgym.training.asynchronous.callback import StreamCallback, StreamedSampler
from agentgym.training.asynchronous.stream import Capacity, GroupStream, shuffled
from agentgym.training.gatherers import Gatherer, play_groups
from agentgym.training.model.sharding import plain_forward
from agentgym.training.samplers import Sampler
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.vllm.engine import TrainedVllmPolicy, TrainedVllmPool


def sampling_copy(model: Any) -> Any:
    """Return a copy to sample from, in eval mode, for `TransformersPolicy.update_weights`.

    A trainer changes its model's mode, hooks and, during an optimiser step, weights. The copy costs the memory of the
    trained weights; frozen weights, as below a LoRA adapter, are shared.

    The copy's parameters keep `requires_grad`, though no gradient is computed: torch multiplies by a matrix that
    requires a gradient differently, and the last bits would differ.
    """
    shared = {id(parameter): parameter for parameter in model.parameters() if not parameter.requires_grad}
    with plain_forward(model):
        return copy.deepcopy(model, shared).eval()


@dataclass(frozen=True, slots=True)
class Streaming:
    """The trainer's components for background play, instead of playing each step on request.

    Attributes:
        gather: returns finished groups. `callback`: publishes weights and logs.
        sampler: learns from the groups; their tasks were drawn ahead.
    """

    gather: Gatherer
    callback: StreamCallback
    sampler: Sampler | None


@contextmanager
def streaming(
    context: RunContext, learner: Learner, sampler: Sampler | None, checkpoint: Path | None
) -> Iterator[Streaming | None]:
    """Run a background player inside the block; yield None if the recipe plays each step when it is trained."""
    section, processes = context.recipe.train, context.processes
    if not section.is_streamed:
        yield None
        return
    tasks = list(context.task_set["train"])
    known_sampler = None if sampler is None else StreamedSampler(sampler, tasks)
    groups = section.tasks_per_step
    after = (tasks, checkpoint, context.console, processes, groups)
    if not processes.is_first:
        yield Streaming(play_groups, StreamCallback(None, *after), known_sampler)
        return
    policy, take_weights = _sampler(context, learner)
    stream = GroupStream(
        context.rollouts,
        policy,
        take_weights,
        draw=shuffled(tasks, context.recipe.seed) if sampler is None else sampler.draw,
        label=context.folder.phase("train"),
        capacity=Capacity(section.staleness, groups),
        group_size=section.group_size,
        quorum=section.group_quorum,
        iterations=section.passes,
    )
    with context.rollouts.loop.in_thread():
        try:
            yield Streaming(stream.gather, StreamCallback(stream, *after), known_sampler)
        finally:
            stream.close()
            if policy is not learner.policy:
                context.rollouts.finish(policy.close())


def _sampler(context: RunContext, learner: Learner) -> tuple[Policy, Callable[[int], None]]:
    """Return the policy that plays, and the function that gives it the model's weights.

    In this process, the policy gets a copy of the model, made before the trainer changes how the model computes. A vLLM
    server has its own copy.
    """
    section, served = context.recipe.train, learner.policy
    if isinstance(served, TrainedVllmPolicy | TrainedVllmPool):
        return served, lambda version: context.rollouts.loop.run(served.refresh(version))
    waits_for_all = not section.staleness and section.group_quorum is None  # else one slow tool would delay all
    policy = context.learner(sampling_copy(learner.model), learner.processing_class, lockstep=waits_for_all).policy
    assert isinstance(policy, TransformersPolicy)
    return policy, lambda version: policy.update_weights(learner.model, version=version)
