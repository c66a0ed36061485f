"""A model without the forward pass that a trainer has put in the place of its own, so that it can be copied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentgym.policy.adapters import own_model


@contextmanager
def plain_forward(model: Any) -> Iterator[None]:
    """Inside, the model has the forward pass of its class, for a copy of it. Nobody computes with it meanwhile."""
    own = own_model(model)
    patched = vars(own).pop("forward", None)
    try:
        yield
    finally:
        if patched is not None:
            own.forward = patched
