"""A real run, the viewer's server over it, and a real Chromium to look at it."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading

import pytest
import watched_run
from looking import opened, served

CHROMIUM = os.environ.get("AGENTGYM_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="package")
def runs(tmp_path_factory):
    """A folder with one finished run in it, `watched`."""
    folder = tmp_path_factory.mktemp("runs")
    recording = threading.Thread(target=lambda: asyncio.run(watched_run.make(folder / "watched")))
    recording.start()  # where playwright's own loop may run in this thread
    recording.join()
    return folder


@pytest.fixture(scope="package")
def address(runs):
    with served([runs]) as url:
        yield url


@pytest.fixture(scope="module")
def chromium():
    if CHROMIUM is None:
        if "AGENTGYM_CI_DOCKER" in os.environ:  # set where CI has installed the Debian packages
            pytest.fail("Chromium must be here, and is not")
        pytest.skip("no Chromium here: install it, or name it by AGENTGYM_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    """A page in a fresh context; an error in its scripts, or of its content policy, fails the test."""
    with opened(chromium) as fresh_page:
        yield fresh_page
