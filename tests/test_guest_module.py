"""Code of ours inside a sandbox: functions called with plain data, objects that live on, and every way to fail."""

from __future__ import annotations

import asyncio

import pytest

from agentgym import (
    Environment,
    GuestModule,
    GuestStopped,
    SandboxDied,
    SandboxSpec,
    ToolError,
    close_backends,
    make,
    register,
    registry,
)
from agentgym.registry import KINDS

pytestmark = pytest.mark.needs_namespaces

WORDS = """
class NoWord(Exception):
    for_agent = True

def check(word):
    if not word.isalpha():
        raise NoWord(f"{word!r} is no word.")
"""
COUNTER = """
import os, sys, time
from .words import check

class Counter:
    def __init__(self, start):
        self.counts = {"start": start}

    @classmethod
    def from_zero(cls):
        return cls(0)

    def add(self, word):
        check(word)
        self.counts[word] = self.counts.get(word, 0) + 1
        return self.counts

    def sleep(self, seconds):
        time.sleep(seconds)

    def leave(self):
        os._exit(3)

def echo(*values):
    sys.stdout.write("noise without an end of line")
    return list(values)

def refuse(word):
    check(word)

def fill(count):
    return "x" * count

def shout(word):
    print(word.upper())
    sys.exit(7)

def signal():
    os.kill(os.getpid(), 9)

def broken():
    return 1 / 0
"""


class Counting(Environment):
    """An environment that only has a sandbox."""

    sandbox = SandboxSpec(memory_mib=64)


@pytest.fixture
def module(tmp_path, monkeypatch):
    folder = tmp_path / "counting_guests"
    folder.mkdir()
    for name, text in (("__init__", ""), ("words", WORDS), ("counter", COUNTER)):
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return GuestModule("counting_guests", "words", "counter")


@pytest.fixture
async def environment(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {kind: {} for kind in KINDS})
    register("acme/counting-v1", Counting)
    environment = make("acme/counting-v1")
    yield environment
    await environment.close()
    await close_backends()


async def test_functions_are_called_with_plain_data_and_give_it_back(environment, module):
    sandbox = await environment.default_sandbox()
    values = [1, 2.5, None, True, "naïve \ud800 \n", [{"a": []}]]
    assert await module.call(sandbox, "echo", *values) == values
    assert await module.call(sandbox, "echo") == []
    with pytest.raises(TypeError, match="not JSON serializable"):
        await module.call(sandbox, "echo", b"bytes")


async def test_what_a_guest_refuses_is_for_the_agent_and_what_breaks_is_not(environment, module):
    sandbox = await environment.default_sandbox()
    with pytest.raises(ToolError, match="'1' is no word") as caught:
        await module.call(sandbox, "refuse", "1")
    assert not isinstance(caught.value, GuestStopped)
    with pytest.raises(ToolError, match="The result is too big"):
        await module.call(sandbox, "fill", 3_000_000)
    with pytest.raises(SandboxDied, match=r"(?s)'counter' ended with exit code 1 .* reply: .*ZeroDivisionError"):
        await module.call(sandbox, "broken")
    with pytest.raises(GuestStopped, match="took too much time or memory"):
        await module.call(sandbox, "signal")


async def test_a_function_may_print_and_end_its_process(environment, module):
    result = await module.run(await environment.default_sandbox(), "shout", "hello")
    assert (result.text, result.exit_code) == ("HELLO\n", 7)


async def test_an_object_lives_on_between_requests_and_they_are_served_in_turn(environment, module):
    counter = module.object(await environment.default_sandbox(), "Counter", 5)
    assert await counter.call("add", "a") == {"start": 5, "a": 1}
    await asyncio.gather(*(counter.call("add", "b") for _ in range(5)))
    with pytest.raises(ToolError, match="is no word"):
        await counter.call("add", "?")
    assert await counter.call("add", "a") == {"start": 5, "a": 2, "b": 5}
    other = module.object(await environment.default_sandbox(), "Counter.from_zero")
    assert await other.call("add", "a") == {"start": 0, "a": 1}


async def test_an_object_that_was_lost_is_made_anew(environment, module):
    counter = module.object(await environment.default_sandbox(), "Counter", 5, timeout_s=1.0)
    await counter.call("add", "a")
    with pytest.raises(GuestStopped):
        await counter.call("sleep", 30)
    assert counter.losses == 1
    assert await counter.call("add", "b") == {"start": 5, "b": 1}
    request = asyncio.create_task(counter.call("sleep", 30))
    await asyncio.sleep(0.2)
    request.cancel()
    assert await counter.call("add", "c") == {"start": 5, "c": 1}
    with pytest.raises(SandboxDied, match="ended with exit code 3"):
        await counter.call("leave")
    assert await counter.call("add", "d") == {"start": 5, "d": 1}


async def test_the_default_sandbox_is_opened_once_and_can_be_emptied(environment):
    sandboxes = await asyncio.gather(*(environment.default_sandbox() for _ in range(3)))
    assert len({id(sandbox) for sandbox in sandboxes}) == len(environment.sandboxes) == 1
    await sandboxes[0].write("note", b"x")
    assert await (await environment.default_sandbox(empty=True)).list() == []
    assert len(environment.sandboxes) == 1
