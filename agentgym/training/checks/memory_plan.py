"""Plans the memory that a recipe needs, by part, before anything is loaded.

Weights, gradients and the optimiser's state are computed from the model's configuration. For activations, the model
runs on torch's meta device, which computes only shapes, and the tensors that autograd saves for the backward pass are
added up. Attention is assumed to save no scores, as in torch's fused kernels. benchmarks/memory.py measures the plans'
error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from trl.kernels.chunked_logprob import TOKEN_CHUNK_SIZE

from agentgym.errors import PolicyError, RecipeError
from agentgym.policy.adapters import new_adapter, own_model
from agentgym.policy.checkpoint import load_configuration
from agentgym.policy.device import dtype_of
from agentgym.policy.merged_copy import MergedCopy, can_copy
from agentgym.policy.policy_section import PolicySection
from agentgym.policy.role_adapters import in_roles
from agentgym.policy.tiny import make_configuration
from agentgym.sandbox.pool.headroom import measure_headroom
from agentgym.storage.run_folder import checkpoint_in
from agentgym.training.checks.parts import used_parts
from agentgym.training.loss.frozen_head import frozen_head_bytes
from agentgym.training.loss.microbatches import RowSizes, parts_of
from agentgym.training.loss.shared_prefixes import why_unshared
from agentgym.training.recipe.episode_section import EpisodeSection
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.recipe.train_section import TrainSection

_GB = 1e9
_FUSED = "agentgym_shapes_of_fused_attention"
_PROBED_TOKENS = 256
_VOCABULARY_CHUNK = 32_768  # tokens of the vocabulary per tile of TRL's fused head
_COPIES_OF_LOGITS = {"cpu": 8.25, "cuda": 1}
"""How many tensors of the size of a tile of logits TRL's fused head holds at once: on a CPU without Triton, on a GPU
with it.
"""
_KEPT_BY_ALLOCATOR = 1.0
"""How much of the heap of a CPU glibc holds in gaps during a gradient step, as a share of the activations: measured at
0.95 with 4 layers and 1.1 with 30.
"""
_COPIES_OF_DRAWN = 3
"""Number of tensors of float32 logits that drawing a token holds at once."""
_MOST_ROWS = 1024
"""At most this many rows of a step are divided into parts for the plan: with more rows, no part would be larger."""
_PROCESS_BYTES = {"cpu": 680 * 2**20, "cuda": 600 * 2**20}
"""Python with torch and TRL in main memory; the CUDA context on a GPU."""
# a 4-bit weight, its share of an 8-bit scale, and its share of that scale's own scale
_NF4_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory of reinforcement in one process, in bytes.

    Attributes:
        parameters, trained: the numbers of all and of trained parameters, as text.
        always: memory in use all the time, by part.
        training, sampling: memory in use only while a gradient is computed, or while episodes are played, by part.
        gradients: the memory of all gradients.
        available: free memory of the device before anything is loaded.
    """

    parameters: str
    trained: str
    always: dict[str, float]
    training: dict[str, float]
    sampling: dict[str, float]
    gradients: float
    available: float

    @property
    def peak(self) -> float:
        """Return the peak: the permanent memory plus the larger of the two phases."""
        return sum(self.always.values()) + max(sum(self.training.values()), sum(self.sampling.values()))

    @property
    def fixed(self) -> float:
        """Return the memory that no batch setting can reduce."""
        return sum(self.always.values()) + self.gradients


