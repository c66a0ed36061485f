"""A local transformers model as a policy: concurrent episodes are batched, token in and token out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch
from typing_extensions import override

from agentgym.errors import ContextFull, PolicyError
from agentgym.policy.adapters import has_adapter
from agentgym.policy.batching import Batcher, JobStream, StreamBatcher
from agentgym.policy.contract import Policy, Reply, Request, check_prefix
from agentgym.policy.decode_request import DecodeRequest, RowSource, fits
from agentgym.policy.decoding import Decoder
from agentgym.policy.key_values import KVPrefix
from agentgym.policy.logit_hooks import HookMaker
from agentgym.policy.logit_hooks.constraint_hooks import ConstraintHooks
from agentgym.policy.logit_hooks.contract import LogitHook, LogitTilt, make_hook
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.role_adapters import in_roles, role_adapters_of
from agentgym.policy.scoring import entropy_of_top, of_chosen, score
from agentgym.policy.swap_lock import SwapLock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentgym.policy.merged_copy import MergedCopy


_CALL_ENDS = set(">}])`")
"""Characters with which calls end, in any call format."""
_SCORED = 0
"""The value of `top` in a job that asks for log-probabilities instead of entropies."""


class TransformersPolicy(Policy):
    """Samples from a model in this process.

    Log-probabilities refer to the sampling distribution: after temperature and, with top_p, truncation.
    A request's tokens depend only on its seed and prefix, and on the rest of the batch through rounding. With
    `lockstep` the batches are the same on every run, so results are bit-identical.

    Args:
        model: a causal language model of transformers; it may be trained in place or replaced between generations.
        renderer: the renderer of the model's tokenizer.
        max_batch: the most requests in one forward pass.
        max_batch_tokens: the most tokens whose keys and values a batch may hold.
        max_wait_s: the longest a request waits for other live episodes to join it.
        lockstep: start a batch only when every live episode waits; an episode that never requests blocks all others.
        context_tokens: the size of the context window; by default from the model's configuration.
        pad_token_id, eos_token_ids: by default the tokenizer's, the renderer's and the model's own.
        autocast: torch dtype of a trainer with mixed precision, so that policy and trainer compute in the same way.
        logit_hook, logit_hook_options: registered name and options of the hook that restricts sampling (see
            agentgym.policy.logit_hooks). Scores are not restricted.
        reuse_mib: memory for keys and values of earlier turns of live episodes; 0 recomputes them each turn.

    `version` identifies the weights: increment it when you change them. During episodes call `update_weights`, which
    changes the weights and sets the version.
    """

    name = "transformers"

    def __init__(
        self,
        model: Any,
        renderer: TemplateRenderer,
        *,
        max_batch: int = 64,
        max_batch_tokens: int = 131_072,
        max_wait_s: float = 0.01,
        lockstep: bool = False,
        context_tokens: int | None = None,
        pad_token_id: int | None = None,
        eos_token_ids: Sequence[int] | None = None,
        autocast: Any = None,
        reuse_mib: int = 1024,
        logit_hook: str | None = None,
        logit_hook_options: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.renderer: TemplateRenderer = renderer
        self.checkpoint: dict[str, Any] = {}  # set when loaded
        self._hook = {"logit_hook": logit_hook, "logit_hook_options": logit_hook_options or {}}
        if max_batch_tokens < 1:
            raise ValueError(
                f"max_batch_tokens = {max_batch_tokens} is not valid: a batch must hold at least one token."
            )
        self.max_batch, self.max_batch_tokens, self.reuse_mib = max_batch, max_batch_tokens, reuse_mib
        self.autocast = autocast
        self.repeats = lockstep and model.device.type == "cpu"  # a GPU's results differ in any case
        self.eos_token_ids = tuple(eos_token_ids) if eos_token_ids else _ends(model, renderer)
        if not eos_token_ids:  # other messages exclude the model's own end tokens too
            renderer.end_ids |= set(self.eos_token_ids)
        self.hook_maker: HookMaker | None = None
        if logit_hook is not None:
            self.hook_maker = make_hook(logit_hook, renderer, self.eos_token_ids, logit_hook_options, policy=self)
        elif logit_hook_options:
            raise PolicyError(
                f"logit_hook_options = {logit_hook_options} is given without a logit hook. Name one in logit_hook, or "
                "leave the options out."
            )
        self._constraint_hooks = ConstraintHooks(renderer, self.eos_token_ids)
        self.pad_token_id = _pad(renderer, self.eos_token_ids) if pad_token_id is None else pad_token_id
        self.context_tokens = context_tokens or getattr(model.config, "max_position_embeddings", None)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="agentgym-model")
        options: dict[str, Any] = {"max_batch": max_batch, "max_wait_s": max_wait_s}
        self._pairs: Batcher[tuple[Sequence[int], Sequence[int], int], list[float]] = Batcher(
            self._score, self._worker, **options
        )
        self._rows: StreamBatcher[DecodeRequest] = StreamBatcher(
            self._sample, self._worker, pauses=lambda: self._pairs.is_busy, lockstep=lockstep, **options
        )
        self._running: dict[int, DecodeRequest] = {}  # by id()
        self._pasts: dict[str, KVPrefix] = {}
        self._live: set[str] = set()
        self._swap_lock = SwapLock()
        self._merged: MergedCopy | None = None  # the copy that sampled last

    @override
    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "call_format": self.renderer.call_format.name, **self._hook, **self.checkpoint}

    @property
    @override
    def running(self) -> Sequence[int]:
        return [len(row.tokens) for row in list(self._running.values())]

    async def generate(self, request: Request) -> Reply:
        """Answer by continuing `prefix_ids`; without them, the rendered messages.

        Raises: ContextFull if not one more token fits; PolicyError if the model failed, or has adapters per role but
            none for the request's role.
        """
        row = self._row(request)
        row.ended, row.hook = self._ended(request), self._hook_of(request)
        row.tilt = row.hook.tilt if isinstance(row.hook, LogitTilt) else None
        await self._sampled(row, request.episode)
        is_json = request.constraints.response_format is not None and not request.constraints.tool_choice
        return Reply(
            message=self.renderer.parse(row.tokens, request.tools, may_call=not is_json),
            token_ids=row.tokens,
            logprobs=row.logprobs,
            finish_reason=row.finish_reason,
            policy_version=row.version,
            version_changes=tuple(row.version_changes),
            prompt_tokens=len(row.prefix),
            completion_tokens=len(row.tokens),
            masks=row.masks,
        )

    @override
    async def repeat(self, request: Request, token_ids: Sequence[int]) -> None:
        await self._sampled(self._row(request, recorded=token_ids), request.episode)

    def _row(self, request: Request, recorded: Sequence[int] = ()) -> DecodeRequest:
        """Return a request's row, with keys and values of the episode's earlier turns. Raises: as `generate`."""
        prefix = list(request.prefix_ids or self.renderer.prompt(request.messages, request.tools))
        room = self._room(len(prefix))
        row = DecodeRequest(
            prefix,
            request.sampling,
            role=self._role_of(request),
            limit=request.sampling.max_tokens if room is None else min(room, request.sampling.max_tokens),
            keep=self.reuse_mib > 0 and request.episode in self._live,
            recorded=recorded,
        )
        past = self._pasts.pop(request.episode, None)
        row.past = past if past is not None and past.covers(prefix) else None
        return row

    async def _sampled(self, row: DecodeRequest, episode: str) -> None:
        """Sample a row to its end, and keep what the episode's next turn can reuse."""
        self._running[id(row)] = row
        try:
            await self._rows.submit(row, episode)
        finally:
            del self._running[id(row)]
        if row.left is not None and episode in self._live:
            self._remember(episode, row.left)

    def _role_of(self, request: Request) -> str:
        """Return the role whose adapter answers; empty without an adapter per role. Raises: PolicyError."""
        if (adapters := role_adapters_of(self.model)) is None:
            return ""
        adapters.number_of(request.role)
        return request.role

    async def score(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int]) -> list[float]:
        """Return the natural-log probability of each continuation token after the prefix, at temperature 1."""
        return await self._read_pair(prefix_ids, continuation_ids, _SCORED)

    async def entropies(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int], top: int) -> list[float]:
        """Return the entropy in nats before each continuation token, over the `top` likeliest tokens."""
        return await self._read_pair(prefix_ids, continuation_ids, top)

    async def _read_pair(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int], top: int) -> list[float]:
        check_prefix(prefix_ids)
        if not continuation_ids:
            return []
        self._room(len(prefix_ids) + len(continuation_ids) - 1)
        return await self._pairs.submit((prefix_ids, continuation_ids, top))

    def episode_started(self, episode: str) -> None:
        """Make batches wait for this episode."""
        self._live.add(episode)
        self._rows.started(episode)

    def episode_ended(self, episode: str) -> None:
        """Stop making batches wait for this episode, and drop its keys and values."""
        self._live.discard(episode)
        self._pasts.pop(episode, None)
        self._rows.ended(episode)

    def update_weights(self, source: Any, *, version: int) -> None:
        """Copy the weights of another copy of the model, from any thread, between two decode steps.

        Running requests continue, and their replies say from which token on the new weights sampled. Parameters shared
        by both copies are skipped.

        Args:
            source: has every parameter of the model under the same name. Its parameters must not change meanwhile.
        """
        with self._swap_lock.replacing(), torch.no_grad():
            weights = dict(source.named_parameters())
            for name, own in self.model.named_parameters():
                if own is not weights[name]:
                    own.copy_(weights[name])
            torch.clear_autocast_cache()  # outside of inference mode, it has casts of the earlier weights
            self.version = version
            if self._merged is not None:
                self._merged.refresh(self._weights_now())

    async def close(self) -> None:
        """Stop the worker thread. Waiting requests fail with PolicyError."""
        self._rows.close()
        self._pairs.close()
        self._pasts.clear()
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _sample(self, jobs: JobStream[DecodeRequest]) -> None:
        with evaluating(self.model, self.autocast):
            while (row := jobs.next) is not None:
                with in_roles(self.model, [row.role]):  # a past row's keys and values depend on its role
                    self._decode(_RowsOfRole(self, jobs, row.role, self._weights_now))

    def _sampling_model(self) -> Any:
        """Return the model or, if there is one that samples faster, its copy, up to date."""
        if not has_adapter(self.model) and self.autocast is None:
            return self.model
        from agentgym.policy.merged_copy import MergedCopy, can_copy

        if self._merged is None or self._merged.source is not self.model:
            self._merged = MergedCopy(self.model, self.autocast) if can_copy(self.model, self.autocast) else None
        if self._merged is None:
            return self.model
        self._merged.refresh(self._weights_now())
        return self._merged.model

    def _decode(self, rows: RowSource) -> None:
        """Sample rows until none is left."""
        Decoder(
            self._sampling_model(),
            self.pad_token_id,
            self.eos_token_ids,
            max_tokens=self.max_batch_tokens,
            swap_lock=self._swap_lock,
            read_version=lambda: self.version,
        ).run(rows)

    def _score(self, jobs: Sequence[tuple[Sequence[int], Sequence[int], int]]) -> Iterator[list[float]]:
        with self._swap_lock.computing(), evaluating(self.model, self.autocast):
            for top, alike in groupby(jobs, key=lambda job: job[2]):
                read = of_chosen if top == _SCORED else partial(entropy_of_top, top=top)
                yield from score(self.model, self.pad_token_id, [job[:2] for job in alike], read)

    def _room(self, used: int) -> int | None:
        """Return how many more tokens fit; None if unknown. Raises: ContextFull if none fits."""
        if self.context_tokens is None:
            return None
        if used >= self.context_tokens:
            raise ContextFull(
                f"The conversation has {used} tokens, which fill the model's context of {self.context_tokens}. Allow "
                "the episode fewer turns or shorter tool results (max_output_chars), or give the policy more "
                "context_tokens."
            )
        return self.context_tokens - used

    @override
    async def check(self, request: Request) -> None:
        """Check that the policy can enforce the constraints of a request. Raises: PolicyError."""
        self._hook_of(request)

    def _hook_of(self, request: Request) -> LogitHook | None:
        """Return a request's hook; None without one. Raises: PolicyError for constraints that cannot be enforced."""
        if self.hook_maker is None or not request.constraints.is_binding:
            return self._constraint_hooks.hook(request) if self.hook_maker is None else self.hook_maker(request)
        raise PolicyError(
            f"The policy's logit hook {self._hook['logit_hook']!r} already restricts what it writes. Ask without "
            "tool_choice and response_format, or leave the hook out."
        )

    def _ended(self, request: Request) -> Callable[[list[int]], bool] | None:
        """Return a check for texts and calls that end a message; None if none does."""
        constraints, tokenizer = request.constraints, self.renderer.tokenizer
        stop = (*self.renderer.call_format.stop, *constraints.stop)
        if not stop and not constraints.one_call:
            return None
        # in characters; a token has at least one byte, so this many tokens can hold the stop text
        longest = max(map(len, stop), default=1)

        def ended(tokens: list[int]) -> bool:
            tail = tokenizer.decode(tokens[-4 * longest :], skip_special_tokens=False)
            if any(text in tail for text in self.renderer.call_format.stop):
                return True
            if any(text in tail for text in constraints.stop):  # perhaps in a thought or a call
                return any(text in self.renderer.parse(tokens, request.tools).text for text in constraints.stop)
            if not constraints.one_call or tail[-1:] not in _CALL_ENDS:
                return False
            calls = self.renderer.parse(tokens, request.tools).calls
            return bool(calls) and calls[0].error is None

        return ended

    def _weights_now(self) -> tuple[int, int, int]:
        """Return a key that changes whenever the weights do: torch counts every in-place change of a parameter."""
        return self.version, id(self.model), sum(parameter._version for parameter in self.model.parameters())

    def _remember(self, episode: str, past: KVPrefix) -> None:
        self._pasts[episode] = past
        size = past.block.element_size() * past.block.numel()
        while len(self._pasts) * size > self.reuse_mib * 2**20:  # entries are of similar size; drop the oldest
            self._pasts.pop(next(iter(self._pasts)))


