"""What calls and sandboxes use is counted by the kernel, by call and in all, once each."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from agentgym.sandbox import metering
from agentgym.sandbox.contract import Usage
from agentgym.sandbox.metering import (
    BusyTime,
    SandboxMeter,
    combine_usage,
    metered,
    record_usage,
    usage_counts,
    usage_since,
)

pytestmark = pytest.mark.needs_namespaces


def about(count: int) -> object:
    """Each fork of the guest writes three bytes of our own, before the agent's code begins."""
    return pytest.approx(count, abs=50)


@pytest.fixture
async def sandbox(backend, small):
    created = await backend.create(small)
    yield created
    await created.close()


async def test_a_call_counts_what_it_and_its_children_wrote_and_started(sandbox):
    """100,000 and 50,000 bytes into files, 3 into the pipe of its output; sh, two heads and two subshells."""
    script = "head -c 100000 /dev/zero > f; (head -c 50000 /dev/zero > g & wait); echo ok"
    for _ in range(2):
        result = await sandbox.exec(["sh", "-c", script])
        assert (result.stdout, result.usage.written_bytes) == (b"ok\n", 150_003)
        assert result.usage.started in (3, 4, 5), "shells differ in what they fork for"
        assert 0 < result.usage.cpu_s < result.duration_s * 3 + 1
        assert result.usage.wall_s == result.duration_s
        assert result.usage.peak_memory_mib > 0


async def test_what_a_killed_call_left_behind_is_counted_too(sandbox):
    daemon = """
import os, time
if os.fork() == 0:
    os.setsid()
    open('f', 'wb').write(bytes(70_000))
time.sleep(60)
"""
    used = (await sandbox.run_python(daemon, timeout_s=0.5)).usage
    assert (used.written_bytes, used.started) == (about(70_000), 2)


async def test_calls_of_a_session_are_told_apart(sandbox):
    for size in (1_000, 200_000):
        result = await sandbox.run_python(f"open('f', 'wb').write(bytes({size}))", session="a")
        assert result.usage.written_bytes == about(size)
        assert result.usage.peak_memory_mib > 1
    last = await sandbox.run_python("import os; open('f', 'wb').write(bytes(3_000)); os._exit(2)", session="a")
    assert (last.exit_code, last.usage.written_bytes) == (2, about(3_000)), "also of a call that ends its session"


async def test_threads_count_as_started_and_memory_at_its_peak(sandbox):
    code = """
import threading
for _ in range(5):
    thread = threading.Thread(target=bytes)
    thread.start()
    thread.join()
x = b'x' * (20 << 20)
"""
    used = (await sandbox.run_python(code)).usage
    assert used.started == 6
    assert 20 <= used.peak_memory_mib < 64


async def test_a_sandbox_sums_its_calls_and_each_only_once(sandbox):
    before = await sandbox.usage()
    script = "open('f{0}', 'wb').write(bytes(10_000)); sum(range(500_000))"
    calls = await asyncio.gather(*(sandbox.run_python(script.format(number)) for number in range(4)))
    session = await sandbox.run_python(script.format(9), session="a")
    used = usage_since(await sandbox.usage(), before)
    assert used.written_bytes == about(50_000) == sum(call.usage.written_bytes for call in (*calls, session))
    assert used.started == 5
    assert used.cpu_s >= 0.9 * sum(call.usage.cpu_s for call in (*calls, session))
    walls = [call.duration_s for call in calls]
    assert max(walls) <= used.wall_s, "calls side by side take the time of the longest, not of all"
    assert used.processes == 1, "the session's process lives"


async def test_what_the_host_writes_into_a_sandbox_is_no_use_of_the_agents(sandbox):
    await sandbox.write("f", bytes(100_000))
    used = await sandbox.usage()
    assert (used.written_bytes, used.started) == (0, 0)
    assert used.disk_bytes >= 100_000


async def test_the_agent_cannot_read_or_change_the_counters(sandbox):
    result = await sandbox.exec(["sh", "-c", "cat /proc/1/io; ls /proc/1/fd; true"])
    assert result.stdout == b""
    assert b"denied" in result.stderr


async def test_a_block_counts_its_own_calls_also_in_tasks_but_not_those_beside_it(sandbox):
    async def write(count: int) -> None:
        await sandbox.run_python(f"open('f', 'wb').write(bytes({count}))")

    async def counted(count: int) -> int:
        with metered() as meter:
            await asyncio.gather(write(count), asyncio.create_task(write(2 * count)))
        return meter.used.written_bytes

    assert await asyncio.gather(counted(1_000), counted(50_000), write(7)) == [about(3_000), about(150_000), None]
    with metered() as outer:
        with metered() as inner:
            record_usage(Usage(cpu_s=1.0, peak_memory_mib=5.0))
        record_usage(Usage(cpu_s=2.0, peak_memory_mib=3.0))
    assert (inner.used.cpu_s, outer.used.cpu_s, outer.used.peak_memory_mib) == (1.0, 3.0, 5.0)


async def test_readings_add_up_over_sandboxes_resets_and_ends(backend, small):
    first, second = [await backend.create(small) for _ in range(2)]
    meter = SandboxMeter()
    await first.run_python("open('f', 'wb').write(bytes(1_000))")
    await second.run_python("open('f', 'wb').write(bytes(20_000))")
    assert (await meter.read([first, second])).written_bytes == about(21_000)
    await first.reset()
    await first.run_python("open('f', 'wb').write(bytes(300))")
    used = await meter.read([first, second])
    assert (used.written_bytes, used.started) == (about(21_300), 3)
    await second.close()
    ended = await meter.read([first, second])
    assert (ended.written_bytes, ended.started) == (about(21_300), 3)
    assert ended.disk_bytes < used.disk_bytes, "a closed one holds nothing any more"
    assert ended.peak_memory_mib >= used.peak_memory_mib
    await first.close()


def test_a_counter_that_went_backwards_began_anew():
    assert usage_since(Usage(cpu_s=1.5, started=2), Usage(cpu_s=1.0, started=1)) == Usage(cpu_s=0.5, started=1)
    assert usage_since(Usage(cpu_s=1.5, started=2), Usage(cpu_s=1.0, started=9)) == Usage(cpu_s=1.5, started=2)


def test_figures_are_summed_and_of_peaks_the_highest_counts():
    counts = [
        usage_counts(Usage(cpu_s=1.0, peak_memory_mib=4.0)),
        {"cpu_s": 2.0, "peak_memory_mib": 3.0, "cost": 0.5},
        {},
    ]
    assert counts[0] == {"cpu_s": 1.0, "peak_memory_mib": 4.0}, "what is 0 is left out"
    assert combine_usage(counts) == {"cpu_s": 3.0, "peak_memory_mib": 4.0, "cost": 0.5}


def test_time_in_which_several_things_run_is_counted_once():
    busy = BusyTime()
    assert busy.seconds == 0
    with busy:
        with busy:
            pass
        inside = busy.seconds
    total = busy.seconds
    assert 0 < inside <= total
    assert busy.seconds == total, "it stands still while nothing runs"


def test_overlapping_blocks_count_from_the_first_beginning_to_the_last_end(monkeypatch):
    now = 0.0
    monkeypatch.setattr(metering, "time", SimpleNamespace(monotonic=lambda: now))
    busy = BusyTime()
    with busy:
        now = 2.0
        with busy:
            now = 5.0
        now = 6.0
    now = 100.0
    with busy:
        now = 101.0
        assert busy.seconds == 6 + 1
    assert busy.seconds == 6 + 1
