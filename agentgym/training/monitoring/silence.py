"""Keeps the terminal for what the run has to say: progress bars and known notices of the libraries are switched off."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# trl 1.16 still uses the names that transformers 5.23 renamed; a user cannot change that.
_RENAMED = r"`?(is_)?gradient_checkpointing"
# peft, saving an adapter, looks whether the vocabulary grew, and finds no configuration where the model has no files.
_NO_CONFIGURATION = "Could not find a config file in"
_EXPERIMENTAL = r"You are using 'rollout_func'"


@contextmanager
def silence_libraries() -> Iterator[None]:
    """Switch off the progress bars of transformers and datasets, and notices of renamings that TRL has not followed."""
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
    """Ignore TRL's warning that `rollout_func` is experimental: it would come with every trainer that is made."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_EXPERIMENTAL, category=UserWarning)
        yield
