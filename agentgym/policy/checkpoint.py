"""Load and save checkpoints: the model and its tokenizer or, if the model reads images, its processor."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor, AutoTokenizer

from agentgym.errors import PolicyError
from agentgym.policy.adapters import (
    ADAPTER,
    adapter_folder,
    base_of,
    can_merge,
    has_adapter,
    merged,
    open_adapter,
    target_layers,
)
from agentgym.policy.device import dtype_of
from agentgym.policy.grouped_attention import use_grouped_attention
from agentgym.policy.load_options import LoadOptions, LoraOptions
from agentgym.policy.quantization import quantization_config, sample_as_in_training
from agentgym.policy.role_adapters import role_adapters_of
from agentgym.policy.training_template import use_training_template

DIGESTED_BYTES = 1 << 20
"""How many bytes at each end of a weights file are hashed."""


def load_checkpoint(
    source: str | Path, *, device: str, options: LoadOptions | None = None, sees: bool | None = None
) -> tuple[Any, Any]:
    """Load a model from a folder, or by the name of a hub model that is cached here or may be downloaded.

    A LoRA adapter is loaded with its base model, and merged into the base model unless that model is quantised or the
    adapter has parts for several roles.

    Args:
        device: as returned by `device_of`.
        sees: whether to load a model that reads images and text; by default as its configuration says.

    Returns: the model on its device, and its tokenizer, or its processor if it reads images.
    Raises: PolicyError if a part of the checkpoint is missing, cannot be read or does not fit the other parts;
        MissingExtraError.
    """
    options = options or LoadOptions()
    adapter = adapter_folder(source, options.revision)
    if adapter is None:
        return _load(source, device, options, sees)
    base = options.base or base_of(adapter)
    if Path(base).resolve() == adapter.resolve():
        raise PolicyError(
            f"The adapter in {adapter} names its own folder as its base model. Give the base model as `base`."
        )
    # The revision is the adapter's, and the base model has no base of its own.
    model, reader = load_checkpoint(
        base, device=device, options=options.model_copy(update={"revision": None, "base": None}), sees=sees
    )
    if options.tokenizer is None and (adapter / "tokenizer_config.json").is_file():
        reader = _load_reader(adapter, options, hasattr(reader, "tokenizer"))
    model = open_adapter(model, adapter)
    return (merged(model) if can_merge(model) else model), reader


def describe_weights(source: str, model: Any) -> dict[str, Any]:
    """Return an identification of a checkpoint's weights, for `Policy.identity`.

    Returns: for a folder, a digest of the beginning and the end of each weights file, which is the same for a copy; for
        a hub model, its name and commit.
    """
    if not Path(source).is_dir():
        return {"model": source, "revision": getattr(model.config, "_commit_hash", None)}
    digest = hashlib.sha256()
    for file in sorted(each for each in Path(source).iterdir() if each.suffix in (".safetensors", ".bin")):
        size = file.stat().st_size
        with file.open("rb") as weights:
            digest.update(f"{file.name} {size} ".encode() + weights.read(DIGESTED_BYTES))
            weights.seek(max(0, size - DIGESTED_BYTES))
            digest.update(weights.read(DIGESTED_BYTES))
    return {"weights": digest.hexdigest()[:16]}


def load_tokenizer(source: str | Path, options: LoadOptions | None = None) -> Any:
    """Return the tokenizer alone, from a folder or by the name of a hub model. Raises: PolicyError if there is none."""
    options = options or LoadOptions()
    adapter = adapter_folder(source, options.revision)
    if adapter is not None and not (adapter / "tokenizer_config.json").is_file():
        source, options = options.base or base_of(adapter), options.model_copy(update={"revision": None})
    try:
        return _load_reader(source, options, sees=False)
    except (OSError, ValueError) as error:
        raise PolicyError(
            f"No tokenizer can be loaded from {str(source)!r}: {shorten(str(error), 400, placeholder=' ...')}"
        ) from error


def load_configuration(source: str | Path, options: LoadOptions | None = None) -> Any:
    """Return the configuration of the model in a checkpoint; for an adapter, of its base model.

    Raises: PolicyError if there is none.
    """
    options = options or LoadOptions()
    adapter = adapter_folder(source, options.revision)
    if adapter is not None:
        return load_configuration(options.base or base_of(adapter))
    try:
        return AutoConfig.from_pretrained(source, revision=options.revision)
    except (OSError, ValueError) as error:
        raise PolicyError(
            f"No model can be loaded from {str(source)!r}: {shorten(str(error), 400, placeholder=' ...')}"
        ) from error


def check_checkpoint(source: str | Path, options: LoadOptions, lora: LoraOptions | None) -> None:
    """Check, without loading weights, that a saved adapter fits its model, and that the model has the layers of `lora`.

    Args:
        lora: the options of the adapter to be made.
    Raises: PolicyError; MissingExtraError if the package for quantisation is not installed.
    """
    if options.quantization:
        quantization_config()
    adapter = adapter_folder(source, options.revision)
    if adapter is None and lora is None:
        return
    configuration = load_configuration(source, options)
    model_class = AutoModelForImageTextToText if hasattr(configuration, "vision_config") else AutoModelForCausalLM
    with torch.device("meta"):
        model = model_class.from_config(configuration)
    if adapter is not None:
        open_adapter(model, adapter)
    if lora is not None:
        target_layers(model, lora.targets)


def tokenizer_of(reader: Any) -> Any:
    """Return the tokenizer of a reader, which is a tokenizer itself or a processor that has one."""
    return getattr(reader, "tokenizer", reader)


def load_state(source: Path) -> dict[str, Any]:
    """Return the weights of a checkpoint that training wrote, in float32, on the CPU. Raises: as transformers."""
    state: dict[str, Any] = _load_weights(source, LoadOptions(dtype="float32"), "cpu", None).state_dict()
    return state


def save_atomically(
    model: Any, processing_class: Any, folder: Path, *, texts: Mapping[str, str] = {}, **options: Any
) -> None:
    """Save a model and its processing class. The folder appears, or is replaced, only when it is complete.

    Args:
        texts: more files to write into the folder, by name.
        options: the options of `save_pretrained`.
    """
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    model.save_pretrained(partial, **options)
    if (roles := role_adapters_of(model)) is not None:
        roles.save(partial)
    processing_class.save_pretrained(partial)
    for name, text in texts.items():
        (partial / name).write_text(text, encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _load(source: str | Path, device: str, options: LoadOptions, sees: bool | None) -> tuple[Any, Any]:
    try:
        sees = _sees(source, options) if sees is None else sees
        reader = _load_reader(source, options, sees)
        model = _load_weights(source, options, device, sees)
    except (OSError, ValueError, ImportError, AttributeError) as error:
        tokenizer = f" with the tokenizer {options.tokenizer!r}" if options.tokenizer else ""
        raise PolicyError(
            f"No {'vision ' if sees else ''}model can be loaded from {str(source)!r}{tokenizer}: "
            f"{shorten(str(error), 400, placeholder=' ...')} Give a folder written by save_pretrained (config.json, "
            f"weights, {'processor' if sees else 'tokenizer'}), or a hub name."
            + (" Processors that also read videos, as Qwen-VL's, need the package torchvision." if sees else "")
        ) from error
    return (model if options.quantization else model.to(device)), reader


def _load_reader(source: str | Path, options: LoadOptions, sees: bool) -> Any:
    """Return the tokenizer or processor, with the template to use.

    A template that rewrites earlier turns is replaced by its training variant, if TRL has one.
    """
    revision = options.revision if options.tokenizer is None else None
    reader = (AutoProcessor if sees else AutoTokenizer).from_pretrained(options.tokenizer or source, revision=revision)
    tokenizer = reader.tokenizer if sees else reader
    if sees:  # in older checkpoints only the processor has the template
        tokenizer.chat_template = getattr(reader, "chat_template", None) or tokenizer.chat_template
    if options.chat_template is not None:
        tokenizer.chat_template = Path(options.chat_template).read_text(encoding="utf-8")
    elif use_training_template(tokenizer, options.template_options) and sees:
        reader.chat_template = tokenizer.chat_template
    return reader


def _load_weights(source: str | Path, options: LoadOptions, device: str, sees: bool | None) -> Any:
    """Return the model alone: on the CPU or, if it is quantised, on its device."""
    sees = _sees(source, options) if sees is None else sees
    model_class = AutoModelForImageTextToText if sees else AutoModelForCausalLM
    given: dict[str, Any] = {"attn_implementation": options.attention, "revision": options.revision}
    if options.quantization:
        given |= {"quantization_config": quantization_config(), "device_map": {"": device}}
    model, report = model_class.from_pretrained(
        source,
        dtype=dtype_of(options.dtype, device),
        output_loading_info=True,
        **{name: value for name, value in given.items() if value is not None},
    )
    if missing := sorted(report["missing_keys"]):  # transformers would leave these weights random
        raise ValueError(f"the files lack {len(missing)} weights that the model needs, for example {missing[0]}.")
    sample_as_in_training(model)
    if options.attention is None and device == "cpu":
        use_grouped_attention(model)
    return model


def _sees(source: str | Path, options: LoadOptions) -> bool:
    return hasattr(AutoConfig.from_pretrained(source, revision=options.revision), "vision_config")


def save_model(model: Any, processing_class: Any, folder: Path, texts: Mapping[str, str] = {}) -> None:
    """Save the model, or only its adapter, atomically. `texts`: more files to write into the folder, by name."""
    only_adapter = {"selected_adapters": [ADAPTER], "save_embedding_layers": False} if has_adapter(model) else {}
    save_atomically(model, processing_class, folder, texts=texts, **only_adapter)


def save_untied(model: Any, tokenizer: Any, folder: str | Path) -> None:
    """Write a checkpoint whose output layer is not tied to the embeddings, for `update_weights`. Single process only.

    An unmerged adapter is left out.
    """
    from safetensors.torch import save_file

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    weights = {
        name.replace(".base_layer.", "."): value.detach().cpu().contiguous().clone()
        for name, value in model.state_dict().items()
        if ".lora_" not in name
    }
    weights["lm_head.weight"] = model.get_output_embeddings().weight.detach().cpu().contiguous().clone()
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_dict() | {"tie_word_embeddings": False, "architectures": [type(model).__name__]}
    (target / "config.json").write_text(json.dumps(config, indent=2, default=str), encoding="utf-8")
    tokenizer.save_pretrained(target)
