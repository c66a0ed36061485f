"""The driver's processor time for a turn that a worker on another node plays: the session, the ledger, the policy's
client.

    python benchmarks/driver.py [--links 64] [--processes 2] [--turns 8] [--episodes 64] [--quick]

The workers are real, over real connections, but all on this host and many in a process; what they play needs neither a
sandbox nor a model (driver_workers.py). The parts are differences between runs with and without a ledger, and with a
policy that answers at once in this process and a policy server that this process or the workers ask. The limit is what
the same bytes need without agentgym: pickled, unpickled and echoed by bare asyncio, inserted into a SQLite table,
written and read as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import pickle
import secrets
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from driver_workers import CHARACTERS_PER_TOKEN, Reading, WideRenderer, reply_ids
from figures import show_table
from rich.table import Table

from agentgym import Budgets, EpisodeManager, Policy, RolloutConfig, Task
from agentgym.cluster.call_frames import Pickled
from agentgym.cluster.call_stream import KEY_BYTES, CallStream, connect
from agentgym.cluster.cluster_session import ClusterSession
from agentgym.cluster.host_link import HostLink, HostNode
from agentgym.cluster.ray_engine import RunLink, spec_of
from agentgym.policy import Reply, Request, VllmPolicy
from agentgym.rollout.episode import EpisodeFactory
from agentgym.storage import Ledger
from agentgym.storage.codec import pack_turn
from agentgym.trajectory.record import Trajectory

WORKERS = Path(__file__).with_name("driver_workers.py")
ADDRESS = "127.0.0.1"
CONTEXTS = (2_000, 14_000, 32_000)
REPLY_TOKENS = 200
TARGET_MS, TARGET_AT = 1.0, 14_000
"""The target: less than this of the driver a turn, with so many tokens of context, if workers ask the server."""


class SocketHost:
    """A worker's process as the RemoteHost of a HostLink, without Ray: another process of this host listens."""

    def __init__(self, stream: CallStream) -> None:
        self._stream = stream

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        return self._stream.call(method, *arguments)

    def beat(self) -> Future[Any]:
        return self._stream.call("beat")

    def end(self) -> None:
        self._stream.close()


class LinkedWorkers:
    """An engine whose workers listen at these ports of this host."""

    name = "linked workers"

    def __init__(self, ports: Sequence[int], key: bytes) -> None:
        self._hosts = [
            HostLink(
                HostNode(str(port), f"worker {port}", 1), SocketHost(CallStream(partial(connect, ADDRESS, port, key)))
            )
            for port in ports
        ]
        self._sessions = itertools.count()

    @asynccontextmanager
    async def session(self, episodes: EpisodeFactory) -> AsyncIterator[ClusterSession]:
        spec = Pickled(pickle.dumps(spec_of(episodes)))
        name = f"run-{next(self._sessions)}"
        links = [RunLink(host, name, spec) for host in self._hosts]
        player = ClusterSession(episodes, lambda: links)
        try:
            await player.open()
            yield player
        finally:
            await player.close()

    async def close(self) -> None:
        """Close the connections."""
        for host in self._hosts:
            host.host.end()
        await asyncio.sleep(0)  # the connections end


class AtOnce(Policy):
    """Answers at once, in the driver."""

    name = "at once"

    def __init__(self) -> None:
        self.renderer: WideRenderer = WideRenderer()
        self._ids = reply_ids(REPLY_TOKENS)
        self._message, self._logprobs = self.renderer.parse(self._ids), [-0.123456789] * len(self._ids)
        self.last = Request(())

    async def generate(self, request: Request) -> Reply:
        self.last = request
        return Reply(self._message, list(self._ids), list(self._logprobs))


class AskedHere(VllmPolicy):
    """A server that only the driver asks, as one on a socket of its host."""

    def copier(self) -> None:
        return None


class Parts(NamedTuple):
    """Milliseconds of the driver's processor a turn."""

    session: float
    ledger: float
    client: float

    @property
    def sum(self) -> float:
        return self.session + self.ledger + self.client