class _RowsOfRole:
    """The next rows of a stream that have the same role, as many as a batch has room for."""

    def __init__(
        self,
        policy: TransformersPolicy,
        jobs: JobStream[DecodeRequest],
        role: str,
        weights_now: Callable[[], Hashable],
    ) -> None:
        self._policy, self._jobs, self._role, self._weights_now = policy, jobs, role, weights_now

    def take(self, running: Sequence[DecodeRequest]) -> list[DecodeRequest]:
        taken: list[DecodeRequest] = []
        while (row := self._jobs.next) is not None and self._has_room(row, [*running, *taken]):
            taken.append(self._jobs.take())
            row.weights = self._weights_now(), row.role
            if row.past is not None and row.past.weights != row.weights:
                row.past = None
        return taken

    def _has_room(self, row: DecodeRequest, others: Sequence[DecodeRequest]) -> bool:
        policy = self._policy
        return row.role == self._role and len(others) < policy.max_batch and fits(row, others, policy.max_batch_tokens)

    def is_awaited(self, row: DecodeRequest) -> bool:
        return self._jobs.is_awaited(row)

    def finish(self, row: DecodeRequest) -> None:
        self._jobs.finish(row)


@contextmanager
def evaluating(model: Any, autocast: Any = None) -> Iterator[None]:
    """Put the model into eval mode: dropout would change the log-probabilities.

    Args:
        autocast: torch dtype to compute in.
    """
    training = model.training
    model.eval()
    try:
        with torch.autocast(model.device.type, dtype=autocast, enabled=autocast is not None):
            yield
    finally:
        model.train(training)


def _ends(model: Any, renderer: TemplateRenderer) -> tuple[int, ...]:
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    several = configured if isinstance(configured, list) else [configured]
    ends = {*renderer.end_ids, *several} - {None}
    return tuple(sorted(ends))


def _pad(renderer: TemplateRenderer, ends: Sequence[int]) -> int:
    pad = renderer.tokenizer.pad_token_id
    return ends[0] if pad is None else int(pad)
