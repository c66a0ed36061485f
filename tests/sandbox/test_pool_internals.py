"""The pure parts of the pool: whose turn it is, what the machine has room for, what is learnt of a sandbox."""

from __future__ import annotations

import os
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandbox_scripts import until
from specs import SMALL

from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.sandbox.pool.admission import FairQueue
from agentgym.sandbox.pool.headroom import Headroom, measure_headroom
from agentgym.sandbox.pool.pool import Pool
from agentgym.sandbox.pool.stats import WaitTimes
from agentgym.sandbox.pool.warm_set import WarmSet


def test_owners_take_turns_and_so_do_the_kinds_an_owner_asks_for():
    queue = FairQueue[str]()
    for tenant, kind, item in (
        ("a", "x", "ax1"),
        ("a", "x", "ax2"),
        ("a", "y", "ay1"),
        ("b", "x", "bx1"),
        ("a", "x", "ax3"),
        ("b", "x", "bx2"),
    ):
        queue.push(tenant, kind, item)
    served = []
    while queue:
        served.append(queue.head())
        assert queue.pop() == served[-1]
    assert served == ["ax1", "bx1", "ay1", "bx2", "ax2", "ax3"]
    assert queue.head() is None
    with pytest.raises(IndexError):
        queue.pop()


def test_an_owner_who_left_comes_back_at_the_end():
    queue = FairQueue[str]()
    queue.push("a", "x", "a1")
    queue.remove("a", "x", "a1")
    queue.push("b", "x", "b1")
    queue.push("a", "x", "a2")
    assert [queue.pop() for _ in range(2)] == ["b1", "a2"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.booleans()), max_size=30))
def test_each_line_is_first_in_first_out_and_loses_only_who_left(requests):
    queue = FairQueue[int]()
    for number, (tenant, kind, _) in enumerate(requests):
        queue.push(tenant, kind, number)
    for number, (tenant, kind, leaves) in enumerate(requests):
        if leaves:
            queue.remove(tenant, kind, number)
            queue.remove(tenant, kind, number)
    assert len(queue) == sum(not leaves for *_, leaves in requests)
    served = [queue.pop() for _ in range(len(queue))]
    for tenant in "ab":
        for kind in "xyz":
            line = [n for n in served if requests[n][:2] == (tenant, kind)]
            assert line == [n for n, ask in enumerate(requests) if ask == (tenant, kind, False)]


def test_nobody_waits_for_more_than_one_turn_of_each_other_owner():
    queue = FairQueue[str]()
    for number in range(100):
        queue.push("crowd", f"kind {number % 7}", f"crowd {number}")
    queue.push("single", "kind 0", "single")
    assert [queue.pop() for _ in range(2)][1] == "single"


def test_the_room_says_what_is_exhausted():
    room = Headroom(memory_mib=1000, memory_kept_mib=100, descriptors=100, processes=200)
    assert room.shortage(cost_mib=300, taken_mib=600, taken=1) == ""
    assert "memory: 299 MiB" in room.shortage(cost_mib=300, taken_mib=601, taken=1)
    # 100 descriptors, 32 kept: room for 22 sandboxes of 3
    assert room.shortage(cost_mib=1, taken_mib=0, taken=21) == ""
    assert "ulimit -n" in room.shortage(cost_mib=1, taken_mib=0, taken=22)
    # 200 processes, 64 kept: room for 68 of 2
    assert "pids.max" in Headroom(processes=200).shortage(cost_mib=1, taken_mib=0, taken=68)
    assert Headroom().shortage(cost_mib=1e9, taken_mib=1e9, taken=10**6) == "", "what nobody limits is never exhausted"


def test_the_machine_is_measured():
    room = measure_headroom()
    assert 0 < room.memory_kept_mib < room.memory_mib < 2**24
    assert room.processes > 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
        before = measure_headroom().descriptors
        pair = os.pipe()
        assert before - measure_headroom().descriptors == 2
        for descriptor in pair:
            os.close(descriptor)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_shelf_expects_what_its_sandboxes_were_seen_to_take():
    warm_set = WarmSet("key", SMALL, None)
    assert warm_set.cost_mib == 64 / 8
    warm_set.learn(0.0)
    assert warm_set.cost_mib == 64 / 8, "nothing seen, nothing learnt"
    warm_set.learn(30.0)
    warm_set.learn(50.0)
    assert warm_set.cost_mib == 40 * 1.25
    for _ in range(64):
        warm_set.learn(0.1)
    assert warm_set.cost_mib == 4.0, "old ones are forgotten, and none takes nothing"


def test_the_target_grows_only_while_requests_find_nothing():
    warm_set, targets = WarmSet("key", SMALL, None), []
    for _ in range(6):
        warm_set.ask(0.0)
        warm_set.missed(most=5)
        targets.append(warm_set.target)
    assert targets == [0, 1, 2, 4, 5, 5]


def test_wait_times_are_percentiles_of_the_last_thousand():
    waits = WaitTimes()
    assert waits.percentiles() == (0.0, 0.0, 0.0)
    for number in range(5000):
        waits.add(float(number))
    assert waits.percentiles() == (4500.0, 4950.0, 4990.0)


@pytest.mark.needs_namespaces
async def test_a_sandbox_taken_just_after_its_creation_is_replaced():
    """The restock after a request may come before the end of the task that has added a new sandbox."""
    pool = Pool(NamespacesBackend())
    try:
        await pool.warm(SMALL, 2)
        [warm_set] = pool._warm_sets.values()
        add_warm = pool._add_warm

        async def restocking_at_once(*arguments):
            await add_warm(*arguments)
            pool._restock(warm_set)

        pool._add_warm = restocking_at_once
        await pool._end(warm_set.take())
        pool._restock(warm_set)  # fills one slot in the background
        await pool._end(warm_set.take())
        await until(lambda: pool.stats().ready == 2, "two ready sandboxes")
    finally:
        await pool.close()
