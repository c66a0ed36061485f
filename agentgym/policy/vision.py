"""A local transformers vision model as a policy, which reads images in a conversation, token in and token out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList
from typing_extensions import override

from agentgym.errors import PolicyError
from agentgym.messages import ImagePart, images_of
from agentgym.policy.adapters import own_model
from agentgym.policy.contract import Policy, Reply, Request, Sampling, check_prefix
from agentgym.policy.decode_request import DecodeRequest, RowSource
from agentgym.policy.image_tokens import ImageTokens
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.sampling import check_finite, draw, uniforms
from agentgym.policy.stopping import stopped_between_layers
from agentgym.policy.transformers import TransformersPolicy, evaluating
from agentgym.text import counted


@dataclass(slots=True)
class VisionDecodeRequest(DecodeRequest):
    """A request with the images in its prefix, in order."""

    images: Sequence[ImagePart] = ()


class VisionPolicy(TransformersPolicy):
    """Samples from a vision language model in this process.

    Like TransformersPolicy, with two differences. No keys and values are kept between turns: each turn recomputes the
    conversation. Image tokens have probability 0, so that an agent cannot write an image that is not there;
    log-probabilities and scores refer to the distribution without image tokens.

    Args:
        model: an image-text-to-text model; images are matched by their order.
        renderer: made with `images=ImageTokens(processor)`.
        options: see TransformersPolicy, without reuse_mib.
    """

    name = "vision"

    def __init__(self, model: Any, renderer: TemplateRenderer, **options: Any) -> None:
        if not isinstance(renderer.images, ImageTokens):
            raise PolicyError(
                "The renderer of a vision policy must read images: create it as TemplateRenderer(..., "
                "images=ImageTokens(processor))."
            )
        if options.get("logit_hook") is not None:
            raise PolicyError(
                f"logit_hook = {options['logit_hook']!r} cannot be used with a model that reads images. Leave it out."
            )
        self.images: ImageTokens = renderer.images
        text = model.config.get_text_config()
        options.setdefault("context_tokens", getattr(text, "max_position_embeddings", None))
        super().__init__(model, renderer, reuse_mib=0, **options)
        self.repeats = False  # a record's requests have no images
        self._wants_kinds = "mm_token_type_ids" in inspect.signature(own_model(model).forward).parameters

    @override
    async def check(self, request: Request) -> None:
        """Check a request: nothing restricts what this policy writes. Raises: PolicyError for binding constraints."""
        await Policy.check(self, request)

    async def generate(self, request: Request) -> Reply:
        """Answer by continuing `prefix_ids`, or the rendered messages if there are none.

        Raises: ContextFull if not one more token fits; PolicyError if the model failed, or if the image tokens of the
            prefix do not match the images of the messages.
        """
        prefix = list(request.prefix_ids or self.renderer.prompt(request.messages, request.tools))
        images = images_of(request.messages)
        self._check(prefix, images)
        room = self._room(len(prefix))
        limit = request.sampling.max_tokens if room is None else min(room, request.sampling.max_tokens)
        options: dict[str, Any] = {"role": self._role_of(request), "ended": self._ended(request), "images": images}
        row = VisionDecodeRequest(prefix, request.sampling, limit, **options)
        await self._sampled(row, request.episode)
        return Reply(
            message=self.renderer.parse(row.tokens, request.tools),
            token_ids=row.tokens,
            logprobs=row.logprobs,
            finish_reason=row.finish_reason,
            policy_version=row.version,
            prompt_tokens=len(prefix),
            completion_tokens=len(row.tokens),
        )

    async def score(
        self, prefix_ids: Sequence[int], continuation_ids: Sequence[int], images: Sequence[ImagePart] = ()
    ) -> list[float]:
        """Return the natural-log probability of each continuation token after a prefix with these images."""
        check_prefix(prefix_ids)
        if not continuation_ids:
            return []
        self._check(prefix_ids, images)
        self._room(len(prefix_ids) + len(continuation_ids) - 1)
        job = (VisionDecodeRequest(list(prefix_ids), Sampling(), 1, images=images), list(continuation_ids))
        return await self._pairs.submit(job)  # type: ignore[arg-type]  # the batcher hands it to _score below

    async def entropies(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int], top: int) -> list[float]:
        """Raise PolicyError, because the prefix may have images, which are not passed."""
        raise PolicyError(
            f"{self.name} cannot measure entropies of conversations that contain images. Choose an estimator that "
            "needs none."
        )

    def _check(self, prefix: Sequence[int], images: Sequence[ImagePart]) -> None:
        expected = sum(self.images.count(self.images.encode(image)) for image in images)
        if (actual := self.images.count(prefix)) != expected:
            raise PolicyError(
                f"The prefix has {actual} image tokens, but {counted(len(images), 'image')} of the messages "
                f"should give {expected}. Write the whole conversation with one renderer, and pass its messages along."
            )

    def _decode(self, source: RowSource) -> None:
        rows = source.take([])
        stops = stopped_between_layers(self.model, lambda: any(map(source.is_awaited, rows)))
        with self._swap_lock.computing(), _plain_generation(self.model), stops, torch.no_grad():
            for row in rows:
                row.version = self.version
            chooser = _Chooser(rows, self.images.reserved_ids, self.eos_token_ids, self.pad_token_id)
            self.model.generate(
                **self._inputs(rows, [row.prefix for row in rows]),
                max_new_tokens=max(row.limit for row in rows),
                logits_processor=LogitsProcessorList([chooser]),
                stopping_criteria=StoppingCriteriaList([_AllDone(chooser)]),
                pad_token_id=self.pad_token_id,
                do_sample=False,
            )
        for row in rows:
            source.finish(row)

    def _score(self, pairs: Sequence[Any]) -> Iterator[list[float]]:
        rows = [row for row, _ in pairs]
        texts = [[*row.prefix, *rest] for row, rest in pairs]
        longest = max(len(rest) for _, rest in pairs)
        with self._swap_lock.computing(), evaluating(self.model, self.autocast), torch.no_grad():
            inputs = self._inputs(rows, texts)
            logits = self.model(**inputs, use_cache=False, logits_to_keep=longest + 1).logits[:, :-1].to(torch.float64)
        logits[..., list(self.images.reserved_ids)] = -torch.inf
        chosen = torch.log_softmax(logits, -1).gather(2, inputs["input_ids"][:, -longest:, None])[..., 0].tolist()
        yield from (line[longest - len(rest) :] for line, (_, rest) in zip(chosen, pairs, strict=True))

    def _inputs(self, rows: Sequence[Any], texts: Sequence[list[int]]) -> dict[str, Any]:
        """Return the left-padded tokens and the image features, as the model takes them."""
        width = max(map(len, texts))
        ids = np.full((len(texts), width), self.pad_token_id)
        mask = np.zeros((len(texts), width), np.int64)
        for index, text in enumerate(texts):
            ids[index, width - len(text) :] = text
            mask[index, width - len(text) :] = 1
        inputs: dict[str, Any] = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        images_of_rows = [image for row in rows for image in row.images]
        if images_of_rows and self._wants_kinds:
            inputs["mm_token_type_ids"] = (inputs["input_ids"] == self.images.image_token_id).long()
        for name, tensor in self.images.features(images_of_rows).items():
            inputs[name] = tensor.to(self.model.dtype) if tensor.is_floating_point() else tensor
        return {name: tensor.to(self.model.device) for name, tensor in inputs.items()}


class _Chooser(LogitsProcessor):
    """Draws each token with the row's own seed, and masks all other tokens so that `generate` must take that one."""

    def __init__(self, rows: Sequence[DecodeRequest], reserved: Sequence[int], ends: Sequence[int], pad: int) -> None:
        self.rows, self._reserved, self._ends, self._pad = rows, list(reserved), frozenset(ends), pad
        self.running = [True] * len(rows)
        self._step = 0
        longest = max(row.limit for row in rows)
        self._chance = np.zeros((len(rows), longest))
        for index, row in enumerate(rows):
            self._chance[index, : row.limit] = uniforms(row.sampling, row.limit)
        self._temperature = torch.tensor([row.sampling.temperature for row in rows], dtype=torch.float64)
        self._top_p = torch.tensor([row.sampling.top_p for row in rows], dtype=torch.float64)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        logits = scores.clone()
        logits[:, self._reserved] = -torch.inf
        device = logits.device
        chance = torch.from_numpy(self._chance[:, self._step]).to(device)
        tokens, logprobs = draw(logits, chance, self._temperature.to(device), self._top_p.to(device))
        self._step += 1
        chosen = [
            self._record(index, token, logprob)
            for index, (token, logprob) in enumerate(zip(tokens.tolist(), logprobs.tolist(), strict=True))
        ]
        forced = torch.full_like(scores, -torch.inf)
        return forced.scatter(1, torch.tensor(chosen, device=device)[:, None], 0.0)

    def _record(self, index: int, token: int, logprob: float) -> int:
        """Append a token to a row. Returns: the token, or padding once the row has ended."""
        if not self.running[index]:
            return self._pad
        row = self.rows[index]
        check_finite(logprob)
        row.tokens.append(token)
        row.logprobs.append(logprob)
        if token in self._ends or (row.ended is not None and row.ended(row.tokens)):
            row.finish_reason = "stop"
        self.running[index] = row.finish_reason != "stop" and len(row.tokens) < row.limit
        return token


class _AllDone(StoppingCriteria):
    def __init__(self, chooser: _Chooser) -> None:
        self._chooser = chooser

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
        done = not any(self._chooser.running)
        return torch.full((len(input_ids),), done, dtype=torch.bool, device=input_ids.device)


@contextmanager
def _plain_generation(model: Any) -> Iterator[None]:
    """Use, inside the block, a generation config without the checkpoint's defaults, such as a repetition penalty."""
    configured, model.generation_config = model.generation_config, GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = configured
