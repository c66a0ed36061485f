"""`agentgym model convert`."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli import out


def convert(
    file: Annotated[Path, typer.Argument(help="A GGUF file, as llama.cpp and Ollama read them.")],
    folder: Annotated[Path, typer.Argument(help="The new folder for the checkpoint.")],
    chat_template: Annotated[
        typer.FileText | None, typer.Option(metavar="FILE", help="A Jinja template in place of the file's own.")
    ] = None,
) -> None:
    """Convert a GGUF file to a trainable checkpoint: float32 weights, tokenizer and chat template.

    Example: agentgym model convert SmolLM2-135M-Instruct.Q4_1.gguf models/smollm2-135m
    """
    from rich.text import Text

    from .convert import convert_gguf

    progress_bars = io.StringIO()  # hides the readers' progress bars, which cover only a small part of the work
    with redirect_stderr(progress_bars), out().status(Text(f"Reading {file}")):
        parameters = convert_gguf(file, folder, chat_template=chat_template.read() if chat_template else None)
    out().print(f"{folder}: {parameters / 1e6:.1f} M parameters", markup=False, soft_wrap=True)
