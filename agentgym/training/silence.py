"""Keeps the terminal for what the run has to say: the libraries' own bars and known notices are switched off."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# trl 1.16 still uses the names that transformers 5.23 renamed; nothing a user could change.
_KNOWN = r"`?(is_)?gradient_checkpointing"


@contextmanager
def silence_libraries() -> Iterator[None]:
    """Inside, transformers draws no bars and does not repeat the renamings that TRL has not followed yet."""
    from datasets.utils.logging import disable_progress_bar as no_dataset_bars
    from transformers.utils import logging

    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    no_dataset_bars()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_KNOWN, category=FutureWarning)
        try:
            yield
        finally:
            logging.set_verbosity(verbosity)
            if shown:
                logging.enable_progress_bar()
