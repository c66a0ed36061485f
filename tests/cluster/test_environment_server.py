"""An environment server: leases, room, faults of clients, and what strangers may not do."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from environment_servers import TOKEN, ServerProcess, environment_server

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task, make
from agentgym.cluster.remote_environment import RemoteEnvironment
from agentgym.cluster.wire import PROTOCOL, PROTOCOL_HEADER
from agentgym.errors import EnvironmentServerError, LeaseLost, ServerFull, ServerUnreachable, VersionMismatch
from agentgym.sandbox import NamespacesBackend
from agentgym.testing import TargetReached

COUNTER, WORKSHOP, ODDITIES = "test/counter-with-state-v1", "test/workshop-v1", "test/oddities-v1"
TASK = Task("t", COUNTER, "Count.")
HEADERS = {"authorization": f"Bearer {TOKEN}", PROTOCOL_HEADER: str(PROTOCOL)}
ROOM = 8


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with environment_server("--max-episodes", str(ROOM), "--lease-s", "2") as process:
        yield process


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_ENVIRONMENT_TOKEN", TOKEN)


def status_of(server: ServerProcess) -> dict[str, object]:
    return httpx.get(f"{server.url}/v1/environments", headers=HEADERS, trust_env=False).json()


async def sandboxes_of(server: ServerProcess) -> int:
    return sum(sandbox.owner == server.process.pid for sandbox in await NamespacesBackend().running())


async def until(holds, what: str) -> None:
    """Wait for something that takes a moment; no test says how long."""
    for _ in range(400):
        value = holds()
        if await value if asyncio.iscoroutine(value) else value:
            return
        await asyncio.sleep(0.05)
    pytest.fail(f"not after 20 s: {what}")


CLIENT = """
import asyncio, sys
from agentgym import Task
from agentgym.cluster import RemoteEnvironment
async def main():
    environment = RemoteEnvironment(sys.argv[1], "test/workshop-v1")
    await environment.reset(Task("t", "test/workshop-v1", "Work."), seed=0)
    print("open", flush=True)
    await asyncio.sleep(100)
