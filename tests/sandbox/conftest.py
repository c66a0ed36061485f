"""What sandbox tests share: a backend that outlives the event loop of each test, and a small spec."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from specs import SMALL

from agentgym import registry
from agentgym.sandbox.contract import Backend
from agentgym.sandbox.limits import SandboxSpec


@pytest.fixture(scope="module")
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """A backend by registered name, `namespaces` if the test does not say."""
    created = registry.load("backends", getattr(request, "param", "namespaces"))()
    yield created
    asyncio.run(created.close())


@pytest.fixture
def small() -> SandboxSpec:
    return SMALL
