"""Time limits count what the code could do: processor seconds, or wall time in which it slept."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress

import pytest
from by_day import cases
from processes import children_of, spawners
from starved import may_starve, starved_sandboxes, with_descendants

from agentgym import Environment, SandboxSpec, Task, tool
from agentgym.errors import HostOverloaded
from agentgym.messages import Call, Message, ResultStatus
from agentgym.sandbox.guest import counted_time
from agentgym.sandbox.guest.counted_time import CountedTime, longest_s
from agentgym.sandbox.time_limit import ThreadLimit, TimeLimit

SPIN = "import time\nwhile time.process_time() < {}: pass\nprint('done')"
can_starve = pytest.mark.skipif(not may_starve(), reason="only root may take a processor away")


def counted(looks: list[tuple[float, bool, float]], limit_s: float = 1.0) -> CountedTime:
    """A limit after looks at (seconds, ready, processor seconds), none of which came late."""
    limit = CountedTime(limit_s, 0.0)
    for now, is_ready, cpu_s in looks:
        limit.due = now
        limit.look(now, is_ready=is_ready, cpu_s=cpu_s)
    return limit


def test_code_that_sleeps_uses_its_limit_up_by_wall_time():
    limit = counted([(0.5, False, 0.0), (1.0, False, 0.0)])
    assert (limit.counted_s, limit.is_used_up, limit.is_over) == (1.0, True, True)


def test_code_that_waits_for_a_processor_uses_its_limit_up_by_processor_time():
    limit = counted([(1.0, True, 0.1), (20.0, True, 0.5)])
    assert (limit.counted_s, limit.is_over, limit.is_late) == (pytest.approx(0.5), False, True)
    assert counted([(1.0, True, 1.0)]).is_used_up


def test_code_that_may_use_half_a_processor_has_used_it_up_after_half_the_seconds():
    limit = CountedTime(1.0, 0.0, share=0.5)
    limit.due = 1.0
    limit.look(1.0, is_ready=True, cpu_s=0.5)
    assert limit.is_used_up


def test_a_late_look_does_not_count_against_the_code():
    limit = CountedTime(1.0, 0.0)
    limit.due = 0.1
    limit.look(40.0, is_ready=False)
    assert (limit.counted_s, limit.is_over) == (pytest.approx(0.1), False)
    limit.due = 40.1
    limit.pause(80.0)
    assert limit.counted_s == pytest.approx(0.2), "code that ends before the late look"


@pytest.mark.parametrize(("idle", "is_agents"), [(0.0, False), (1e6, True)])
def test_code_that_was_kept_from_running_for_long_is_ended(monkeypatch, idle, is_agents):
    """It is the machine's failure, unless the machine had idle processors: then the code hides what it does."""
    readings = iter([0.0, idle])
    monkeypatch.setattr(counted_time, "_idle_s", lambda: next(readings))
    limit = counted([(2.0, True, 0.0), (longest_s(1.0) + 1, True, 0.0)])
    assert (limit.is_over, limit.is_used_up) == (True, is_agents)


def test_looks_come_at_moments_that_code_cannot_foresee():
    assert len({round(CountedTime(1.0, 0.0).due, 6) for _ in range(20)}) > 5


async def test_a_limit_that_has_ended_is_freed_before_its_timer_would_have_fired():
    with TimeLimit(3600.0) as limit:
        pass
    ended = weakref.ref(limit)
    del limit
    assert ended() is None


class Tools(Environment):
    """Tools that sleep, compute and wait."""

    sandbox = SandboxSpec(memory_mib=64, accept_weaker=("all",))

    def __init__(self) -> None:
        self.released = threading.Event()

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        return task.opening()

    @tool(timeout_s=0.4)
    async def nap(self, seconds: float) -> str:
        """Sleep."""
        await asyncio.sleep(seconds)
        return "slept"

    @tool(timeout_s=0.4)
    def block(self, seconds: float) -> str:
        """Sleep in a thread."""
        time.sleep(seconds)
        return "slept"

    @tool(timeout_s=0.4)
    def compute(self, seconds: float) -> str:
        """Compute in a thread."""
        began_s = time.thread_time()
        while time.thread_time() - began_s < seconds:
            sum(range(1000))
        return "computed"

    @tool(timeout_s=0.4)
    async def command(self, code: str) -> str:
        """Run Python in the sandbox."""
        return (await (await self.default_sandbox()).run_python(code, timeout_s=30)).text

    @tool(timeout_s=0.4)
    async def ask(self, code: str) -> str:
        """Ask a process in the sandbox."""
        channel = await (await self.default_sandbox()).open_channel(["python3", "-I", "-S", "-c", code])
        try:
            return str(await channel.request("?", timeout_s=30))
        finally:
            await channel.close()


async def status_of(environment: Tools, name: str, argument: object) -> ResultStatus:
    names = {"command": "code", "ask": "code"}
    return (await environment.call(Call(name, {names.get(name, "seconds"): argument}))).status


@pytest.mark.parametrize("name", ["nap", "block", "compute"])
async def test_a_tool_that_takes_too_long_is_the_agents(name):
    began = time.monotonic()
    assert await status_of(Tools(), name, 30.0) is ResultStatus.TIMEOUT
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("name", ["nap", "block", "compute"])
async def test_a_tool_is_not_charged_for_an_event_loop_that_was_blocked(name):
    running = asyncio.ensure_future(status_of(Tools(), name, 0.2))
    await asyncio.sleep(0.05)
    time.sleep(0.8)  # noqa: ASYNC251  this is the fault
    assert await running is ResultStatus.OK


