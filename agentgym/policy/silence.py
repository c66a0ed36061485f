"""Keeps the terminal for the run's own output: switches off the libraries' progress bars and known notices."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# trl 1.16 still uses the names that transformers 5.23 renamed; a user cannot change that.
_RENAMED = r"`?(is_)?gradient_checkpointing"
# When saving an adapter, peft checks whether the vocabulary grew, but a model made in memory has no configuration file.
_NO_CONFIGURATION = "Could not find a config file in"
_EXPERIMENTAL = r"You are using 'rollout_func'"


@contextmanager
def silence_libraries() -> Iterator[None]:
    """Switch off progress bars of transformers and datasets, and notices of renamed options that TRL still uses."""
    from datasets.utils.logging import disable_progress_bar as disable_datasets_bars
    from transformers.utils import logging

    had_bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    disable_datasets_bars()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_RENAMED, category=FutureWarning)
        warnings.filterwarnings("ignore", message=_NO_CONFIGURATION, category=UserWarning)
        try:
            yield
        finally:
            logging.set_verbosity(verbosity)
            if had_bars:
                logging.enable_progress_bar()


@contextmanager
def silence_rollout_func_warning() -> Iterator[None]:
    """Ignore TRL's warning that `rollout_func` is experimental, which every new trainer would print."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_EXPERIMENTAL, category=UserWarning)
        yield
