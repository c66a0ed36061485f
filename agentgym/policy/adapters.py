"""LoRA adapters by peft: made, saved, and loaded only onto the model that they belong to.

peft itself silently loads an adapter into a model with other layers, and skips targets that the model does not have.
Source: Hu et al., "LoRA", arXiv 2106.09685.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from agentgym.errors import PolicyError
from agentgym.policy.load_options import ALL_LINEAR, LoraOptions
from agentgym.policy.role_adapters import RoleAdapters, read_roles, role_adapters_of

CONFIGURATION, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ADAPTER = "default"
"""peft's name for the trained adapter. TRL also keeps a frozen copy, for the KL term."""


def adapter_folder(source: str | Path, revision: str | None = None) -> Path | None:
    """Return the source's folder if it holds an adapter and no model's config.json; None for anything else."""
    folder = Path(source)
    if folder.is_dir():
        return folder if (folder / CONFIGURATION).is_file() and not (folder / "config.json").is_file() else None
    from transformers.utils.hub import cached_file

    quietly = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    try:
        file = cached_file(str(source), CONFIGURATION, revision=revision, **quietly)
    except (OSError, ValueError):  # the model does not exist; loading it reports that
        return None
    return Path(file).parent if file else None


def base_of(folder: Path) -> str:
    """Return the base model that an adapter names. Raises: PolicyError if it names none."""
    try:
        base = json.loads((folder / CONFIGURATION).read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, KeyError) as error:
        raise PolicyError(
            f"{folder / CONFIGURATION} is not a readable adapter configuration. Give a folder written by PEFT's "
            "save_pretrained."
        ) from error
    if not base:
        raise PolicyError(f"The adapter in {folder} does not name its base model. Give the base model as `base`.")
    return str(base)


def new_adapter(model: Any, options: LoraOptions, *, base: str, seed: int) -> Any:
    """Return the model with a new adapter that has no effect yet. Only the adapter is trainable.

    Args:
        base: name or folder of the model, stored in the saved adapter.
        seed: the seed of the adapter's randomly initialised matrix.
    Raises: PolicyError if the model has no layer with one of the target names.
    """
    from peft import LoraConfig

    count = max(len(options.roles), 1)
    configuration = LoraConfig(
        r=options.rank * count,
        lora_alpha=options.alpha * count,
        lora_dropout=options.dropout,
        target_modules=target_layers(model, options.targets),
        base_model_name_or_path=base,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        adapted = _adapted(_prepared(model), configuration)
    if options.roles:
        RoleAdapters(options.roles).attach(adapted)
    return adapted


def open_adapter(model: Any, folder: Path, *, trainable: bool = False) -> Any:
    """Return the model with a saved adapter.

    Raises: PolicyError if the adapter is not a LoRA adapter, cannot be read, or belongs to another model.
    """
    from peft import PeftConfig, get_peft_model_state_dict

    shapes = _shapes(folder)
    try:
        configuration = PeftConfig.from_pretrained(str(folder))
        configuration.inference_mode = not trainable
        adapted = _adapted(_prepared(model) if trainable else model, configuration)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise PolicyError(f"The adapter in {folder} does not fit the model: {error}") from error
    expected = {
        name: tuple(tensor.shape)
        for name, tensor in get_peft_model_state_dict(adapted, save_embedding_layers=False).items()
    }
    if shapes != expected:
        raise PolicyError(
            f"The adapter in {folder} was trained for another model: {_difference(shapes, expected)}. Load it on its "
            "own base model."
        )
    if next(adapted.parameters()).device.type != "meta":
        load_into(adapted, folder)
    if roles := read_roles(folder):
        RoleAdapters(roles).attach(adapted)
    return adapted


def load_into(adapted: Any, folder: Path) -> None:
    """Load the weights of a matching saved adapter into a model's adapter."""
    from peft import set_peft_model_state_dict

    set_peft_model_state_dict(adapted, load_file(folder / WEIGHTS))


def has_adapter(model: Any) -> bool:
    """Return whether the model has an adapter that is not merged into its weights."""
    return hasattr(model, "peft_config") and hasattr(model, "merge_and_unload")


def can_merge(model: Any) -> bool:
    """Return whether the model has a mergeable adapter: one for all roles, on weights that are not quantised."""
    return has_adapter(model) and not getattr(model, "is_quantized", False) and role_adapters_of(model) is None


def own_model(model: Any) -> Any:
    """Return the transformers model beneath an adapter; a model without an adapter is returned unchanged."""
    return model.get_base_model() if has_adapter(model) else model


def merged(model: Any) -> Any:
    """Merge the adapter into the model's weights, in place, and return the model; no change without an adapter."""
    return model.merge_and_unload(safe_merge=True, adapter_names=[ADAPTER]) if has_adapter(model) else model


def _adapted(model: Any, configuration: Any) -> Any:
    from peft import get_peft_model

    from agentgym.policy.lora_forward import use_thin_forward

    base, configuration.base_model_name_or_path = configuration.base_model_name_or_path, None
    with warnings.catch_warnings():  # peft reads a name that transformers has deprecated
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        adapted = get_peft_model(model, configuration)
    use_thin_forward(adapted)
    # set only now: get_peft_model replaces it by the name that the loaded model has
    adapted.peft_config[ADAPTER].base_model_name_or_path = base
    return adapted


def _prepared(model: Any) -> Any:
    """Return the model ready for training: a quantised model needs its norms in float32."""
    if not getattr(model, "is_quantized", False):
        return model
    from peft import prepare_model_for_kbit_training

    return prepare_model_for_kbit_training(  # type: ignore[no-untyped-call]
        model, use_gradient_checkpointing=False
    )


def target_layers(model: Any, targets: str | list[str]) -> list[str]:
    """Return the last part of the layer names (such as q_proj) for "all-linear"; other targets as they are.

    peft would save the full name of each layer instead. With full names, an adapter would load into a model with more
    layers and adapt only some of them. With short names, `open_adapter` refuses that model.

    Raises: PolicyError if the model has no linear layer of one of these names.
    """
    output = model.get_output_embeddings()
    layers = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    inner = [name.rpartition(".")[2] for name in layers if model.get_submodule(name) is not output]
    if targets == ALL_LINEAR:
        return sorted(set(inner))
    names = [targets] if isinstance(targets, str) else targets
    for target in names:
        if not any(name == target or name.endswith(f".{target}") for name in layers):
            known = ", ".join(dict.fromkeys(inner))
            raise PolicyError(
                f"LoRA target {target!r}: the model has no linear layer of this name. Choose from: {known}."
            )
    return names


def _shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a saved adapter, without reading the tensors."""
    try:
        with safe_open(folder / WEIGHTS, "pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except Exception as error:  # safetensors' own errors derive only from Exception
        raise PolicyError(f"The adapter weights in {folder / WEIGHTS} cannot be read: {error}") from error


def _difference(shapes: dict[str, tuple[int, ...]], expected: dict[str, tuple[int, ...]]) -> str:
    for name in [*expected, *shapes]:
        if shapes.get(name) != expected.get(name):
            there, here = (str(list(of[name])) if name in of else "missing" for of in (shapes, expected))
            return f"{name} is {there} in the adapter and {here} in the model"
    raise AssertionError("unreachable: they differ")