async def test_a_tool_that_waits_for_a_thread_is_not_charged(monkeypatch):
    from agentgym import threads

    monkeypatch.setattr(threads, "_default", threads.ThreadPool(1))
    environment = Tools()
    first = asyncio.ensure_future(asyncio.wait_for(environment.call(Call("block", {"seconds": 0.35})), 5))
    rest = [asyncio.ensure_future(status_of(environment, "block", 0.2)) for _ in range(2)]
    assert (await first).ok
    assert await asyncio.gather(*rest) == [ResultStatus.OK] * 2


async def test_a_limit_may_be_entered_again_and_keeps_what_was_used():
    limit = TimeLimit(0.3)
    with limit:
        await asyncio.sleep(0.2)
    await asyncio.sleep(0.3)
    with limit:
        await asyncio.sleep(0.02)
    with pytest.raises(TimeoutError), limit:
        await asyncio.sleep(1)


async def test_a_thread_that_never_begins_is_not_the_tools_failure(monkeypatch):
    monkeypatch.setattr(counted_time, "longest_s", lambda limit_s: 2 * limit_s)
    monkeypatch.setattr(counted_time, "_idle_s", lambda: 0.0)
    message = r"let code run for 0\.0 s only, where its limit is 0\.1 s"
    with pytest.raises(HostOverloaded, match=message), ThreadLimit(0.1):
        await asyncio.sleep(1)


@pytest.mark.needs_namespaces
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("command", "import time; time.sleep(60)"),
        ("command", "while True: pass"),
        ("command", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"),
        ("ask", "import time; time.sleep(60)"),
        ("ask", "while True: pass"),
    ],
)
async def test_code_in_a_sandbox_that_sleeps_or_computes_for_ever_is_the_agents(backend, name, code):
    environment = Tools()
    environment.backend = backend
    await environment.default_sandbox()
    began = time.monotonic()
    assert await status_of(environment, name, code) is ResultStatus.TIMEOUT
    assert time.monotonic() - began < 5
    assert await status_of(environment, "command", "pass") is ResultStatus.OK
    await environment.close()


@pytest.mark.needs_namespaces
@can_starve
@pytest.mark.parametrize("name", cases(["command", "ask", "session"], by_day=("command", "ask")))
async def test_code_in_a_starved_sandbox_is_given_its_processor_time(backend, small, name):
    sandbox = await backend.create(small)
    code = SPIN.format(0.25)
    with starved_sandboxes():
        began = time.monotonic()
        if name == "ask":
            answering = f"{code.partition('print')[0]}print(1)"
            channel = await sandbox.open_channel(["python3", "-I", "-S", "-c", answering])
            assert await channel.request("?", timeout_s=0.4) == 1
            used = channel.waited_s
        else:
            result = await sandbox.run_python(code, session="s" if name == "session" else None, timeout_s=0.4)
            assert (result.stdout, result.timed_out) == (b"done\n", False)
            used = result.usage.waited_s
        assert time.monotonic() - began > 0.8, "it was not starved"
        assert used > 0.4
    await sandbox.close()


@pytest.mark.needs_namespaces
@can_starve
async def test_code_in_a_starved_sandbox_that_sleeps_or_computes_for_ever_is_the_agents(backend, small):
    sandbox = await backend.create(small)
    with starved_sandboxes():
        for code in ("import time; time.sleep(60)", "while True: pass"):
            began = time.monotonic()
            assert (await sandbox.run_python(code, timeout_s=0.1)).timed_out
            assert time.monotonic() - began < 10
    await sandbox.close()


@pytest.mark.needs_namespaces
async def test_a_sandbox_that_was_stopped_is_not_charged(backend, small):
    sandbox = await backend.create(small)
    running = asyncio.ensure_future(sandbox.run_python("import time; time.sleep(0.3); print(1)", timeout_s=0.5))
    await asyncio.sleep(0.1)
    stopped = with_descendants(spawners()) - spawners()
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        await asyncio.sleep(1)
    result = await running
    assert (result.stdout, result.timed_out) == (b"1\n", False)
    await sandbox.close()


PAUSED = """
import asyncio
from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy, close_backends, load_task_set
async def main():
    task_set = load_task_set("sql/store-v1")
    [task] = task_set["validation"][:1]
    config = RolloutConfig(budgets=Budgets(time_s=1.0))
    manager = EpisodeManager(lambda task: ScriptedPolicy(task_set.oracle(task)), config)
    print("ready", flush=True)
    for _ in range(12):
        [episode] = await manager.collect([task])
        print(episode.stop_reason, episode.success, flush=True)
    await close_backends()
asyncio.run(main())
"""


@pytest.mark.needs_namespaces
@pytest.mark.thorough
def test_a_driver_that_was_stopped_ends_no_episode():
    with subprocess.Popen([sys.executable, "-c", PAUSED], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        driver.stdout.readline()
        for pause_s in (0.15, 0.1):
            time.sleep(pause_s)
            driver.send_signal(signal.SIGSTOP)
            time.sleep(1.5)
            driver.send_signal(signal.SIGCONT)
        assert driver.stdout.read().split("\n")[:-1] == ["answered 1.0"] * 12
    assert children_of(driver.pid) == set()
