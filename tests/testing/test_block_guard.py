"""Code that never gives control back is interrupted and named: in a check, in an import, and after Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from agentgym import ConformanceError
from agentgym.testing import instance_checks
from agentgym.testing.environments import check_environment

ENVIRONMENT = """
import asyncio, time
from agentgym import Environment, register, tool
{module}
class Shop(Environment):
    "A shop. Nothing is isolated."
    async def reset(self, task, *, seed):
        {reset}
        return task.opening()
    @tool
    async def look(self, shelf: str) -> str:
        "Look at a shelf."
        {tool}
        return shelf
    async def close(self):
        {close}
register("watched/shop-v1", Shop)
"""
CHECK = (
    "import sys; from agentgym.testing import block_guard; block_guard.BLOCKED_S = float(sys.argv.pop(1)); "
    "from agentgym.cli import main; main()"
)


def source(**blocked):
    return ENVIRONMENT.format(**{"module": "", "reset": "pass", "tool": "pass", "close": "pass"} | blocked)


def check(tmp_path, limit_s, **blocked):
    (tmp_path / "shop.py").write_text(source(**blocked))
    command = [sys.executable, "-c", CHECK, str(limit_s), "check", "watched/shop-v1", "--import", "shop.py"]
    return subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("blocked", "message"),
    [
        ({"module": "while True: pass"}, "The import of shop did not end in 5 s: it waits at shop.py:4."),
        ({"tool": "time.sleep(1000)"}, "Shop.look did not return in 5 s: it waits at shop.py:13,"),
        ({"reset": "while True: pass"}, "Shop.reset did not return in 5 s: it waits at shop.py:8,"),
    ],
    ids=["module", "tool", "reset"],
)
def test_code_that_blocks_is_named_with_its_line(blocked, message, tmp_path):
    checking = check(tmp_path, 5, **blocked)
    errors = checking.communicate(timeout=60)[1]
    assert checking.returncode == 1
    assert errors.count(message) == 1
    assert "Traceback" not in errors


def test_one_ctrl_c_ends_a_check_that_blocks(tmp_path):
    blocking = "print('blocks', file=__import__('sys').stderr, flush=True); time.sleep(1000)"
    with check(tmp_path, 60, reset=blocking) as checking:
        assert any("blocks" in line for line in iter(checking.stderr.readline, ""))
        began = time.monotonic()
        os.kill(checking.pid, signal.SIGINT)
        errors = checking.communicate(timeout=60)[1]
    assert checking.returncode == 130
    assert time.monotonic() - began < 20
    assert "Stopped" in errors


@pytest.mark.parametrize("method", ["reset", "close"])
def test_a_method_that_waits_for_ever_is_named(method, monkeypatch):
    monkeypatch.setattr(instance_checks, "EPISODE_S", 0.2)
    monkeypatch.setattr(instance_checks, "CLOSE_S", 0.2)
    names = {}
    exec(source(**{method: "await asyncio.Event().wait()"}).partition("register(")[0], names)
    with pytest.raises(ConformanceError, match=rf"Shop.{method} did not return in 0.2 s. Give what it waits for"):
        asyncio.run(check_environment(names["Shop"]))
