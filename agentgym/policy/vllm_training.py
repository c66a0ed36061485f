"""Samples from the trained model through a vLLM server, whose weights are updated from this process."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch

from agentgym.errors import RecipeError
from agentgym.messages import Message
from agentgym.policy.adapters import has_adapter, own_model
from agentgym.policy.checkpoint import save_model, save_untied, tokenizer_of
from agentgym.policy.http import RetryPolicy
from agentgym.policy.policy_section import PolicySection
from agentgym.policy.pool import PolicyPool
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.scoring import score
from agentgym.policy.transformers import evaluating
from agentgym.policy.vllm import VllmPolicy
from agentgym.policy.vllm_check import served_model
from agentgym.policy.vllm_section import VllmSection
from agentgym.policy.vllm_server import SERVED_NAME, VllmServer

PROMPT = "Sort the numbers 12, 7 and 305, add them up, and say in one short sentence which of them is the largest."
"""A text that the server and this process score. Any text on which two models differ can be used."""


@dataclass(frozen=True, slots=True)
class BaseModelCheck:
    """Compares the log-probabilities of a short prompt under a server's model with those under the adapter's base model
    in this process.

    Attributes:
        model: the model with its adapter, which is disabled for the comparison.
        url: the URL of the server, for the error.
        source: the model's name, for the error.
        most: the largest mean difference that rounding may cause, in nats per token.
        autocast: the torch dtype that training computes in.
    """

    model: Any
    url: str
    source: str
    most: float
    autocast: Any = None

    async def __call__(self, server: VllmPolicy) -> None:
        """Raise RecipeError if the log-probabilities differ; PolicyError if the server does not score."""
        ids = server.renderer.prompt([Message("user", PROMPT)], [])
        served = await server.score(ids[:1], ids[1:])
        own = self._own_logprobs(ids)  # not in threads: two servers at once would switch the same adapter
        difference = float(np.mean(np.abs(np.subtract(served, own))))
        if not difference <= self.most:
            raise RecipeError(
                f"vllm.url = {self.url!r}: the server's model {server.model!r} is not policy.path = {self.source!r}, "
                f"the base model of the adapter. Their log-probabilities of a short prompt differ by {difference:.2g} "
                f"nats per token; guard.drift allows at most {self.most:g}. Restart the server with policy.path. Do so "
                "too if it was started with that model, because another run may have changed its weights."
            )

    def _own_logprobs(self, ids: list[int]) -> list[float]:
        """Return [L - 1] log-probabilities of the tokens after the first, in nats."""
        with self.model.disable_adapter(), evaluating(self.model, self.autocast):
            (logprobs,) = score(self.model, ids[0], [(ids[:1], ids[1:])])
        return logprobs


_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # ranks of adapters; vLLM reserves memory for one of these
_WHOLE_NUMBERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes
_GPU_SHARE = 0.4  # share of the GPU's memory, next to the training


class TrainedVllmPolicy(VllmPolicy):
    """A policy that samples on a server, with the model's weights from the start of each batch of episodes."""

    def __init__(self, engine: VllmEngine, model: Any, processing_class: Any, renderer: TemplateRenderer) -> None:
        [(address, name)] = engine.served.items()
        super().__init__(address, name, renderer=renderer, server=engine.server, **engine.options(address, model))
        self.trained, self.processing_class, self._engine = model, processing_class, engine

    async def refresh(self, version: int | None = None) -> None:
        """Load the current weights into the server. `version`: the version of the weights; by default the policy's.

        Raises: PolicyError if the server cannot be started, or does not take the weights.
        """
        await self._engine.serve(self, version)
        self.share()


