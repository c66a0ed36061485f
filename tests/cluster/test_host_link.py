"""Heartbeats: who is given up for being silent, and who is not."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from agentgym.cluster.host_link import HostLink, HostNode, HostWatch
from agentgym.cluster.ray_host import RayHost


class Actor:
    """Stands for an actor of Ray that answers heartbeats, or nothing.

    Args:
        answers: whether it does. pause_s: at the third heartbeat the asking thread sleeps, as a stopped process does.
    """

    def __init__(self, answers: bool, pause_s: float = 0.0) -> None:
        self.answers, self.pause_s, self.heartbeats = answers, pause_s, 0
        self.beat = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self.remote))

    def remote(self):
        self.heartbeats += 1
        if self.heartbeats == 3:
            time.sleep(self.pause_s)
        done: Future[None] = Future()
        if self.answers:
            done.set_result(None)
        return SimpleNamespace(future=lambda: done)


def watched(actor: Actor, beats: int, watch: HostWatch) -> HostLink:
    """A link after so many heartbeats, or once it is lost."""
    link = HostLink(HostNode("0", "node", 1), RayHost(actor, "127.0.0.1"))
    watch.watch(link)
    while actor.heartbeats < beats and not link.lost:
        time.sleep(0.01)
    return link


def test_a_host_that_answers_no_heartbeat_is_lost():
    watch = HostWatch(silence_s=0.2, beat_s=0.05)
    link = watched(Actor(answers=False), 100, watch)
    watch.end()
    assert link.lost == "The node node is lost (it has answered no heartbeat for 0 s)."


def test_a_driver_that_was_stopped_for_a_while_loses_no_host():
    """Nobody has heartbeats the hosts meanwhile, so their silence says nothing."""
    watch = HostWatch(silence_s=1.0, beat_s=0.2)
    first, second = Actor(answers=True, pause_s=1.5), Actor(answers=True)
    links = [
        HostLink(HostNode(str(n), "node", 1), RayHost(actor, "127.0.0.1")) for n, actor in enumerate((first, second))
    ]
    for link in links:
        watch.watch(link)
    while first.heartbeats < 6:
        time.sleep(0.01)
    watch.end()
    assert [link.lost for link in links] == ["", ""]


def test_a_host_that_took_long_to_start_is_not_silent_when_its_heartbeats_begin():
    watch, actor = HostWatch(silence_s=5.0, beat_s=0.05), Actor(answers=True)
    link = HostLink(HostNode("0", "node", 1), RayHost(actor, "127.0.0.1"))
    link.answered_at -= 60.0
    watch.watch(link)
    while actor.heartbeats < 2 and not link.lost:
        time.sleep(0.01)
    watch.end()
    assert link.lost == ""


async def test_who_gives_a_host_up_waits_for_no_cluster(monkeypatch):
    """Ray's own thread gives it up where a heartbeat fails, and Ray cannot answer while that thread waits."""
    ray = pytest.importorskip("ray", reason="needs Ray: make setup-cluster")
    may_end, threads = threading.Event(), []

    def kill(actor, no_restart):
        threads.append(threading.current_thread())
        may_end.wait(60)

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "kill", kill)
    link = HostLink(HostNode("0", "node", 1), RayHost(Actor(answers=False), "127.0.0.1"))
    link.lose("it is slow")
    link.lose("and again")
    assert link.lost == "The node node is lost (it is slow)."
    may_end.set()
    await link.ended()
    assert [thread is threading.main_thread() for thread in threads] == [False]