def plan_memory(
    recipe: Recipe,
    *,
    device: str | None = None,
    available: float | None = None,
    prompt_tokens: int = 512,
    processes: int = 1,
) -> MemoryPlan:
    """Plan the memory of a recipe for a model on this machine.

    Args:
        device: torch's name of the device; by default the recipe's. The device need not be present.
        available: the device's free bytes; by default, the current free memory.
        prompt_tokens: tokens in an episode's prompt, including tools.
        processes: number of processes that train together. The plan is per process; with machine.sharding, each process
            has a share of the weights.
    Raises: PolicyError if policy.path holds no model.
    """
    section, train = recipe.policy, recipe.train
    device = device or recipe.machine.torch_device
    kind = "cpu" if device == "cpu" else "cuda"
    model = _shapes_of(section, device)
    precision = getattr(torch, train.autocast(device) or "float32")
    named = list(model.named_parameters())
    parameters = [parameter for _, parameter in named]
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    trained_bytes = float(sum(parameter.nbytes for parameter in trained))
    weight_bytes = float(sum(parameter.nbytes for parameter in parameters))
    shares, gathered = processes if recipe.machine.sharding else 1, _gathered_bytes(own_model(model))
    always = {
        "process": float(_PROCESS_BYTES[kind]),
        "weights": sum(_bytes_of(name, parameter, section.quantization) for name, parameter in named) / shares,
        "optimiser": _optimiser_bytes(train.trl.get("optim", "")) * sum(tensor.numel() for tensor in trained) / shares,
    }
    if train.keeps_reference:
        always["reference"] = (trained_bytes if section.lora else weight_bytes) / shares
    autocast = precision if train.autocast(device) else None
    is_copied = recipe.vllm is None and not section.quantization and (section.lora or kind == "cpu")
    if is_copied and can_copy(model, autocast):
        merged = MergedCopy(model, autocast).model
        shared = set(map(id, parameters))
        always["copy that samples"] = float(sum(each.nbytes for each in merged.parameters() if id(each) not in shared))
    if shares > 1 and kind == "cpu":
        always["whole copy, of the first process"] = weight_bytes
    for part in used_parts(train):
        for name, path in part.further_models().items():
            further = _shapes_of(PolicySection(path=path), device)
            always[name] = float(sum(parameter.nbytes for parameter in further.parameters()))
    vocabulary = model.config.get_text_config().vocab_size
    attention = recipe.policy.load_options().attention or "sdpa"
    is_shared = not recipe.machine.sharding and not why_unshared(model, attention)
    largest = _largest_part(train, recipe.episode, prompt_tokens, processes, is_shared=is_shared)
    logits = _COPIES_OF_LOGITS[kind] * min(largest.scored, TOKEN_CHUNK_SIZE) * min(vocabulary, _VOCABULARY_CHUNK) * 4
    output = own_model(model).get_output_embeddings().weight
    if kind == "cpu" and not output.requires_grad:
        logits = frozen_head_bytes(largest.scored, vocabulary)
    cast = sum(parameter.numel() for parameter in parameters if parameter.dtype.itemsize > precision.itemsize)
    with in_roles(model, [""]):
        activations = _activations(own_model(model), precision, recipe.machine.gradient_checkpointing)
    activation_bytes = largest.tokens * activations
    gradients = trained_bytes / shares
    training = {
        # without further parts the gradients begin to exist as the activations are freed
        "gradients": max(0.0, gradients - activation_bytes) if largest.is_only else gradients,
        "activations": activation_bytes,
        "logits": float(logits),
    }
    if kind == "cpu":
        training["gaps of the allocator"] = _KEPT_BY_ALLOCATOR * activation_bytes
    if new_gradient := _output_gradient_bytes(model):
        training["gradient of the output layer"] = new_gradient
    if cast:
        training["weights in " + str(precision).removeprefix("torch.")] = float(precision.itemsize * cast)
    if shares > 1:
        training["weights gathered"] = gathered
        if train.keeps_reference and not section.lora:
            training["reference gathered"] = weight_bytes  # TRL shards the reference as one unit
    rows = min(recipe.machine.max_batch, train.tasks_per_step * train.group_size, recipe.episode.concurrency)
    longest = prompt_tokens + recipe.episode.max_episode_tokens
    held = max(longest, min(rows * longest, recipe.machine.max_batch_tokens))
    cache = float(held * _cache_bytes(model, precision))
    sampling = {
        "keys and values": cache,
        "of earlier turns": min(cache, 2.0**30),  # the limit of TransformersPolicy.reuse_mib
        "logits": float(_COPIES_OF_DRAWN * rows * vocabulary * 4),
    }
    if recipe.vllm is not None:  # the server samples, and plans its own memory
        sampling = {}
    if available is None:
        available = available_bytes(device)
    return MemoryPlan(_millions(parameters), _millions(trained), always, training, sampling, gradients, available)


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of a step that are computed together.

    Attributes:
        tokens: how many are computed.
        scored: for how many tokens, the agent's own, logits are computed.
        is_only: whether the step has no other part.
    """

    tokens: int
    scored: int
    is_only: bool = False


def _largest_part(
    train: TrainSection, episode: EpisodeSection, prompt_tokens: int, processes: int, *, is_shared: bool
) -> _Part:
    """Return the largest part of a step in which each episode is as long as the recipe allows.

    Args:
        is_shared: whether the prompt of a group is computed once.
    """
    own = min(episode.max_episode_tokens, episode.max_turns * episode.max_turn_tokens)
    numbers = np.arange(min(_MOST_ROWS, max(1, train.tasks_per_step * train.group_size // processes)))
    lengths = np.tile([prompt_tokens, episode.max_episode_tokens], (len(numbers), 1))
    sizes = RowSizes(lengths, numbers // train.group_size) if is_shared else RowSizes.unshared(lengths)
    divided = parts_of(sizes, train.microbatch_tokens)
    parts = [_Part(int(sizes.take(rows).tokens()[-1]), len(rows) * own, len(divided) == 1) for rows in divided]
    return max(parts, key=lambda part: part.tokens)


def _gathered_bytes(model: Any) -> float:
    """Return the bytes of weights that FSDP gathers: embeddings and output for the whole step, and two
    layers.
    """
    layers = getattr(model.get_decoder(), "layers", ())
    of_layers = [sum(parameter.nbytes for parameter in layer.parameters()) for layer in layers]
    ends = sum(parameter.nbytes for parameter in model.parameters()) - sum(of_layers)
    return float(ends + 2 * max(of_layers, default=0))


def _output_gradient_bytes(model: Any) -> float:
    """Return the bytes of the fused head's float32 gradient, which exists in addition to the accumulated gradient."""
    weight = own_model(model).get_output_embeddings().weight
    if not weight.requires_grad:
        return 0.0
    beside = weight.itemsize if weight.dtype != torch.float32 else 0
    return float(weight.numel() * (4 + beside))


