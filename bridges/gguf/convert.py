"""Read a model out of a GGUF file, the format of llama.cpp, and save it as a checkpoint that can be trained.

transformers dequantises the weights, but cannot save a model loaded this way.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentgym import MissingExtraError, PolicyError, install_command

MAGIC = b"GGUF"
ROUNDING = 0.25
"""Differently rounded copies of the same weights have a relative difference below this; unrelated weights, over 1."""


def convert_gguf(file: str | Path, folder: str | Path, *, chat_template: str | None = None) -> int:
    """Write the model and the tokenizer of a GGUF file into a new folder, as `save_pretrained` does.

    The weights are saved in float32, with exactly the values of their quantised form. An output layer that equals the
    embedding except for rounding is tied to it. The folder appears complete or not at all.

    Args:
        chat_template: Jinja text that replaces the file's template, for example one that supports tools.
    Returns: the number of the model's parameters.
    Raises: PolicyError if the file cannot be read, or the folder exists; MissingExtraError.
    """
    file, folder = Path(file), Path(folder)
    _check(file, folder)
    try:
        loaded, report = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, dtype=torch.float32, output_loading_info=True
        )
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    except (OSError, ValueError, KeyError, NotImplementedError) as error:
        raise PolicyError(
            f"No model can be read from {file}: {shorten(str(error), 400, placeholder=' ...')}"
        ) from error
    if missing := sorted(report["missing_keys"]):  # transformers would leave these weights random
        raise PolicyError(
            f"{file} lacks {len(missing)} weights that the model needs, for example {missing[0]}. Download the file "
            "again, or use another conversion."
        )
    weights, is_tied = loaded.state_dict(), _is_tied(loaded)
    settings = {"quantization_config": None} | ({"tie_word_embeddings": True} if is_tied else {})
    model = type(loaded)(type(loaded.config).from_dict({**loaded.config.to_dict(), **settings}))
    model.load_state_dict(weights)
    if is_tied:  # such files store the output layer more exactly than the embedding
        model.get_input_embeddings().weight.data.copy_(loaded.get_output_embeddings().weight)
        model.tie_weights()
    model.generation_config = loaded.generation_config
    tokenizer.chat_template = chat_template or tokenizer.chat_template
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(folder)
    return int(model.num_parameters())


def _is_tied(model: Any) -> bool:
    """Return whether the output layer equals the token embedding, apart from rounding.

    Files of quantised models often store this one matrix twice, with less rounding as the output layer.
    """
    embedding, output = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    if embedding is output:
        return True
    is_like = embedding.shape == output.shape and (embedding - output).norm() < ROUNDING * output.norm()
    return bool(is_like)


def _check(file: Path, folder: Path) -> None:
    try:
        with file.open("rb") as stream:
            is_gguf = stream.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise PolicyError(f"Cannot read {file}: {error.strerror}.") from error
    if not is_gguf:
        raise PolicyError(f"{file} is not a GGUF file: such a file begins with {MAGIC.decode()}.")
    if folder.exists():
        raise PolicyError(f"{folder} already exists. Remove it, or name another folder.")
    if importlib.util.find_spec("gguf") is None:
        raise MissingExtraError(f"Reading GGUF files needs the package gguf: {install_command('gguf')}.")
