"""The pool over real sandboxes: fresh ones at once, never more than there is room for, nobody served unfairly."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from counts import groups, guests_below, open_files, processes_below, working_below
from processes import spawners
from specs import SMALL

from agentgym import load_task_set, make
from agentgym.errors import SandboxDied, SandboxUnavailable
from agentgym.sandbox import Capabilities, NamespacesBackend, Pool
from agentgym.sandbox.pool import admission
from agentgym.sandbox.pool.headroom import Headroom
from agentgym.testing import check_backend
from agentgym.testing.backends import runs, testbed

pytestmark = pytest.mark.needs_namespaces
OTHER = replace(SMALL, memory_mib=96)


@asynccontextmanager
async def pooling(backend=NamespacesBackend, **options) -> AsyncIterator[Pool]:
    pool = Pool(backend(), **options)
    try:
        yield pool
    finally:
        await pool.close()


async def until(condition, what: str) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"waited in vain for {what}")


def guests() -> set[int]:
    """Process 1 of each sandbox, whatever runs in it left out."""
    return guests_below(os.getpid())


# These count sandboxes on the host before and after, where a pool keeps some ready; its own tests count those.
COUNTED = {
    "running_lists_a_sandbox_until_it_is_closed",
    "a_cancelled_creation_leaves_nothing",
    "a_closed_sandbox_leaves_nothing",
}


@pytest.mark.thorough  # test_backend_contract.py checks another pool
async def test_a_pool_is_a_backend_and_keeps_the_contract():
    async with pooling(ready=2) as pool:
        await check_backend(pool, attacks=False, only=set(runs.checks(await pool.probe(), attacks=False)) - COUNTED)
        stats = pool.stats()
        assert (stats.leased, stats.waiting) == (0, 0)
        assert stats.hits > 0, "checks found sandboxes ready"
    assert pool.stats().ready == 0


async def test_a_sandbox_that_lies_ready_is_handed_out_once():
    async with pooling() as pool:
        await pool.warm(SMALL, 2)
        assert (pool.stats().ready, pool.stats().created) == (2, 2)
        first = await pool.create(SMALL)
        await first.write("secret", b"of the first holder")
        await first.close()
        for _ in range(4):
            sandbox = await pool.create(SMALL)
            assert await sandbox.list() == []
            await sandbox.close()
        assert pool.stats().hits >= 2
        # A caller who finds none ready doubles how many are wanted, so there may be more than two.
        await until(lambda: pool.stats().ready >= 2, "the shelf to be filled again")
        assert pool.stats().leased == 0


async def test_a_single_use_warms_nothing_and_frequent_use_more_and_more():
    async with pooling(ready=4) as pool:
        await (await pool.create(SMALL)).close()
        await asyncio.sleep(0.05)
        assert (pool.stats().created, pool.stats().ready) == (1, 0)
        held = [await pool.create(SMALL) for _ in range(12)]
        await until(lambda: pool.stats().ready == 4 and not pool.stats().changing, "four to lie ready")
        for sandbox in held:
            await sandbox.close()


async def test_dead_sandboxes_on_the_shelf_are_replaced_and_never_handed_out():
    async with pooling() as pool:
        await pool.warm(SMALL, 3)
        for pid in guests():
            os.kill(pid, signal.SIGKILL)
        sandbox = await pool.create(SMALL)
        assert (await sandbox.run_python("print(1)")).stdout == b"1\n"
        assert pool.stats().died == 3
        await sandbox.close()


async def test_a_killed_spawner_costs_the_ready_sandboxes_and_nothing_more():
    spawners_before, guests_before = spawners(), guests()
    async with pooling() as pool:
        await pool.warm(SMALL, 2)
        (spawner,) = spawners() - spawners_before
        os.kill(spawner, signal.SIGKILL)
        await until(lambda: guests() <= guests_before, "its sandboxes to end with it")
        for _ in range(3):
            sandbox = await pool.create(SMALL)
            assert (await sandbox.run_python("print(1)")).stdout == b"1\n"
            await sandbox.close()
        assert pool.stats().died == 2


async def test_an_expired_lease_is_closed_and_its_holder_is_told():
    async with pooling(lease_s=0.2) as pool:
        sandbox = await pool.create(SMALL)
        extended = await pool.lease(SMALL)
        extended.extend(60)
        running = asyncio.create_task(sandbox.run_python("import time; time.sleep(60)", timeout_s=100))
        with pytest.raises(SandboxDied, match=r"lease.*0\.2 s.*lease_s"):
            await running
        with pytest.raises(SandboxDied, match="lease"):
            await sandbox.list()
        await sandbox.close()
        assert (await extended.run_python("print(1)")).ok
        await extended.close()
        await until(lambda: pool.stats().leased == 0, "the leases to end")
        assert (pool.stats().expired, pool.stats().died) == (1, 0)


async def test_no_more_are_alive_than_allowed_and_who_waits_too_long_is_told_why():
    async with pooling(max_alive=2, wait_s=0.3) as pool:
        held = [await pool.create(SMALL) for _ in range(2)]
        with pytest.raises(SandboxUnavailable, match=r"0\.3 s.*max_alive"):
            await pool.create(SMALL)
        assert len(guests()) == 2
        waiting = asyncio.create_task(pool.create(SMALL))
        await until(lambda: pool.stats().waiting == 1, "an asker in the queue")
        await held.pop().close()
        held.append(await waiting)
        for sandbox in held:
            await sandbox.close()


async def test_those_who_wait_are_served_in_turn_over_tenants_and_specs():
    order = []

    async def ask(pool: Pool, tenant: str, spec, word: str) -> None:
        sandbox = await pool.for_tenant(tenant).create(spec)
        order.append(word)
        await asyncio.sleep(0.01)
        await sandbox.close()

    async with pooling(max_alive=1, ready=0) as pool:
        first = await pool.create(SMALL)
        crowd = [("a", SMALL, "a1"), ("a", SMALL, "a2"), ("a", SMALL, "a3"), ("a", OTHER, "a other"), ("b", SMALL, "b")]
        asking = []
        for tenant, spec, word in crowd:
            asking.append(asyncio.create_task(ask(pool, tenant, spec, word)))
            await until(lambda: pool.stats().waiting == len(asking), "everyone in the queue")
        await first.close()
        await asyncio.gather(*asking)
    assert order == ["a1", "b", "a other", "a2", "a3"]


async def test_ready_sandboxes_make_room_for_whoever_asks_for_others():
    async with pooling(max_alive=2) as pool:
        await pool.warm(SMALL, 2)
        held = [await pool.create(OTHER) for _ in range(2)]
        assert (pool.stats().ready, pool.stats().evicted) == (0, 2)
        assert len(guests()) == 2
        for sandbox in held:
            await sandbox.close()


async def test_what_nobody_asks_for_is_not_kept_ready():
    async with pooling(idle_s=0.2) as pool:
        await pool.warm(SMALL, 3)
        await until(lambda: not (pool.stats().ready or pool.stats().changing), "the shelf to be emptied")
        assert guests() == set()
        sandbox = await pool.create(SMALL)
        await sandbox.close()


@pytest.mark.parametrize(
    ("room", "word"),
    [
        (Headroom(memory_mib=600, memory_kept_mib=595), "memory"),
        (Headroom(descriptors=33), "ulimit -n"),
        (Headroom(processes=65), "processes"),
    ],
    ids=["memory", "descriptors", "processes"],
)
async def test_the_error_names_what_is_exhausted(monkeypatch, room, word):
    monkeypatch.setattr(admission, "measure_headroom", lambda: room)
    async with pooling(wait_s=0.1) as pool:
        with pytest.raises(SandboxUnavailable, match=word):
            await pool.create(SMALL)


async def test_as_many_are_let_in_as_fit_by_what_they_were_seen_to_take(monkeypatch):
    """Room for 200 MiB. At first a sandbox of 256 MiB is taken to need 32, so 6 fit; each is then seen to take
    60 MiB and Python itself, times 1.25 is 75 to 100: of those, 2 fit."""
    spec = replace(SMALL, memory_mib=256)
    monkeypatch.setattr(admission, "measure_headroom", lambda: Headroom(memory_mib=200))
    async with pooling(wait_s=0.1, ready=0) as pool:
        held = [await pool.create(spec) for _ in range(6)]
        with pytest.raises(SandboxUnavailable, match="memory"):
            await pool.create(spec)
        for sandbox in held:
            await sandbox.run_python("x = b'x' * (60 << 20)")
            await sandbox.close()
        held = [await pool.create(spec) for _ in range(2)]
        with pytest.raises(SandboxUnavailable, match="memory: the 2 sandboxes alive"):
            await pool.create(spec)
        for sandbox in held:
            await sandbox.close()


async def test_cancelled_requests_leave_nothing_behind():
    async with pooling(max_alive=3, ready=2) as pool:
        for pause in (0.0, 0.0, 0.001, 0.002, 0.004, 0.008, 0.016):
            asking = [asyncio.create_task(pool.create(SMALL)) for _ in range(6)]
            await asyncio.sleep(pause)
            for task in asking:
                task.cancel()
            for created in await asyncio.gather(*asking, return_exceptions=True):
                if not isinstance(created, BaseException):
                    await created.close()
        await until(lambda: not (pool.stats().leased or pool.stats().changing), "every place to be given back")
        held = [await pool.create(SMALL) for _ in range(3)]
        for sandbox in held:
            await sandbox.close()


def test_work_that_was_cancelled_before_it_began_leaves_no_place_taken():
    """An event loop ends just after work was begun in the background: to restock, to make room, to end a lease."""
    pool = Pool(NamespacesBackend(), ready=2, max_alive=2, lease_s=0.3, wait_s=10)

    async def ask_and_leave(spec) -> None:
        for _ in range(2):
            sandbox = await pool.create(spec)
            await sandbox.close()
        pool._warm_set_of(spec, None).target = 2
        await pool.create(spec)  # and never closed

    for spec in (SMALL, OTHER, SMALL):
        asyncio.run(ask_and_leave(spec))
    assert pool.stats().changing == 0
    asyncio.run(ask_and_leave(OTHER))
    asyncio.run(pool.close())
    assert guests() == set()


async def test_restored_snapshots_lie_ready_too():
    async with pooling(ready=2) as pool:
        sandbox = await pool.create(SMALL)
        await sandbox.write("word", b"kept")
        snapshot = await sandbox.snapshot()
        await sandbox.close()
        await pool.warm(SMALL, 1, snapshot=snapshot)
        copy = await pool.create(SMALL, snapshot=snapshot)
        assert (pool.stats().hits, await copy.read("word")) == (1, b"kept")
        await copy.close()
        plain = await pool.create(SMALL)
        assert await plain.list() == []
        await plain.close()


async def test_the_shelf_is_filled_again_after_failures_in_the_background():
    class Failing(NamespacesBackend):
        failures = 0

        async def create(self, spec, **options):
            if self.failures:
                self.failures -= 1
                raise SandboxUnavailable("busy")
            return await super().create(spec, **options)

    async with pooling(Failing) as pool:
        await pool.warm(SMALL, 1)
        pool._warm_set_of(SMALL, None).pause_s, pool.backend.failures = 0.02, 2
        await (await pool.create(SMALL)).close()
        await until(lambda: pool.stats().ready == 1, "the shelf to be filled, though nobody asks")


async def test_a_failed_creation_is_its_callers_and_frees_the_slot():
    async with pooling(max_alive=1, wait_s=1) as pool:
        for _ in range(2):
            with pytest.raises(SandboxUnavailable, match="not installed"):
                await pool.create(replace(SMALL, preload=("no_such_module",)))
        with pytest.raises(SandboxUnavailable, match="not installed"):
            await pool.warm(replace(SMALL, preload=("no_such_module",)), 1)
        await (await pool.create(SMALL)).close()


async def test_a_closed_pool_leaves_nothing():
    before = (working_below(os.getpid()), testbed.mounts(), open_files())
    pool = Pool(NamespacesBackend(), max_alive=4)
    await pool.warm(SMALL, 2)
    held = [await pool.create(SMALL) for _ in range(3)]
    running = asyncio.create_task(held[0].exec(["sleep", "60"]))
    waiting = [asyncio.create_task(pool.create(OTHER)) for _ in range(3)]
    await until(lambda: pool.stats().waiting >= 2, "askers in the queue")
    below = processes_below(os.getpid())
    await pool.close()
    for waiter in waiting:
        with pytest.raises((SandboxUnavailable, SandboxDied), match="clos"):
            await (await waiter).list()
    with pytest.raises(SandboxDied):
        await running
    await held[1].close()
    assert (working_below(os.getpid()), testbed.mounts(), open_files()) == before
    assert not any(groups(pid) for pid in below)
    assert pool.stats().ready == pool.stats().leased == pool.stats().changing == 0
    await (await pool.create(SMALL)).close()
    await pool.close()


def test_one_pool_serves_one_event_loop_after_another_and_several_at_once():
    pool = Pool(NamespacesBackend(), ready=2, max_alive=6)
    outputs = []

    async def use(times: int) -> None:
        for _ in range(times):
            sandbox = await pool.create(SMALL)
            outputs.append((await sandbox.run_python("print(2)")).stdout)
            await sandbox.close()

    asyncio.run(pool.warm(SMALL, 2))
    asyncio.run(use(2))
    assert pool.stats().hits >= 2, "what lay ready in a loop that ended is taken up by the next"
    threads = [threading.Thread(target=lambda: asyncio.run(use(8))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == [b"2\n"] * 34
    asyncio.run(pool.close())
    assert guests() == set()


def test_after_a_fork_the_child_begins_anew_and_the_parent_keeps_its_own():
    pool = Pool(NamespacesBackend())

    async def use() -> bytes:
        sandbox = await pool.create(SMALL)
        output = (await sandbox.run_python("print(3)")).stdout
        await sandbox.close()
        return output

    asyncio.run(pool.warm(SMALL, 2))
    pid = os.fork()
    if pid == 0:
        good = False
        try:
            good = asyncio.run(use()) == b"3\n" and pool.stats().created == 1
            asyncio.run(pool.close())
        finally:
            os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert asyncio.run(use()) == b"3\n"
    assert pool.stats().hits == 1
    asyncio.run(pool.close())


async def test_an_environment_takes_its_sandboxes_from_the_pool():
    async with pooling() as pool:
        environment = make("agentgym/code-v1", backend=pool)
        await pool.warm(environment.sandbox, 1)
        task = load_task_set("code/functions-v1")["train"][0].public()
        await environment.reset(task, seed=0)
        assert pool.stats().hits == 1
        await environment.close()
        assert pool.stats().leased == 0


@pytest.mark.parametrize("options", [{"ready": -1}, {"max_alive": 0}, {"lease_s": 0}, {"wait_s": -1}, {"idle_s": 0}])
def test_numbers_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Pool(NamespacesBackend(), **options)


async def test_what_the_backend_says_is_passed_on():
    async with pooling() as pool:
        capabilities = await pool.probe()
        assert isinstance(capabilities, Capabilities)
        assert capabilities.available
        sandbox = await pool.create(SMALL)
        assert isinstance(sandbox.missing, dict), "what a sandbox has beyond the contract is there"
        await sandbox.close()
