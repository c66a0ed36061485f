"""End forward passes whose requests were cancelled, so that a process that is told to end does so in seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from agentgym.errors import PolicyError


@contextmanager
def stopped_between_layers(model: torch.nn.Module, is_awaited: Callable[[], bool]) -> Iterator[None]:
    """End this thread's forward passes inside the block before their next layer once `is_awaited` returns False.

    Raises: PolicyError from the forward pass.
    """
    thread = threading.get_ident()

    def check(*_: Any) -> None:
        if threading.get_ident() == thread and not is_awaited():
            raise PolicyError("The sampling was stopped: no request waits for it any longer.")

    layers = [layer for module in model.modules() if isinstance(module, torch.nn.ModuleList) for layer in module]
    handles = [layer.register_forward_pre_hook(check) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
