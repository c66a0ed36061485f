"""What an environment server gives out: slots by token, bytes of large requests, connections, the order of requests."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest
from environment_servers import TOKEN, environment_server

from agentgym.cluster import served_episodes
from agentgym.cluster.environment_server import SMALL, ByteBudget
from agentgym.cluster.served_episodes import EpisodeTable, RequestOrder, ServerLimits, ServerRefusal
from agentgym.cluster.wire import PROTOCOL, PROTOCOL_HEADER
from agentgym.testing import Counter, FakeClock


def table(**limits: object) -> EpisodeTable:
    return EpisodeTable(lambda name: Counter(), ServerLimits(**limits))


def test_a_token_has_its_share_and_one_that_is_over_it_holds_nobody_back():
    async def scenario() -> None:
        episodes = table(episodes=3, episodes_per_token=2)
        first = [await episodes.open(0, "c", {}, wait_s=0) for _ in range(2)]
        assert first[0].environment.is_remote, "its results are read by the client"
        third = asyncio.ensure_future(episodes.open(0, "c", {}, wait_s=9))
        await asyncio.sleep(0)
        other = await episodes.open(1, "c", {}, wait_s=1)  # passes the one that waits
        with pytest.raises(ServerRefusal, match="3 episodes are open"):
            await episodes.open(1, "c", {}, wait_s=1)
        assert (len(episodes), episodes.waiting) == (3, 1)
        await episodes.close(first[0])
        await third
        with pytest.raises(ServerRefusal) as refusal:
            episodes.find(1, first[1].id)  # another token's
        assert refusal.value.kind == "lease_lost"
        assert episodes.find(1, other.id) is other
        await episodes.close_all()
        assert len(episodes) == 0

    FakeClock().run(scenario())


def test_a_lease_ends_unless_it_is_renewed():
    async def scenario() -> None:
        episodes = table(lease_s=10)
        renewed, forgotten = [await episodes.open(0, "c", {}, wait_s=0) for _ in range(2)]
        await asyncio.sleep(9)
        assert episodes.renew(0, [renewed.id]) == {}
        await asyncio.sleep(2)
        assert await episodes.expire() == 1
        assert list(episodes.renew(0, [renewed.id, forgotten.id])) == [forgotten.id]
        await episodes.close_all()

    FakeClock().run(scenario())


def test_large_requests_wait_for_each_other_and_small_ones_for_nobody():
    async def scenario() -> None:
        budget, order = ByteBudget(4 * SMALL), []

        async def hold(name: str, n_bytes: int, seconds: float) -> None:
            async with budget.reserve(n_bytes):
                order.append(name)
                await asyncio.sleep(seconds)

        waiting = [asyncio.ensure_future(hold("first", 3 * SMALL, 5)), asyncio.ensure_future(hold("second", 9**9, 5))]
        cancelled = asyncio.ensure_future(hold("cancelled", 2 * SMALL, 5))
        await asyncio.sleep(1)
        cancelled.cancel()
        await hold("small", SMALL, 0)
        await asyncio.gather(*waiting)
        await hold("last", 4 * SMALL, 0)
        assert order == ["first", "small", "second", "last"]

    FakeClock().run(scenario())


def test_requests_begin_by_their_numbers_and_wait_for_a_lost_one_only_so_long():
    async def scenario() -> None:
        order, begun = RequestOrder(), []

        async def begin(number: int, dropped: tuple[int, ...] = ()) -> None:
            await order.wait(number, dropped)
            begun.append(number)

        await asyncio.gather(*(begin(number) for number in (3, 1, 0, 2)))
        await begin(5, (4,))
        now = asyncio.get_running_loop().time
        started = now()
        await begin(7)
        assert now() - started == served_episodes.MISSING_S
        await begin(6)
        await begin(8)
        assert begun == [0, 1, 2, 3, 5, 7, 6, 8]

    FakeClock().run(scenario())


def test_strangers_who_fill_the_connections_keep_no_client_out():
    headers = {"authorization": f"Bearer {TOKEN}", PROTOCOL_HEADER: str(PROTOCOL)}
    with environment_server("--max-connections", "8") as server, httpx.Client(trust_env=False) as client:
        url = f"{server.url}/v1/environments"
        assert client.get(url, headers=headers).status_code == 200
        strangers = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(40)]
        try:
            for stranger in strangers[-8:]:
                stranger.sendall(b"GET / HTTP/1.1\r\nx: ")
            assert client.get(url, headers=headers).status_code == 200  # on the connection that it had
            assert httpx.get(url, headers=headers, trust_env=False).status_code == 200  # and on a new one
        finally:
            for stranger in strangers:
                stranger.close()
