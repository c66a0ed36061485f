"""What is costly to prepare: once for each backend, whoever asks, and no longer than it is wanted."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox import Snapshot
from agentgym.sandbox.snapshot_cache import shared_snapshot


class Owner:
    """Stands for a backend: snapshots belong to it, nothing of it is called."""


class PreparedSnapshot(Snapshot):
    """A snapshot whose end can be seen."""


class Workshop:
    """Counts what is prepared; a preparation takes as long as its `gate` is closed."""

    def __init__(self) -> None:
        self.prepared: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def ask(self, owner: Owner, key: str, *, kind: str = "repository", most: int = 64) -> Snapshot:
        async def prepare() -> Snapshot:
            self.prepared.append(key)
            await self.gate.wait()
            return PreparedSnapshot(f"{key} no. {len(self.prepared)}", "namespaces", (), {})

        return await shared_snapshot(owner, kind, key, prepare, kept=most)


async def test_those_who_ask_at_once_wait_for_one_preparation():
    owner, workshop = Owner(), Workshop()
    workshop.gate.clear()
    asking = [asyncio.ensure_future(workshop.ask(owner, "a")) for _ in range(5)]
    await asyncio.sleep(0)
    workshop.gate.set()
    snapshots = await asyncio.gather(*asking)
    assert workshop.prepared == ["a"]
    assert all(snapshot is snapshots[0] for snapshot in snapshots)


async def test_each_backend_has_its_own():
    first, second, workshop = Owner(), Owner(), Workshop()
    assert await workshop.ask(first, "a") is not await workshop.ask(second, "a")


async def test_the_last_used_of_a_kind_are_kept_and_no_other_kind_loses_by_it():
    owner, workshop = Owner(), Workshop()
    await workshop.ask(owner, "cluster", kind="postgres", most=2)
    for key in ("a", "b", "a", "c"):  # `b` was used least lately when `c` came
        await workshop.ask(owner, key, most=2)
    assert workshop.prepared == ["cluster", "a", "b", "c"]
    await workshop.ask(owner, "a", most=2)
    await workshop.ask(owner, "cluster", kind="postgres", most=2)
    assert workshop.prepared == ["cluster", "a", "b", "c"]
    await workshop.ask(owner, "b", most=2)
    assert workshop.prepared == ["cluster", "a", "b", "c", "b"]


async def test_a_failure_is_told_to_who_asked_and_the_next_prepares_again():
    owner, workshop = Owner(), Workshop()

    async def fail() -> Snapshot:
        raise SandboxUnavailable("no room")

    with pytest.raises(SandboxUnavailable, match="no room"):
        await shared_snapshot(owner, "repository", "a", fail)
    await workshop.ask(owner, "a")
    assert workshop.prepared == ["a"]


async def test_who_waits_prepares_it_where_the_first_to_ask_was_cancelled():
    owner, workshop = Owner(), Workshop()
    workshop.gate.clear()
    first, second = (asyncio.ensure_future(workshop.ask(owner, "a")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    workshop.gate.set()
    assert (await asyncio.wait_for(second, 10)).id == "a no. 2"
    assert first.cancelled()


def test_another_event_loop_takes_what_an_ended_one_prepared():
    owner, prepared = Owner(), []

    async def ask() -> None:
        workshop = Workshop()
        await workshop.ask(owner, "a")
        prepared.extend(workshop.prepared)

    asyncio.run(ask())
    asyncio.run(ask())
    assert prepared == ["a"]


async def test_snapshots_end_with_their_backend():
    owner = Owner()
    reference = weakref.ref(await Workshop().ask(owner, "a"))
    assert reference() is not None
    del owner
    gc.collect()
    assert reference() is None