@contextmanager
def process(part: str, number: int | None = None, key: bytes = b"") -> Iterator[list[int]]:
    """Run a part of driver_workers.py. Yields: its ports."""
    command = [sys.executable, str(WORKERS), part, *([] if number is None else [str(number)])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdin is not None and started.stdout is not None
        started.stdin.write(key)
        started.stdin.flush()
        yield json.loads(started.stdout.readline())
        started.stdin.close()


async def play(
    engine: LinkedWorkers, policy: Policy, tokens: int, options: argparse.Namespace, ledger: Ledger | None
) -> tuple[float, list[Trajectory]]:
    """Return the driver's processor milliseconds a turn, and the episodes. Raises: RuntimeError if one failed."""
    text = ("word " * tokens)[: tokens * CHARACTERS_PER_TOKEN]
    tasks = [Task(f"t{number}", "benchmark/reading-v1", text) for number in range(options.episodes)]
    budgets = Budgets(max_turns=options.turns, max_episode_tokens=10**9, max_turn_tokens=4 * REPLY_TOKENS)
    concurrency = max(1, 2 * options.links)
    config = RolloutConfig(environment=Reading, engine=engine, budgets=budgets, concurrency=concurrency)
    began = time.process_time()
    trajectories = await EpisodeManager(policy, config, ledger=ledger, label=f"run-{time.time_ns()}").collect(tasks)
    took_s = time.process_time() - began
    for trajectory in trajectories:
        if len(trajectory.turns) != options.turns or trajectory.error:
            raise RuntimeError(f"{trajectory.id}: {trajectory.error or trajectory.stop_reason}")
    return 1000 * took_s / (options.turns * options.episodes), trajectories


async def measure(
    engine: LinkedWorkers, url: str, tokens: int, options: argparse.Namespace, folder: Path
) -> tuple[dict[str, Parts], AtOnce, Trajectory]:
    """Return the parts of a turn by who asks the server, and what a request and an episode look like."""
    here = AtOnce()
    served, asked_here = (kind(url, "m", renderer=here.renderer) for kind in (VllmPolicy, AskedHere))  # type: ignore[arg-type]
    ledger = Ledger(folder / f"{time.time_ns()}.sqlite")
    try:
        session, _ = await play(engine, here, tokens, options, None)
        written, _ = await play(engine, here, tokens, options, ledger)
        asking, _ = await play(engine, asked_here, tokens, options, ledger)
        session_alone, _ = await play(engine, served, tokens, options, None)
        written_alone, [*_, trajectory] = await play(engine, served, tokens, options, ledger)
    finally:
        await asked_here.close()
        ledger.close()
    parts = {"the driver": Parts(session, written - session, asking - written)}
    parts["the workers"] = Parts(session_alone, written_alone - session_alone, 0.0)
    return parts, here, trajectory


async def bare(request: Request, trajectory: Trajectory, echo_port: int, file: Path, repeats: int) -> Parts:
    """Return the milliseconds that the bytes of a turn need without agentgym."""
    turn = trajectory.turns[-2]
    received = pickle.dumps([("ask", 1, 1, "generate", (request,)), ("turn", 1, turn, None)], pickle.HIGHEST_PROTOCOL)
    reply = Reply(turn.message, turn.token_ids, turn.logprobs)
    sent_bytes = len(received) + len(pickle.dumps(reply, pickle.HIGHEST_PROTOCOL))
    reader, writer = await asyncio.open_connection(ADDRESS, echo_port, limit=1 << 20)

    async def echo() -> None:
        pickle.loads(received)
        writer.write(pickle.dumps(reply, pickle.HIGHEST_PROTOCOL))
        writer.write(received)
        await reader.readexactly(sent_bytes)

    began = time.process_time()
    for _ in range(repeats):
        await echo()
    session = time.process_time() - began
    writer.close()
    row, connection = pack_turn(turn), sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE turn (head, token_ids, logprobs, observation_ids)")
    ledger = timed(lambda: connection.execute("INSERT INTO turn VALUES (?, ?, ?, ?)", row), repeats)
    connection.close()
    body = {"model": "m", "prompt": list(request.prefix_ids or ()), "max_tokens": 800, "temperature": 1.0}
    answer = {"choices": [{"token_ids": turn.token_ids, "logprobs": {"token_logprobs": turn.logprobs}}]}
    text = json.dumps(answer)
    client = timed(lambda: (json.dumps(body), json.loads(text)), repeats)
    return Parts(1000 * session / repeats, ledger, client)


def timed(work: Callable[[], object], repeats: int) -> float:
    """Return the processor milliseconds of one call."""
    began = time.process_time()
    for _ in range(repeats):
        work()
    return 1000 * (time.process_time() - began) / repeats


async def rows(options: argparse.Namespace, ports: list[int], key: bytes, url: str, echo_port: int) -> Table:
    """Measure each size of context."""
    engine = LinkedWorkers(ports, key)
    columns = ("tokens a turn", "the server is asked by", "session", "ledger", "client", "all", "turns/s")
    table = Table(*columns, title=f"the driver's processor milliseconds a turn, {len(ports)} links")
    try:
        with TemporaryDirectory() as name:
            folder = Path(name)
            await measure(engine, url, 200, options, folder)  # fills caches
            for tokens in options.contexts:
                parts, here, trajectory = await measure(engine, url, tokens, options, folder)
                parts["limit"] = await bare(
                    here.last, trajectory, echo_port, folder / f"bare-{tokens}.sqlite", options.repeats
                )
                for who, times in parts.items():
                    cells = (f"{each:.2f}" for each in (*times, times.sum))
                    verdict = " ok" if times.sum < TARGET_MS else " too much"
                    is_target = who == "the workers" and tokens == TARGET_AT
                    table.add_row(f"{tokens:,}", who, *cells, f"{1000 / times.sum:.0f}{verdict if is_target else ''}")
    finally:
        await engine.close()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=int, default=64, help="workers, each with a connection of its own")
    parser.add_argument("--processes", type=int, default=2, help="the processes that the workers share")
    parser.add_argument("--episodes", type=int, default=64, help="of each run")
    parser.add_argument("--turns", type=int, default=8, help="of each episode")
    parser.add_argument("--quick", action="store_true", help="so little work that the figures mean nothing")
    options = parser.parse_args()
    options.contexts, options.repeats = CONTEXTS, 200
    if options.quick:
        options.links, options.processes, options.episodes, options.turns = 2, 1, 2, 2
        options.contexts, options.repeats = CONTEXTS[:1], 2
    key = secrets.token_bytes(KEY_BYTES)
    with ExitStack() as processes:
        started = [("workers", options.links // options.processes)] * options.processes
        ports = [port for part, count in started for port in processes.enter_context(process(part, count, key))]
        [server] = processes.enter_context(process("server", REPLY_TOKENS))
        [echo] = processes.enter_context(process("echo"))
        show_table(asyncio.run(rows(options, ports, key, f"http://{ADDRESS}:{server}", echo)))


if __name__ == "__main__":
    main()
