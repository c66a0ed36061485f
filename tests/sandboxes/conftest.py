"""What tests of several environments share."""

from __future__ import annotations

import os

import pytest
import pytest_asyncio

from agentgym.errors import SandboxUnavailable
from agentgym.registry import close_backends


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browsers_end():
    """Browsers of a module's tests are closed after them. Without Chromium they are skipped, outside CI."""
    from agentgym.sandboxes.gui import close_browsers
    from agentgym.sandboxes.gui.browsers import chromium

    try:
        chromium()
    except SandboxUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    yield
    await close_browsers()
    await close_backends()
