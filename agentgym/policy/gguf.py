"""Read a model out of a GGUF file, the format of llama.cpp, and save it as a checkpoint that can be trained.

transformers takes the quantised weights apart, but does not save a model that it read so.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from textwrap import shorten

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentgym._imports import install_command
from agentgym.errors import MissingExtraError, PolicyError
from agentgym.policy.checkpoint import save_atomically

MAGIC = b"GGUF"


def convert_gguf(file: str | Path, folder: str | Path, *, chat_template: str | None = None) -> int:
    """Write the model and the tokenizer of a GGUF file into a new folder, as `save_pretrained` does.

    The weights are saved in float32, each exactly the number that its quantised form stands for. The folder appears
    complete or not at all.

    Args:
        chat_template: Jinja text in place of the template that the file holds, for example one that tells of tools.
    Returns: the number of the model's parameters.
    Raises: PolicyError if the file is none that can be read, or the folder exists; MissingExtraError.
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
    if missing := sorted(report["missing_keys"]):  # transformers would leave them random
        raise PolicyError(f"{file} lacks {len(missing)} weights of the model, for example {missing[0]}.")
    config = type(loaded.config).from_dict({**loaded.config.to_dict(), "quantization_config": None})
    model = type(loaded)(config)
    model.load_state_dict(loaded.state_dict())
    model.generation_config = loaded.generation_config
    tokenizer.chat_template = chat_template or tokenizer.chat_template
    save_atomically(model, tokenizer, folder)
    return int(model.num_parameters())


def _check(file: Path, folder: Path) -> None:
    try:
        with file.open("rb") as stream:
            is_gguf = stream.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise PolicyError(f"Cannot read {file}: {error.strerror}.") from error
    if not is_gguf:
        raise PolicyError(f"{file} is not a GGUF file: it does not begin with {MAGIC.decode()}.")
    if folder.exists():
        raise PolicyError(f"{folder} exists already. Remove it, or name another folder.")
    if importlib.util.find_spec("gguf") is None:
        raise MissingExtraError(f"Reading GGUF files needs the package gguf: {install_command('gguf')}.")