def memory_note(recipe: Recipe, processes: int = 1) -> tuple[str, bool] | None:
    """Return a sentence on the memory that a run needs, and whether it fits; None if there is no model to plan for.

    Of a hub model, the configuration alone is read.

    Args:
        processes: number of processes that train together.
    Raises: RecipeError if even the fixed memory, such as weights and gradients, does not fit.
    """
    source = recipe.policy.path
    if not recipe.train.steps or source is None:
        return None
    try:
        plan = plan_memory(recipe, processes=processes)
    except PolicyError:  # loading the model will say why
        return None
    if plan.fixed > plan.available:
        fixed = {**plan.always, "gradients": plan.gradients}
        parts = ", ".join(f"{name} {size / _GB:.1f}" for name, size in fixed.items())
        raise RecipeError(
            f"policy.path = {source!r} does not fit into memory: it takes {plan.fixed / _GB:.1f} GB ({parts}), and "
            f"only {plan.available / _GB:.1f} GB are free. Train an adapter ([policy.lora], policy.quantization), or "
            "choose a smaller model."
        )
    summary = f"Memory: about {plan.peak / _GB:.1f} GB at the peak, and {plan.available / _GB:.1f} GB are free."
    if plan.peak <= plan.available:
        return summary, True
    remedy = "lower train.microbatch_tokens or machine.max_batch_tokens; `agentgym model plan` shows the parts."
    return f"{summary} If it runs out, {remedy}", False


def count_parameters(section: PolicySection) -> int:
    """Return how many parameters the model of [policy] has, without its adapter. Raises: PolicyError."""
    model = _shapes_of(section.model_copy(update={"lora": None}), "cpu")
    return sum(parameter.numel() for parameter in model.parameters())


def available_bytes(device: str) -> float:
    """Return the free bytes of a GPU or, for "cpu", of the machine or this process's control group."""
    if device == "cpu":
        return measure_headroom().memory_mib * 2**20
    free, _ = torch.cuda.mem_get_info(device)
    return float(free)


