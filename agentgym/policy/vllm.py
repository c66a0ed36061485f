"""A vLLM server as a policy: tokens in, tokens out, log-probabilities as sampled, weights replaced at run time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from typing_extensions import override

from agentgym.errors import ContextFull, PolicyError
from agentgym.messages import images_of
from agentgym.policy.checkpoint import load_tokenizer
from agentgym.policy.contract import Policy, Reply, Request, check_prefix
from agentgym.policy.formats.choice import call_format_for
from agentgym.policy.http import DEFAULT_RETRY_POLICY, JsonEndpoint, RetryPolicy
from agentgym.policy.logit_hooks import HermesMasks, HookMaker, LogitHook
from agentgym.policy.logit_hooks.contract import make_hook
from agentgym.policy.logit_hooks.served_masks import (
    check_probe,
    masks_of,
    probe_options,
    request_options,
    require_vllm_form,
)
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.served_weights import ServedWeights, ServerRequests
from agentgym.policy.vllm_images import completion_choice, generate_request
from agentgym.policy.vllm_server import VllmServer


class VllmPolicy(ServedWeights, Policy):
    """Continues token ids through `/v1/completions`.

    The server must run with `--logprobs-mode processed_logprobs`, otherwise log-probabilities refer to temperature 1.
    `update_weights` needs VLLM_SERVER_DEV_MODE=1, which lets anyone who reaches the port control the server.
    `update_adapter` needs `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1.

    If the conversation has images, `/inference/v1/generate` is used instead, which takes images in addition to token
    ids (supported by vLLM 0.32). The returned prompt ids are compared with the ids sent. Scores are for text only.

    Args:
        base_url: without /v1, for example http://127.0.0.1:8000, or unix:/path/of.sock.
        model: the server's name for the model.
        tokenizer: path or hub name of the tokenizer; or give `renderer` instead.
        call_format: registered name of the model's call format; "auto" is the format of its chat template.
        context_tokens: by default the server's answer at the first request.
        logit_hook, logit_hook_options: registered name and options of the hook that restricts sampling. The server must
            run with agentgym's logits processor (see docs/models.md). Scores are not restricted.
        retry_policy: how long to try, see RetryPolicy.
        connections: the maximum number of open requests; on a cluster, of each node.
        server: the process behind `base_url`, if this process started it. Once the server has ended, requests fail at
            once, with the path and the end of its log.
        check_base: awaited with this policy before its first adapter is loaded; its errors pass through
            `update_adapter`.
    """

    name = "vllm"

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        tokenizer: str | None = None,
        renderer: TemplateRenderer | None = None,
        call_format: str = "auto",
        context_tokens: int | None = None,
        logit_hook: str | None = None,
        logit_hook_options: dict[str, Any] | None = None,
        retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY,
        connections: int = 256,
        server: VllmServer | None = None,
        check_base: Callable[[VllmPolicy], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.name, self.context_tokens = model, f"vllm:{model}", context_tokens
        self.renderer: TemplateRenderer = renderer or _renderer(tokenizer or model, call_format)
        self.hook_maker = _hook_maker(self.renderer, logit_hook, logit_hook_options)
        self._hook: dict[str, Any] = {"logit_hook": logit_hook, "logit_hook_options": logit_hook_options or {}}
        self._applies_masks = False  # False until checked
        self._call_masks: HermesMasks | None = None
        self._endpoint = JsonEndpoint(
            base_url,
            retry_policy=retry_policy,
            connections=connections,
            check_server=server.raise_if_ended if server is not None else None,
        )
        self._check_base = check_base  # None once the check has passed
        self._requests = ServerRequests()  # held during an update
        self._adapter: str | None = None  # the adapter that answers instead of the model
        self._former_adapters: list[str] = []  # adapters that were replaced, but are still on the server

    @override
    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "call_format": self.renderer.call_format.name, **self._hook}

    @override
    def copier(self) -> Callable[[], Policy] | None:
        """Return what makes a copy on another node; None for a socket, and a subclass that answers in its own way."""
        if type(self).generate is not VllmPolicy.generate:
            return None
        return self._endpoint.on_hosts_that_reach_it(
            partial(
                VllmPolicy,
                self._endpoint.base_url,
                self.model,
                renderer=self.renderer,
                context_tokens=self.context_tokens,
                retry_policy=self._endpoint.retry_policy,
                connections=self._endpoint.connections,
                **self._hook,
            )
        )

    @override
    async def check_reach(self) -> None:
        if self.model not in (listed := await self._listed()):
            raise PolicyError(f"the server there does not serve the model {self.model!r}, but {sorted(listed)}")

    @property
    def served_weights(self) -> Sequence[ServedWeights]:  # type: ignore[override]
        return (self,)

    @property
    def state(self) -> tuple[bool, str | None, int]:
        """Whether requests are held, the adapter that answers instead of the model, and the version of the weights."""
        return self._requests.are_held, self._adapter, self.version

    @override
    def take(self, state: Any) -> None:
        is_held, self._adapter, self.version = state
        self._requests.hold() if is_held else self._requests.release()

    @override
    async def settled(self) -> frozenset[str]:
        return await self._requests.settled()

    async def generate(self, request: Request) -> Reply:
        """Answer by continuing `prefix_ids`, or the rendered messages if there are none.

        Raises: ContextFull if not one more token fits; PolicyError if the server failed, returned no token ids, or
            sampled a token that the logit hook forbids.
        """
        prefix = list(request.prefix_ids or self.renderer.prompt(request.messages, request.tools))
        room = await self._room(len(prefix))
        sampling, stop = request.sampling, self.renderer.call_format.stop
        body: dict[str, Any] = {
            "max_tokens": min(room, sampling.max_tokens),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "logprobs": 0,
            "stop_token_ids": sorted(self.renderer.end_ids),
            "stop": [*stop, *(() if self.renderer.begun_thought else request.constraints.stop)],
            "include_stop_str_in_output": True,
            "skip_special_tokens": False,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed % 2**63
        hook = self._hook_of(request)
        images = images_of(request.messages)
        if hook is not None:
            if images:
                raise PolicyError(
                    "A vLLM server cannot apply a logit hook to a conversation with images. Leave logit_hook out."
                )
            await self._check_masks(hook)
            body |= request_options(hook)
        if images:
            choice, version = await self._continue(*generate_request(self.renderer, prefix, images, body))
            choice = completion_choice(choice, prefix)
        else:
            choice, version = await self._complete(prefix, body | {"return_token_ids": True})
        ids, logprobs = _sampled(choice)
        masks = masks_of(hook, ids) if hook is not None else ()
        return Reply(
            message=self.renderer.parse(ids, request.tools),
            token_ids=ids,
            logprobs=logprobs,
            finish_reason="length" if choice.get("finish_reason") == "length" else "stop",
            policy_version=version,
            prompt_tokens=len(prefix),
            completion_tokens=len(ids),
            masks=masks,
        )

    @override
    async def check(self, request: Request) -> None:
        """Raise PolicyError for binding constraints that the server cannot enforce: all but tool_choice."""
        if (hook := self._hook_of(request)) is not None and request.constraints.is_binding:
            await self._check_masks(hook)

    def _hook_of(self, request: Request) -> LogitHook | None:
        """Return a request's hook; None without one. Raises: PolicyError for constraints that cannot be enforced."""
        constraints = request.constraints
        if not constraints.is_binding:
            return self.hook_maker(request) if self.hook_maker is not None else None
        if self.hook_maker is not None or not constraints.tool_choice:
            raise PolicyError(
                "A vLLM server cannot be made to write JSON here, nor to call a tool beside a logit hook of its own. "
                "Ask without response_format and tool_choice, or sample with transformers."
            )
        if self._call_masks is None:
            self._call_masks = HermesMasks(self.renderer, sorted(self.renderer.end_ids), hook="tool_choice")
        return self._call_masks.hook(constraints.tool_choice, may_answer=False)

    async def score(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int]) -> list[float]:
        """Return the natural-log probability of each continuation token after the prefix, at temperature 1."""
        tables = await self._tables(prefix_ids, continuation_ids, 0)
        try:
            return [table[token] for table, token in zip(tables, continuation_ids, strict=True)]
        except KeyError as error:
            raise PolicyError(
                f"The server's answer has no prompt_logprobs for the tokens that were sent: {str(tables)[:120]}."
            ) from error

    async def entropies(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int], top: int) -> list[float]:
        """Return the entropy in nats before each continuation token, over the `top` likeliest tokens."""
        tables = await self._tables(prefix_ids, continuation_ids, top)
        likeliest = (sorted(table.values())[-top:] for table in tables)
        return [-math.fsum(math.exp(value) * value for value in values) for values in likeliest]

    async def _tables(
        self, prefix_ids: Sequence[int], continuation_ids: Sequence[int], top: int
    ) -> list[dict[int, float]]:
        """Return log-probabilities at each continuation token: of that token and of the `top` likeliest ones."""
        check_prefix(prefix_ids)
        if not continuation_ids:
            return []
        ids = [*prefix_ids, *continuation_ids]
        await self._room(len(ids))
        choice, _ = await self._complete(ids, {"max_tokens": 1, "temperature": 1.0, "prompt_logprobs": top})
        rows: Any = choice.get("prompt_logprobs")
        try:
            return [
                {int(token): float(entry["logprob"]) for token, entry in rows[at].items()}
                for at in range(len(prefix_ids), len(ids))
            ]
        except (TypeError, KeyError, IndexError, ValueError, AttributeError) as error:
            raise PolicyError(
                f"The server's answer has no prompt_logprobs for the tokens that were sent: {str(rows)[:120]}."
            ) from error

    async def update_weights(self, path: str, *, version: int | None = None) -> None:
        """Make the server load a checkpoint from a folder that it can read, and answer with the new weights.

        Running requests are answered by the old weights; requests that arrive meanwhile wait for the new weights. So
        every reply carries the version that sampled it. vLLM's CPU build (0.32.0) keeps the old output layer if that
        layer is tied to the embeddings: start the server from folders written by `save_untied`, and update with such.

        Raises: PolicyError; the server then resumes with its current weights. One update at a time.
        """
        if self._requests.are_held:
            raise PolicyError("Another update of the weights is still running. Await it before the next one.")
        self._requests.hold()
        try:
            await asyncio.gather(self.settled(), self.share())
            await self._endpoint.post("/pause?mode=wait")  # the default would abort other clients' requests
            try:
                call = {"method": "reload_weights", "kwargs": {"weights_path": path}}
                await self._endpoint.post("/collective_rpc", call)
                await self._endpoint.post("/reset_prefix_cache")  # the cache belongs to the old weights
                self._answer_with(None, version)
            finally:
                await self._endpoint.post("/resume")
        finally:
            self._requests.release()
            self.share()

    async def update_adapter(self, path: str, *, version: int | None = None) -> None:
        """Make the server load a LoRA adapter from a folder that it can read, and answer with the adapter.

        No request waits: running requests finish with the weights they began with, and every reply carries its version.
        A replaced adapter is removed from the server, in this or a later update, once no request uses it.

        Raises: PolicyError, or any error of `check_base`; the server then keeps answering with its current weights.
        """
        if self._check_base is not None:
            await self._check_base(self)
            self._check_base = None
        name = f"{self.model}-{uuid4().hex}"  # other clients may load adapters too
        adapter = {"lora_name": name, "lora_path": path, "load_inplace": True}  # else a retry would fail
        await self._endpoint.post("/v1/load_lora_adapter", adapter, plain_text=True)
        self._answer_with(name, version)
        in_use = (await self.settled()).union(*await self.share())
        for former in [former for former in self._former_adapters if former not in in_use]:
            await self._endpoint.post("/v1/unload_lora_adapter", {"lora_name": former}, plain_text=True)
            self._former_adapters.remove(former)

    def _answer_with(self, adapter: str | None, version: int | None) -> None:
        if self._adapter is not None:
            self._former_adapters.append(self._adapter)
        self._adapter = adapter
        self.version = self.version + 1 if version is None else version

    async def check_health(self) -> None:
        """Ask the server whether it can answer. Raises: PolicyError."""
        await self._endpoint.get("/health")

    async def close(self) -> None:
        """Close all connections; the server keeps running."""
        await self._endpoint.close()

    async def _check_masks(self, hook: LogitHook) -> None:
        """Check once that the server applies masks, and to the same tokens. Raises: PolicyError."""
        if self._applies_masks:
            return
        choice, _ = await self._complete([0], probe_options(hook) | {"return_token_ids": True})
        [token], [logprob] = _sampled(choice)
        if not check_probe(token, logprob):
            raise PolicyError(
                "The server's tokenizer differs from the one here, so a logit hook's masks would apply to the wrong "
                "tokens. Load both from the same folder."
            )
        self._applies_masks = True

    async def _complete(self, ids: list[int], options: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """Return the server's only choice, and the version of the weights that sampled it."""
        return await self._continue("/v1/completions", {"prompt": ids, **options})

    async def _continue(self, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], int]:
        await self._requests.admitted()
        version, model = self.version, self._adapter or self.model
        with self._requests.request(model):
            answer = await self._endpoint.post(path, {"model": model, **body})
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise PolicyError(f"The answer of {path} has no choices: {str(answer)[:200]!r}.")
        if choices[0].get("finish_reason") == "abort":
            raise PolicyError("The server aborted the request, as it does when it is paused with mode=abort.")
        return choices[0] | {"prompt_token_ids": answer.get("prompt_token_ids")}, version

    async def _room(self, used: int) -> int:
        """Return how many more tokens fit. Raises: ContextFull if none fits."""
        if self.context_tokens is None:
            self.context_tokens = await self._ask_context()
        if used >= self.context_tokens:
            raise ContextFull(
                f"The conversation has {used} tokens, which fill the server's context of {self.context_tokens}. Allow "
                "the episode fewer turns or shorter tool results (max_output_chars), or start the server with a "
                "larger --max-model-len."
            )
        return self.context_tokens - used

    async def _listed(self) -> dict[str, Any]:
        """Return the context length of each model on the server."""
        answer = await self._endpoint.get("/v1/models")
        rows = answer.get("data") if isinstance(answer, dict) else None
        return {str(row.get("id")): row.get("max_model_len") for row in rows or [] if isinstance(row, dict)}

    async def _ask_context(self) -> int:
        context_lengths = await self._listed()
        length = context_lengths.get(self.model)
        if not isinstance(length, int):
            raise PolicyError(
                f"The server gives no max_model_len for the model {self.model!r}; it serves "
                f"{sorted(context_lengths)}. Correct the model's name, or give context_tokens."
            )
        return length


def _sampled(choice: dict[str, Any]) -> tuple[list[int], list[float]]:
    """Return token ids and log-probabilities. Raises: PolicyError if missing, of unequal length or not finite."""
    ids: Any = choice.get("token_ids")
    logprobs: Any = (choice.get("logprobs") or {}).get("token_logprobs")
    try:
        sampled = [int(token) for token in ids], [float(value) for value in logprobs]
    except (TypeError, ValueError):
        sampled = [], [math.nan]
    if not sampled[0] or len(sampled[0]) != len(sampled[1]) or not all(map(math.isfinite, sampled[1])):
        raise PolicyError(
            "The server's answer must have token_ids with one finite log-probability each, but it has "
            f"token_ids={str(ids)[:80]} and token_logprobs={str(logprobs)[:80]}. Use vLLM 0.10.2 or newer, which "
            "supports return_token_ids."
        )
    return sampled


def _hook_maker(renderer: TemplateRenderer, name: str | None, options: dict[str, Any] | None) -> HookMaker | None:
    if name is None:
        if options:
            raise PolicyError(
                f"logit_hook_options = {options} is given without a logit hook. Name one in logit_hook, or leave the "
                "options out."
            )
        return None
    require_vllm_form(name)
    return make_hook(name, renderer, sorted(renderer.end_ids), options)


def _renderer(path: str, call_format: str) -> TemplateRenderer:
    try:
        tokenizer = load_tokenizer(path)
    except PolicyError as error:
        raise PolicyError(f"{error} Give tokenizer=, the folder that the server loads its tokenizer from.") from error
    return TemplateRenderer(tokenizer, call_format_for(tokenizer, call_format))
