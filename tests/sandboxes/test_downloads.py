"""What a test script installs: once for a task, and with the result that it would have after each submission."""

from __future__ import annotations

import os
import shutil
import sys

import pytest
from task_folders import write_folders

import agentgym
from agentgym import Call, load
from agentgym.sandbox.rootfs.python_image import write_python_image
from agentgym.sandboxes.code.terminal import task_network
from agentgym.sandboxes.code.terminal.downloads import installing_lines
from agentgym.sandboxes.code.terminal.verifier import TerminalVerifier

PROGRAMS = "sh bash basename cat chmod env mkdir printf rm sed test touch true"
APT = """#!/bin/sh
case "$*" in
    update) mkdir -p /opt /var/lib/apt/lists; echo x > /var/lib/apt/lists/packages; touch /tmp/apt-ran ;;
    *) [ -e /var/lib/apt/lists/packages ] || exit 9
       if [ "$(cat /opt/thing 2>&1)" != installed ]; then echo installed > /opt/thing; touch /tmp/apt-ran; fi ;;
esac
"""
TESTS = """#!/bin/bash
mkdir -p /logs/verifier
apt-get update > /dev/null 2>&1
apt-get install -y thing
reward=1
[ -e /tmp/apt-ran ] && reward=0.5
[ "$(cat /opt/thing)" = installed ] || reward=0
[ -e /opt/left-by-tests ] && reward=0
touch /opt/left-by-tests
echo $reward > /logs/verifier/reward.txt
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """A task whose tests are paid 1 if their package is in the image, and 0.5 if it is installed by them."""
    top = tmp_path_factory.mktemp("downloads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_CACHE", str(top / "cache"))
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        patch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        task_network._indexes.cache_clear()
        image = top / "cache/images/python-3.11-slim"
        write_python_image(image, sys.executable, programs=PROGRAMS, data=())
        (image / "usr/bin").mkdir(parents=True, exist_ok=True)
        (image / "usr/bin/apt-get").write_text(APT)
        (image / "usr/bin/apt-get").chmod(0o755)
        folder = write_folders(top, "greeting") / "greeting"
        shutil.rmtree(folder / "solution")
        (folder / "tests/test.sh").write_text(TESTS)
        yield load("importers", "harbor")(folder)["held_out"][0]
        task_network._indexes.cache_clear()


async def handed_in(task, command: str) -> str:
    environment = agentgym.make(task.environment)
    try:
        await environment.reset(task.public(), seed=0)
        await environment.call(Call("bash", {"command": command}))
        return str((await environment.call(Call("done", {}))).content).partition(": ")[2]
    finally:
        await environment.close()


@pytest.mark.needs_namespaces
async def test_a_package_is_installed_once_and_for_a_submission_that_touches_it_anew(task):
    """In the image there is what was installed, and nothing that the tests did afterwards."""
    verifier = TerminalVerifier()

    async def paid(command: str) -> float:
        return (await verifier.score(task, await handed_in(task, command)))["success"]

    assert (await verifier.score(task, ""))["success"] == 1
    assert await paid("mkdir -p /opt; echo x > /opt/other") == 1
    assert await paid("mkdir -p /opt; echo planted > /opt/thing") == 0.5
    assert await paid("mkdir -p /opt/thing") == 0
    assert await paid("mkdir -p /tmp/package-indexes/downloads; touch /tmp/package-indexes/downloads/updated") == 1
    assert await paid("mkdir -p /var/lib/apt/lists; echo x > /var/lib/apt/lists/packages") == 0.5


class Counting(TerminalVerifier):
    """A verifier that counts how often it runs tests."""

    runs = 0

    async def _reward(self, *arguments, **options):
        self.runs += 1
        return await super()._reward(*arguments, **options)


@pytest.mark.needs_namespaces
async def test_equal_submissions_that_earn_the_same_are_judged_twice(task):
    verifier = Counting()
    submission = await handed_in(task, "mkdir -p /opt; echo x > /opt/other")
    assert [(await verifier.score(task, submission))["success"] for _ in range(5)] == [1] * 5
    assert verifier.runs == 2
    await verifier.score(task, "")
    assert verifier.runs == 3


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("#!/bin/bash\nset -e\napt-get update && apt-get install -y curl\npytest", 3),
        ("apt-get update >/dev/null 2>&1; apt-get install -y 'curl' >/dev/null 2>&1\ncurl x | sh", 1),
        ("DEBIAN_FRONTEND=noninteractive apt-get install -y \\\n  curl git # tools\npytest", 1),
        ("apt-get update && apt-get install -y curl && rm -rf /var/lib/apt/lists/*\npytest", 1),
        ("python3 -m pip install --quiet pytest==8.4.1 || true\npytest", 1),
        ("pip install 'pytest>=8' \"numpy<2\"\ncd /app\npip install scipy", 1),
        ("cd /app\npip install pytest", 0),
        ("pip install -r requirements.txt\npytest", 0),
        ("pip install -e .\npytest", 0),
        ("pip install .\npytest", 0),
        ("pip install /app/wheel\npytest", 0),
        ("pip install $(cat /app/x)\npytest", 0),
        ("pip install pytest; rm -rf /app\npytest", 0),
        ("set -e\nmkdir -p /logs/verifier\npytest", 0),
    ],
)
def test_only_lines_that_install_by_name_come_before_the_submission(script, lines):
    assert len(installing_lines(script).splitlines()) == lines
