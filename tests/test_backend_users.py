"""Shared backends stay open while anybody uses them: one manager that ends must not end the sandboxes of another."""

from __future__ import annotations

import gc

import pytest

from agentgym import registry
from agentgym.registry import BackendUser, close_backends, shared_backend


class CountingBackend:
    """Counts how often it was closed."""

    name = "counting"
    closed = 0

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def backend(monkeypatch) -> CountingBackend:
    counting = CountingBackend()
    monkeypatch.setattr(registry, "_backends", {"counting": counting})
    return counting


async def test_the_last_user_closes_the_shared_backends(backend):
    training, evaluation = BackendUser(), BackendUser()
    assert shared_backend("counting") is backend
    await training.close()
    await training.close()
    assert backend.closed == 0, "evaluation still uses it"
    await evaluation.close()
    assert backend.closed == 1


async def test_a_user_that_was_dropped_without_being_closed_counts_no_more(backend):
    user, forgotten = BackendUser(), BackendUser()
    del forgotten
    gc.collect()
    await user.close()
    assert backend.closed == 1


async def test_close_backends_closes_them_whoever_uses_them(backend):
    user = BackendUser()
    await close_backends()
    assert backend.closed == 1
    await user.close()
    assert backend.closed == 1