def _shapes_of(section: PolicySection, device: str) -> Any:
    """Return the model of [policy] on the meta device, in training mode, with its adapter if there is one.

    Args:
        device: decides in which dtype the weights are loaded.
    """
    options = section.load_options()
    source = checkpoint_in(Path(str(section.path))) or str(section.path)
    if section.tiny is not None:
        shape = section.tiny.model_dump()
        configuration = make_configuration(shape.pop("vocabulary"), **shape)
    else:
        configuration = load_configuration(source, options)
    model_class = AutoModelForImageTextToText if hasattr(configuration, "vision_config") else AutoModelForCausalLM
    dtype = dtype_of(options.dtype, device)
    if dtype == "auto":
        dtype = configuration.dtype or torch.float32
    with _fused_attention(), torch.device("meta"):
        model = model_class.from_config(configuration, dtype=dtype, attn_implementation=_FUSED)
        if section.lora is not None:
            model = new_adapter(model, section.lora, base=str(source), seed=0)
    return model.train()


def _bytes_of(name: str, parameter: torch.nn.Parameter, quantization: str | None) -> float:
    is_linear = parameter.ndim == 2 and "embed" not in name and "lora_" not in name and "lm_head" not in name
    return parameter.numel() * _NF4_BYTES if quantization and is_linear else float(parameter.nbytes)


def _activations(model: Any, precision: torch.dtype, checkpointing: bool) -> float:
    """Return the bytes per token that the layers' backward pass needs, including its scratch memory."""
    backbone = model.base_model.to(precision)
    ids = torch.zeros(1, _PROBED_TOKENS, dtype=torch.long, device="meta")
    full = _saved_bytes(backbone, ids)
    layers = backbone.config.get_text_config().num_hidden_layers
    if checkpointing:
        # Each layer's input is stored, and one layer at a time is recomputed.
        inputs = layers * _PROBED_TOKENS * backbone.config.get_text_config().hidden_size * precision.itemsize
        full = inputs + full / layers
    return float(full + full / layers) / _PROBED_TOKENS


def _saved_bytes(backbone: Any, ids: torch.Tensor) -> float:
    """Return the bytes that autograd saves in a forward pass, counting each storage once and no parameters."""
    owned = {parameter.untyped_storage()._cdata for parameter in backbone.parameters()}
    saved: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if (key := tensor.untyped_storage()._cdata) not in owned:
            saved[key] = tensor  # keep a reference, so that no other storage reuses the address
        return tensor

    with _fused_attention(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        backbone(input_ids=ids, use_cache=False)
    return float(sum(tensor.untyped_storage().nbytes() for tensor in saved.values()))


class _FusedAttention(torch.autograd.Function):
    """Save what fused attention saves for its backward pass: queries, keys, values, output, a sum per query."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        output = torch.empty_like(query[..., : value.shape[-1]])
        ctx.save_for_backward(query, key, value, output, torch.empty(query.shape[:-1], device=query.device))
        return output


@contextmanager
def _fused_attention() -> Iterator[None]:
    """Register, inside the block, an attention with the shapes and memory of a fused kernel."""

    def attend(_: Any, query: Any, key: Any, value: Any, *__: Any, **___: Any) -> tuple[torch.Tensor, None]:
        key, value = (states.repeat_interleave(query.shape[1] // states.shape[1], 1) for states in (key, value))
        return _FusedAttention.apply(query, key, value).transpose(1, 2).contiguous(), None

    ALL_ATTENTION_FUNCTIONS[_FUSED] = attend
    try:
        yield
    finally:
        del ALL_ATTENTION_FUNCTIONS[_FUSED]


def _cache_bytes(model: Any, precision: torch.dtype) -> int:
    """Return the bytes of one token's keys and values."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * head_dim * precision.itemsize)


def _optimiser_bytes(name: str) -> float:
    """Return the bytes of optimiser state per parameter. `name`: transformers' name of the optimiser."""
    if name in ("sgd", "adafactor"):
        return 0.0  # adafactor's row and column sums are negligible
    return 2.0 if "8bit" in name else 8.0  # the two moments of Adam


def _millions(parameters: Any) -> str:
    count = sum(parameter.numel() for parameter in parameters)
    return f"{count / 1e6:.1f} M" if count < 1e9 else f"{count / 1e9:.2f} B"
