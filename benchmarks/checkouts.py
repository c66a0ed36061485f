"""Arguments of benchmarks: another checkout to compare with, and a model."""

from __future__ import annotations

import argparse
from pathlib import Path


def checkout(text: str) -> Path:
    """Return the folder of a checkout of agentgym, for argparse. Raises: argparse.ArgumentTypeError for any other."""
    if not (Path(text) / "agentgym" / "__init__.py").is_file():
        raise argparse.ArgumentTypeError(f"{text} is not a checkout of agentgym: git worktree add {text} COMMIT")
    return Path(text).resolve()


def checkpoint(text: str) -> str:
    """Return the folder of a model, for argparse. Raises: argparse.ArgumentTypeError for any other."""
    if not (Path(text) / "config.json").is_file():
        raise argparse.ArgumentTypeError(
            f"{text} is not a model's folder: make models/smollm2-135m/config.json gets one"
        )
    return text
