"""The policy that samples from the model in training: in this process, on vLLM servers, or through TRL's backend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

from agentgym.errors import PolicyError
from agentgym.messages import images_of
from agentgym.policy.adapters import own_model
from agentgym.policy.batching import Batcher
from agentgym.policy.contract import Policy, Reply, Request
from agentgym.policy.local import policy_of, renderer_of
from agentgym.policy.policy_section import PolicySection
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.transformers import TransformersPolicy
from agentgym.policy.vllm_training import TrainedVllmPolicy, TrainedVllmPool, VllmEngine
from agentgym.training.model.sharding import sharing_copy
from agentgym.training.recipe.hardware_section import HardwareSection

TrainedPolicy = TransformersPolicy | TrainedVllmPolicy | TrainedVllmPool


def trained_policy(
    model: Any,
    processing_class: Any,
    section: PolicySection,
    hardware: HardwareSection,
    *,
    precision: str | None,
    engine: VllmEngine | None,
    is_first: bool,
) -> TrainedPolicy:
    """Make the policy that samples from a model, with the options of [policy] and [machine].

    Args:
        processing_class: the model's tokenizer, or its processor if it reads images.
        precision: torch's name of the dtype that training computes in; None for that of the weights.
        engine: the vLLM servers; None to sample in this process.
        is_first: whether this is the first of the processes that train together.
    """
    named = own_model(model)
    size = f"in {section.quantization}"  # a count of packed 4-bit parameters would differ after a resume
    if not section.quantization:
        size = f"of {named.num_parameters() / 1e6:.1f} M parameters"
    name = f"{type(named).__name__} {size}"
    as_called = processing_class, section.call_format, section.template_options
    if engine is not None:
        published = sharing_copy(model) if hardware.sharding and is_first else model
        served = engine.policy(published, processing_class, renderer_of(*as_called))
        served.name = f"{name} on vLLM"
        return served
    policy = policy_of(
        model,
        *as_called,
        logit_hook=section.logit_hook,
        logit_hook_options=section.logit_hook_options,
        max_batch=hardware.max_batch,
        max_batch_tokens=hardware.max_batch_tokens,
        lockstep=hardware.lockstep,
        autocast=getattr(torch, precision) if precision else None,
    )
    policy.name = name
    return policy


class TrlPolicy(Policy):
    """Samples through `GRPOTrainer._generate_single_turn`, the only private TRL method used here.

    The temperature is the trainer's; a request's `max_tokens` shortens the reply. Only vLLM returns log-probabilities.
    Without them, TRL uses those of its own forward pass, as if the update were on-policy.

    Args:
        trainer: the trainer whose model answers.
        renderer: the renderer of the same tokenizer.
        max_wait_s: the time that a request waits for others to share its batch.
    """

    name = "trl"

    def __init__(self, trainer: Any, renderer: TemplateRenderer, *, max_wait_s: float = 0.05) -> None:
        self._trainer = trainer
        self.renderer: TemplateRenderer = renderer
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="trl-generate")
        self._batcher: Batcher[Request, Reply] = Batcher(
            self._generate, self._worker, max_batch=1024, max_wait_s=max_wait_s
        )

    async def generate(self, request: Request) -> Reply:
        """Sample a reply. Raises: PolicyError if the conversation has an image: TRL's backend gets none."""
        if images_of(request.messages):
            raise PolicyError(
                "The conversation contains an image, but TRL's own generation does not support images. Train with a "
                "VisionPolicy of the same model (generation = 'transformers'), or use an environment that answers in "
                "text, such as a page's accessibility tree."
            )
        return await self._batcher.submit(request, request.episode)

    def episode_started(self, episode: str) -> None:
        self._batcher.started(episode)

    def episode_ended(self, episode: str) -> None:
        self._batcher.ended(episode)

    async def close(self) -> None:
        self._batcher.close()
        self._worker.shutdown()

    def _generate(self, requests: Sequence[Request]) -> list[Reply]:
        trainer = self._trainer
        prompts = [list(request.prefix_ids or ()) for request in requests]
        limit = max(request.sampling.max_tokens for request in requests)
        with _reply_limit(trainer, limit):
            ids, logprobs = trainer._generate_single_turn(prompts, None, {}, 1)
        replies = []
        ends = set(trainer.eos_token_ids)
        for index, request in enumerate(requests):
            allowed = request.sampling.max_tokens
            token_ids = list(ids[index][:allowed])
            replies.append(
                Reply(
                    self.renderer.parse(token_ids, request.tools),
                    token_ids,
                    list(logprobs[index][:allowed]) if logprobs is not None else None,
                    finish_reason="stop" if token_ids and token_ids[-1] in ends else "length",
                    policy_version=self.version,
                    prompt_tokens=len(prompts[index]),
                    completion_tokens=len(token_ids),
                )
            )
        return replies


@contextmanager
def _reply_limit(trainer: Any, limit: int) -> Iterator[None]:
    """Limit replies to `limit` tokens for one batch; TRL has no argument for it."""
    config = trainer.vllm_generation if trainer.use_vllm else trainer.generation_config
    name = "max_completion_length" if trainer.use_vllm else "max_new_tokens"
    limit_before = getattr(config, name)
    setattr(config, name, limit)
    try:
        yield
    finally:
        setattr(config, name, limit_before)