asyncio.run(main())
"""


async def test_the_sandbox_of_a_client_that_died_is_freed_when_its_lease_ends_and_not_before(server):
    start = [sys.executable, "-c", CLIENT, server.url]
    client = await asyncio.to_thread(subprocess.Popen, start, stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    with client.stdout:
        assert await asyncio.to_thread(client.stdout.readline) == "open\n"
        await asyncio.sleep(2.5)  # longer than the lease: heartbeats keep it
        assert (await sandboxes_of(server), status_of(server)["episodes"]) == (1, 1)
        client.send_signal(signal.SIGKILL)
        client.wait()
    await until(lambda: status_of(server)["episodes"] == 0, "the episode is closed")
    assert await sandboxes_of(server) == 0


async def test_an_episode_whose_client_was_frozen_is_lost_and_says_so(server):
    environment = RemoteEnvironment(server.url, COUNTER)
    await environment.reset(TASK, seed=0)
    lease = environment._lease
    environment._connection._heartbeats[asyncio.get_running_loop()].remove(lease)  # as if this process had stood still
    await until(lambda: status_of(server)["episodes"] == 0, "the episode is closed")
    with pytest.raises(LeaseLost, match=r"Its lease ended: the server had heard nothing of it for 2 s"):
        await environment.call(Call("add", {}))
    with pytest.raises(LeaseLost):
        await environment.close()


@pytest.mark.thorough
async def test_sixty_four_clients_at_once_wait_for_room_and_all_are_served(server):
    def policy(task: Task) -> ScriptedPolicy:
        add, submit = Call("slow_add", {"amount": 1}), Call("submit", {})
        return ScriptedPolicy([Message("assistant", "", (add,)), Message("assistant", "", (submit,))])

    tasks = [Task(f"t{n}", COUNTER, "Count.", truth="1") for n in range(64)]
    config = RolloutConfig(environment=f"{server.url}/", reward=TargetReached(), concurrency=64)
    trajectories = await EpisodeManager(policy, config).collect(tasks)
    assert [(t.error, t.success) for t in trajectories] == [(None, 1.0)] * 64
    assert status_of(server)["episodes"] == 0


async def test_a_full_server_is_named_after_the_time_that_one_waits(server):
    environments = [RemoteEnvironment(server.url, COUNTER) for _ in range(ROOM)]
    late = RemoteEnvironment(server.url, COUNTER)
    try:
        for environment in environments:
            await environment.reset(TASK, seed=0)
        waiting = asyncio.ensure_future(late.reset(TASK, seed=0))
        await until(lambda: status_of(server)["waiting"] == 1, "one waits")
        await environments.pop().close()
        await waiting  # the slot that became free is its own
        with pytest.raises(ServerFull, match=rf"{ROOM} episodes are open.* --max-episodes"):
            await RemoteEnvironment(server.url, COUNTER, open_s=0.01).reset(TASK, seed=0)
    finally:
        for environment in (*environments, late):
            await environment.close()


def test_strangers_learn_nothing_and_garbage_harms_nobody(server):
    url = server.url
    with httpx.Client(trust_env=False) as client:
        for path in ("/v1/environments", "/v1/episodes/x/reset", "/v1/heartbeats"):
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
                answer = client.request("POST" if path != "/v1/environments" else "GET", url + path, headers=headers)
                assert (answer.status_code, answer.json()["error"]["kind"]) == (401, "wrong_token")
        for body in (b"", b"\xff\xfe", b"[]", b"[" * 100_000, b'{"episodes": 3}', b"null"):
            assert client.post(f"{url}/v1/heartbeats", content=body, headers=HEADERS).status_code == 400
        large = client.post(f"{url}/v1/heartbeats", content=b"x" * (2 * 2**20), headers=HEADERS)
        assert large.status_code == 413
        chunked = client.post(f"{url}/v1/heartbeats", content=iter([b"{}"]), headers=HEADERS)
        assert chunked.status_code == 411
        old = client.get(f"{url}/v1/environments", headers=HEADERS | {PROTOCOL_HEADER: "0"})
        assert (old.status_code, old.json()["error"]["kind"]) == (426, "protocol")
        options = client.post(f"{url}/v1/environments/{ODDITIES}", json={"options": {"start": 1}}, headers=HEADERS)
        assert (options.status_code, options.json()["error"]["kind"]) == (403, "options")
    for garbage in (
        os.urandom(4096),
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01" * 100,
        b"POST /v1/heartbeats HTTP/1.1\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(garbage)
    assert status_of(server)["episodes"] == 0


def test_requests_that_make_no_sense_are_refused_and_the_episode_goes_on(server):
    with httpx.Client(trust_env=False, headers=HEADERS) as client:
        path = f"{server.url}/v1/environments/{COUNTER}"
        digest = client.post(path, json={}).json()["digest"]
        assert client.post(f"{path}/episodes", json={"digest": "other"}).json()["error"]["kind"] == "changed"
        episode = (
            f"{server.url}/v1/episodes/" + client.post(f"{path}/episodes", json={"digest": digest}).json()["episode"]
        )
        order = {"number": 0, "dropped": [], "limit_s": 60}
        task = {"id": "t", "environment": COUNTER, "prompt": "Count."}
        for operation, body in (
            ("call", {"call": "add"} | order),
            ("call", {"call": ["add", {}, "c", None]}),
            ("reset", {"task": {}, "seed": 0} | order),
            ("reset", {"task": task | {"truth": 3}, "seed": 0} | order),
            ("reset", {"task": task, "seed": "0"} | order),
            ("respond", {"message": 3} | order),
            ("restore", {"task": task, "seed": 0, "checkpoint": {"data": {}, "snapshot": {"layers": [{}]}}} | order),
            ("checkpoint", {"known": 3} | order),
        ):
            answer = client.post(f"{episode}/{operation}", json=body)
            assert (answer.status_code, answer.json()["error"]["kind"]) == (400, "bad_request"), (operation, body)
        assert client.post(f"{episode}/exec", json=order).status_code == 404
        assert client.post(f"{episode}/reset", json={"task": task, "seed": 0} | order).json()["value"]
        assert client.delete(episode).json() == {"close_error": None}
        assert client.delete(episode).status_code == 410


async def test_a_server_that_was_killed_fails_a_call_once_and_leaves_no_sandbox():
    with environment_server() as server:
        environment = RemoteEnvironment(server.url, WORKSHOP)
        await environment.reset(TASK, seed=0)
        running = asyncio.ensure_future(environment.call(Call("run", {"command": "sleep 50"})))
        await asyncio.sleep(0.3)
        server.kill()
        with pytest.raises(ServerUnreachable, match="does not answer"):
            await running
        with pytest.raises(ServerUnreachable):
            await environment.state_key()
        await environment.close()
        backend = NamespacesBackend()
        await until(lambda: _gone(backend, server.process.pid), "its sandboxes are gone")


async def test_a_server_that_is_cut_off_is_named_once_and_given_up_when_its_leases_have_ended(caplog):
    with environment_server("--lease-s", "1") as server:
        environment = RemoteEnvironment(server.url, COUNTER)
        await environment.reset(TASK, seed=0)
        server.process.send_signal(signal.SIGSTOP)  # as behind a network that lets nothing through
        try:
            with pytest.raises(ServerUnreachable, match="does not answer"):
                await environment.call(Call("add", {}))
            await environment.close()
        finally:
            server.process.send_signal(signal.SIGCONT)
    [warning] = [record.getMessage() for record in caplog.records if record.name.startswith("agentgym")]
    assert re.match(rf"The server at {server.url} has not answered for \d+ s\. 1 episode of this process will", warning)


async def _gone(backend: NamespacesBackend, pid: int) -> bool:
    await backend.clean()
    return not any(sandbox.owner == pid for sandbox in await backend.running())


async def test_an_episode_goes_on_from_its_checkpoint_when_its_server_was_killed_and_started_again():
    with environment_server() as first:
        port = first.port
        second = environment_server(port=port)

        class Killing(ScriptedPolicy):
            async def generate(self, request):
                if request.turn == 2:
                    first.kill()
                    await asyncio.to_thread(second.__enter__)
                return await super().generate(request)

        add, submit = Call("add", {"amount": 1}), Call("submit", {})
        script = [Message("assistant", "", (call,)) for call in (add, add, add, submit)]
        config = RolloutConfig(environment=f"{first.url}/", reward=TargetReached())
        try:
            [trajectory] = await EpisodeManager(Killing(script), config).collect(
                [Task("t", COUNTER, "Count.", truth="3")]
            )
        finally:
            second.__exit__(None, None, None)
    assert (trajectory.error, trajectory.outcome) == (None, {"success": 1.0})
    assert len(trajectory.turns) == 4
    [retry] = trajectory.provenance.retries
    assert retry.startswith("LeaseLost: ")


async def test_a_server_that_serves_other_tools_than_before_is_no_server_of_this_run(monkeypatch):
    with environment_server() as server:
        environment = make(f"{server.url}/{COUNTER}")
        monkeypatch.setattr(type(environment), "_digest", "of another version")
        with pytest.raises(VersionMismatch, match="start this run again"):
            await environment.reset(TASK, seed=0)
        monkeypatch.undo()
        monkeypatch.setenv("AGENTGYM_ENVIRONMENT_TOKEN", TOKEN)
        fresh = make(f"{server.url}/{COUNTER}")
        await fresh.reset(TASK, seed=0)
        await fresh.close()


def test_what_is_no_environment_server_is_named():
    import http.server
    import threading

    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        with pytest.raises(EnvironmentServerError, match="is not an environment server"):
            make(f"http://127.0.0.1:{other.server_port}/{COUNTER}")
    finally:
        other.shutdown()
        other.server_close()
        thread.join()
    with pytest.raises(ServerUnreachable, match="agentgym serve environments"):
        make(f"http://127.0.0.1:{other.server_port}/{COUNTER}")


def test_json_is_all_that_a_refusal_says(server):
    answer = httpx.get(f"{server.url}/v1/environments", trust_env=False)
    assert json.loads(answer.content) == {
        "error": {"kind": "wrong_token", "message": "The server does not accept this token."}
    }
