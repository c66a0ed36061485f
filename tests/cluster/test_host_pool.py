"""A pool has a host on each live node: hosts that die are replaced, slow ones are waited for, bad nodes are named."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager

import pytest

from agentgym.cluster import host_pool
from agentgym.cluster.backoff import Backoff
from agentgym.cluster.host_link import HostLink, HostNode
from agentgym.cluster.host_pool import HostPool
from agentgym.errors import ClusterError, NodeLost
from agentgym.testing import FakeClock


class Host:
    """A host that answers everything at once."""

    def call(self, method: str, *arguments) -> Future[None]:
        answer: Future[None] = Future()
        answer.set_result(None)
        return answer

    def beat(self) -> Future[None]:
        return self.call("beat")

    def end(self) -> None:
        pass


class Cluster:
    """Nodes of a cluster, and the starts of their hosts: the time and the node of each."""

    def __init__(self, *names: str) -> None:
        self.nodes = {name: HostNode(name, name, 1) for name in names}
        self.starts: list[tuple[float, str]] = []
        self.check: Callable[[HostLink], Awaitable[str]] = self.fine
        self.pool = HostPool(lambda: [*self.nodes.values()], self.start, lambda link: self.check(link))

    async def fine(self, link: HostLink) -> str:
        return ""

    def start(self, node: HostNode) -> HostLink:
        self.starts.append((asyncio.get_running_loop().time(), node.name))
        return HostLink(node, Host())

    @asynccontextmanager
    async def healing(self):
        """Heal on this event loop, as after `open`."""
        self.pool.is_open = True
        healing = asyncio.ensure_future(self.pool.heal())
        yield self.pool
        self.pool._stop.set()
        await healing

    def pauses(self) -> list[float]:
        times = [time for time, _ in self.starts]
        return [later - earlier for earlier, later in itertools.pairwise(times)]


def test_pauses_double_up_to_their_bound_and_end_with_a_success():
    pauses, now, seen = Backoff(2.0, 10.0, free=1), 0.0, []
    for _ in range(6):
        pauses.fail(now)
        seen.append(max(0.0, pauses.until - now))
        pauses.fail(now)  # of an attempt from before the pause, except for the first, which costs nothing
        now = max(now, pauses.until)
    assert seen == [0.0, 4.0, 8.0, 10.0, 10.0, 10.0]
    pauses.succeed()
    pauses.fail(now)
    assert pauses.until < now


def test_a_host_that_dies_is_replaced_and_one_that_always_dies_at_once_ever_more_rarely(caplog):
    cluster = Cluster("a", "b")

    async def scenario() -> None:
        async with cluster.healing() as pool:
            await asyncio.sleep(60)
            assert sorted(pool.links) == ["a", "b"]
            pool.links["b"].lose("its process has ended")
            await asyncio.sleep(3)
            assert [link.node.name for link in pool.alive] == ["a", "b"]
            assert pool.lost == ["The node b is lost (its process has ended)."]
            assert not caplog.messages
            del cluster.nodes["b"]
            for _ in range(400):
                if "a" in pool.links:
                    pool.links["a"].lose("out of memory")
                await asyncio.sleep(1)

    FakeClock().run(scenario())
    assert [name for _, name in cluster.starts[:3]] == ["a", "b", "b"]
    pauses = [round(pause) for pause in cluster.pauses()[3:]]
    assert pauses == sorted(pauses)
    assert pauses[0] <= 3
    assert 60 <= pauses[-1] <= 62, "never for ever"
    [warning] = caplog.messages
    assert "The node a has lost 3 workers soon after their start (The node a is lost (out of memory)). It is" in warning
    assert "tried again in 4 s, and then after pauses that grow to 60 s" in warning


def test_a_slow_host_is_named_and_joins_and_a_node_that_joins_or_leaves_is_noticed(caplog):
    cluster = Cluster("a", "slow")

    async def slow(link: HostLink) -> str:
        await asyncio.sleep(90 if link.node.name == "slow" else 0)
        return ""

    async def scenario() -> None:
        cluster.check = slow
        async with cluster.healing() as pool:
            await asyncio.sleep(25)
            assert [*pool.links] == ["a"]
            expected = "The worker on the node slow has not started within 20 s. It joins when it is ready."
            assert caplog.messages == [expected]
            cluster.nodes["c"] = HostNode("c", "c", 1)
            await asyncio.sleep(2)
            assert [*pool.links] == ["a", "c"]
            await asyncio.sleep(70)
            assert [*pool.links] == ["a", "c", "slow"]
            del cluster.nodes["c"]
            pool.links["c"].lose("its node is gone")
            await asyncio.sleep(60)
            assert [*pool.links] == ["a", "slow"]

    FakeClock().run(scenario())
    assert [name for _, name in cluster.starts] == ["a", "slow", "c"]
    assert len(caplog.messages) == 1


def test_a_node_that_joins_and_cannot_be_used_is_named_once_and_used_when_it_is_repaired(caplog):
    cluster, version = Cluster("a"), ["0.0.1"]

    async def check(link: HostLink) -> str:
        return f"it has agentgym {version[0]}" if link.node.name == "b" and version else ""

    async def scenario() -> None:
        cluster.check = check
        async with cluster.healing() as pool:
            cluster.nodes["b"] = HostNode("b", "b", 1)
            await asyncio.sleep(1000)
            assert [*pool.links] == ["a"]
            version.clear()
            await asyncio.sleep(61)
            assert [*pool.links] == ["a", "b"]

    FakeClock().run(scenario())
    [warning] = caplog.messages
    assert warning.startswith("The node b cannot be used (it has agentgym 0.0.1). It is tried again in 1 s")


def test_at_the_start_every_node_that_cannot_be_used_is_named_and_nothing_is_left():
    cluster = Cluster("a", "b", "c")

    async def check(link: HostLink) -> str:
        return "" if link.node.name == "a" else "its disk is full."

    async def scenario() -> None:
        cluster.check = check
        waiters = await asyncio.gather(*(cluster.pool.open() for _ in range(3)), return_exceptions=True)
        assert {str(error) for error in waiters} == {
            "These nodes cannot be used: b: its disk is full. c: its disk is full."
        }
        assert all(isinstance(error, ClusterError) for error in waiters)
        assert not cluster.pool.links
        cluster.check = cluster.fine
        await cluster.pool.open()
        assert sorted(link.node.name for link in cluster.pool.alive) == ["a", "b", "c"]
        await cluster.pool.close()

    asyncio.run(scenario())


def test_at_the_start_a_node_that_turns_out_to_be_dead_is_left_out_and_one_whose_hosts_break_is_named(monkeypatch):
    """The cluster lists a dead node for a while, and its hosts break as those of a node without agentgym do."""
    monkeypatch.setattr(host_pool, "SLOW_S", 0.6)
    monkeypatch.setattr(host_pool, "SCAN_S", 0.05)
    monkeypatch.setattr(host_pool, "PAUSE_S", 0.01)

    async def broken(link: HostLink) -> str:
        if link.node.name == "b":
            raise NodeLost("its worker failed.")
        return ""

    async def scenario(*, is_dead: bool) -> None:
        cluster = Cluster("a", "b")
        cluster.check = broken
        if is_dead:
            asyncio.get_running_loop().call_later(0.3, lambda: cluster.nodes.pop("b"))
        try:
            await cluster.pool.open()
            assert [link.node.name for link in cluster.pool.alive] == ["a"]
        finally:
            await cluster.pool.close()

    asyncio.run(scenario(is_dead=True))
    with pytest.raises(ClusterError, match=r"These nodes cannot be used: b: its worker failed\."):
        asyncio.run(scenario(is_dead=False))
