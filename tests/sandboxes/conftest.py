"""What tests of several environments share."""

from __future__ import annotations

import os

import pytest
import pytest_asyncio

from agentgym.errors import MissingExtraError, SandboxUnavailable
from agentgym.registry import close_backends


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browsers_end(request):
    """Browsers of a module's tests are closed after them. Without Chromium they are skipped, outside CI.

    A module names what else its tests need in NEEDED: functions that say so by an error where it is missing.
    """
    from agentgym.sandboxes.gui import close_browsers
    from agentgym.sandboxes.gui.browsers import chromium

    try:
        for check_installed in (chromium, *getattr(request.module, "NEEDED", ())):
            check_installed()
    except (SandboxUnavailable, MissingExtraError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    yield
    await close_browsers()
    await close_backends()