class TrainedVllmPool(PolicyPool):
    """Samples from the trained model on several servers."""

    def __init__(self, engine: VllmEngine, model: Any, processing_class: Any, renderer: TemplateRenderer) -> None:
        # Fail fast and let the pool use another server: long retries would keep the episode from the other servers.
        retry_policy = RetryPolicy(attempt_s=engine.deadline_s, total_s=engine.deadline_s, attempts=2)
        self._members = [
            VllmPolicy(address, name, renderer=renderer, retry_policy=retry_policy, **engine.options(address, model))
            for address, name in engine.served.items()
        ]
        super().__init__(self._members, deadline_s=engine.deadline_s)
        self.trained, self.processing_class, self._engine = model, processing_class, engine
        self.renderer: TemplateRenderer = renderer

    async def refresh(self, version: int | None = None) -> None:
        """Load the current weights into all servers. Raises: PolicyError if no server takes them."""
        await self._engine.serve(self, version)
        for member in self._members:  # each server has these weights, or the pool leaves it out
            member.version = self.version
            member.share()


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The model that the run trains and a server samples from.

    Attributes:
        section: the recipe's [policy].
        device: torch's name of the training device.
        autocast: torch's name of the dtype that training computes in; None for that of the weights.
        seed: the seed of the server.
        max_drift: the largest mean difference of a token's log-probability, in nats, between the server and the
            trainer.
    """

    section: PolicySection
    device: str
    autocast: str | None
    seed: int
    max_drift: float


class VllmEngine:
    """The server or servers of one run, and their weights.

    Args:
        section: the recipe's [vllm].
        model: the model that is served.
        folder: the run's folder; weights and the server's log are written beneath it.
        say: prints a line when the server starts, which takes a minute.
        staleness: maximum age of the episodes' weights, in versions.
    Attributes:
        served: the served model's name, by server address.
        server: the server process, if this run starts one.
        deadline_s: time limit for an answer of one of several servers.
    Raises: RecipeError if a server of `vllm.url` does not answer.
    """

    def __init__(
        self, section: VllmSection, model: ServedModel, folder: Path, say: Callable[[str], None], *, staleness: int = 0
    ) -> None:
        self._model, self._say, self._start_s = model, say, section.start_s
        # The folder is removed at the end, so it must be unique to this run.
        self._weights = Path(section.folder or folder, f"vllm_weights_{uuid4().hex[:8]}").resolve()
        self._options = section.options
        self._adapters = 2 + staleness  # number of adapters in use at once if episodes play in the background
        self._hook: dict[str, Any] = model.section.model_dump(include={"logit_hook", "logit_hook_options"})
        self.server: VllmServer | None = None
        self.deadline_s, self._connections = section.deadline_s, section.connections
        self._loaded: tuple[TrainedVllmPolicy | TrainedVllmPool, list[int]] | None = None
        self.served = {url: section.model or served_model(url) for url in section.urls}
        if not self.served:
            self.server = VllmServer(log=folder / "vllm.log", python=section.python, gpus=section.gpus)
            self.served = {self.server.address: SERVED_NAME}
            self._shares_gpus = section.gpus is None

    def options(self, address: str, model: Any) -> dict[str, Any]:
        """Return a VllmPolicy's options, with a check of the server's base model for an adapter."""
        options = self._hook | {"connections": self._connections}
        if self.server is not None or not has_adapter(model):
            return options
        autocast = getattr(torch, self._model.autocast) if self._model.autocast else None
        check = BaseModelCheck(model, address, str(self._model.section.path), self._model.max_drift, autocast)
        return options | {"check_base": check}

    def policy(
        self, model: Any, processing_class: Any, renderer: TemplateRenderer
    ) -> TrainedVllmPolicy | TrainedVllmPool:
        """Return a policy that samples from the model."""
        kind = TrainedVllmPolicy if len(self.served) == 1 else TrainedVllmPool
        return kind(self, model, processing_class, renderer)

    async def serve(self, policy: TrainedVllmPolicy | TrainedVllmPool, version: int | None = None) -> None:
        """Load the weights of the policy's model into the servers, unless they have them already.

        Args:
            version: the version of these weights; by default the policy's.
        Raises: PolicyError.
        """
        weights = digest(policy.trained)
        version = policy.version if version is None else version
        if self._loaded is not None:
            former, loaded = self._loaded
            if former is policy and loaded == weights:
                policy.version = version
                return
            if former is not policy:
                await former.close()
        if self.server is not None and not self.server.is_started:
            await self._start(self.server, policy)
        if has_adapter(policy.trained):
            adapter = self._weights / f"adapter-{version}"
            await asyncio.to_thread(save_model, policy.trained, policy.processing_class, adapter)
            await policy.update_adapter(str(adapter), version=version)
            others = [folder for folder in self._weights.glob("adapter-*") if folder != adapter]
            for folder in sorted(others, key=lambda folder: folder.stat().st_mtime_ns)[: -(self._adapters - 1)]:
                shutil.rmtree(folder)
        else:
            await self._write(policy)
            await policy.update_weights(str(self._weights), version=version)
        self._loaded = policy, weights

    async def close(self) -> None:
        """Stop the server that this run started, and remove the weights written for it."""
        if self._loaded is not None:
            await self._loaded[0].close()
        if self.server is not None:
            await asyncio.to_thread(self.server.close)
        shutil.rmtree(self._weights, ignore_errors=True)

    async def _start(self, server: VllmServer, policy: TrainedVllmPolicy | TrainedVllmPool) -> None:
        self._say("starting a vLLM server, which takes about a minute")
        await self._write(policy)
        lora = self._model.section.lora
        options = ["--seed", str(self._model.seed), "--dtype", self._model.autocast or "float32"]
        if self._model.device == "cpu":
            # vLLM 0.32 for CPUs crashes on a request with a seed if it prefills the prompt in chunks.
            options += ["--enforce-eager", "--no-enable-chunked-prefill"]
        elif self._shares_gpus:
            options += ["--gpu-memory-utilization", str(_GPU_SHARE)]
        if lora is not None:
            rank = next((rank for rank in _LORA_RANKS if rank >= lora.rank), lora.rank)
            options += ["--enable-lora", "--max-lora-rank", str(rank), "--max-loras", str(self._adapters)]
        applies_masks = self._hook["logit_hook"] is not None
        server.start(self._weights, [*options, *self._options], applies_masks=applies_masks)
        await server.wait_until_ready(self._start_s)

    async def _write(self, policy: TrainedVllmPolicy | TrainedVllmPool) -> None:
        """Write the weights of the model, without an adapter, for the server to read."""
        tokenizer = tokenizer_of(policy.processing_class)
        await asyncio.to_thread(save_untied, own_model(policy.trained), tokenizer, self._weights)


def digest(model: Any) -> list[int]:
    """Return a checksum of each trained tensor: the sum of its bits read as integers.

    Tensors also have a version counter, but optimisers written in CUDA do not increase it.
    """
    trained = [tensor.detach() for tensor in model.parameters() if tensor.requires_grad or not has_adapter(model)]
    sums = [tensor.view(_WHOLE_NUMBERS[tensor.element_size()]).sum(dtype=torch.int64) for tensor in trained]
    numbers: list[int] = torch.stack(sums).tolist()
    return numbers
