"""Starting a vLLM server where there is none to start; tests/vllm_server starts real ones."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import pytest

from agentgym.errors import PolicyError
from agentgym.messages import Message
from agentgym.policy import Request, make_tokenizer
from agentgym.policy.http import JsonEndpoint, RetryPolicy
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.vllm import VllmPolicy
from agentgym.policy.vllm_server import VllmServer
from agentgym.registry import load


def test_a_server_that_ends_is_explained_by_the_end_of_its_log(tmp_path):
    server = VllmServer(log=tmp_path / "log.txt", python=sys.executable)
    socket_folder = os.path.dirname(server.address.removeprefix("unix:"))
    assert os.stat(socket_folder).st_mode & 0o077 == 0  # whoever reaches it can replace the weights
    server.start("no-model")
    with pytest.raises(PolicyError, match=r"(?s)ended with status 1. Its log, .*log.txt, ends with:.*vllm"):
        asyncio.run(server.wait_until_ready(60))
    assert not os.path.exists(socket_folder)
    server.close()  # twice is no error


def test_an_interpreter_that_is_not_there_is_named(tmp_path):
    server = VllmServer(log=tmp_path / "log.txt", python=tmp_path / "python")
    try:
        with pytest.raises(PolicyError, match=r"cannot be started with .*python: No such file"):
            server.start("no-model")
    finally:
        server.close()


def test_a_server_that_dies_during_a_run_is_explained_at_once_by_its_log(tmp_path):
    stand_in, log = tmp_path / "python", tmp_path / "vllm.log"
    stand_in.write_text("#!/bin/sh\necho $$ has no memory left\nexec sleep 60\n")
    stand_in.chmod(0o755)
    server = VllmServer(log=log, python=stand_in)
    try:
        server.raise_if_ended()  # it was not started yet
        server.start("no-model")
        while not log.read_text().endswith("\n"):
            time.sleep(0.01)
        server.raise_if_ended()
        os.kill(int(log.read_text().split()[0]), signal.SIGKILL)
        with pytest.raises(
            PolicyError, match=r"killed by SIGKILL. Its log, .*vllm.log, ends with: .* has no memory left$"
        ):
            asyncio.run(_answer_of(server))
    finally:
        server.close()


async def _answer_of(server):
    renderer = TemplateRenderer(make_tokenizer(["a"]), load("call_formats", "hermes")())
    policy = VllmPolicy(server.address, "policy", renderer=renderer, context_tokens=9999, server=server)
    try:
        return await policy.generate(Request([Message("user", "a")], []))
    finally:
        await policy.close()


async def test_an_endpoint_on_a_socket_of_this_machine(tmp_path):
    requests = []

    async def answer(reader, writer):
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ntrue")
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(answer, tmp_path / "s.sock"):
        for address in (f"unix:{tmp_path}/s.sock", f"unix:{tmp_path}/s.sock/v1/"):
            endpoint = JsonEndpoint(address)
            assert await endpoint.get("/models") is True
            await endpoint.close()
    assert [request.split()[1] for request in requests] == [b"/models", b"/v1/models"]
    gone = JsonEndpoint(f"unix:{tmp_path}/s.sock", retry_policy=RetryPolicy(attempts=1))
    with pytest.raises(PolicyError, match=r"server at unix:.*s\.sock"):
        await gone.get("/models")
    await gone.close()
