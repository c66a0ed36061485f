"""How host and guest of a container meet. No Docker is needed."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from agentgym.sandbox.docker.rendezvous import Rendezvous, SocketDirectory
from agentgym.sandbox.guest.container_main import SOCKET_NAME


@pytest.fixture
def rendezvous(tmp_path, monkeypatch):
    directory = SocketDirectory(tmp_path)
    meeting = Rendezvous(directory)
    monkeypatch.chdir(meeting.folder)  # the full path may be too long for a socket address
    yield meeting
    meeting.close()
    directory.close()


async def test_a_guest_that_connects_just_as_the_wait_times_out_is_not_lost(rendezvous):
    waiting = asyncio.create_task(rendezvous.guest(0.05))
    await asyncio.sleep(0.01)
    with socket.socket(socket.AF_UNIX) as guest:
        guest.connect(SOCKET_NAME)
        time.sleep(0.1)  # noqa: ASYNC251  a busy event loop: connection and timeout are due in the same pass
        try:
            connection = await waiting
        except TimeoutError:
            connection = await rendezvous.guest(5)
        with connection:
            connection.sendall(b"welcome")
            assert guest.recv(7) == b"welcome"


async def test_closing_while_a_guest_is_awaited_frees_the_socket(rendezvous):
    with pytest.raises(TimeoutError):
        await rendezvous.guest(0.01)
    rendezvous.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rendezvous._socket.fileno() == -1
    assert not rendezvous.folder.exists()
