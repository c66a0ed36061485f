"""The parts of the guest that can be tested without a sandbox: the filter's program, the archive, control groups."""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
from functools import partial

import pytest

from agentgym.sandbox.guest import archive, cgroups, frames, kernel, seccomp, server
from agentgym.sandbox.guest.architecture import AUDIT, CALLS, numbers
from agentgym.sandbox.guest.poller import Poller
from agentgym.sandbox.host.snapshots import snapshot_of

ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000


def verdict(
    call: str | int, first: int = 0, second: int = 0, third: int = 0, fourth: int = 0, architecture: int = AUDIT
) -> tuple[int, int]:
    """What the filter says about a call, and in how many steps: classic BPF, interpreted by hand."""
    program = [struct.unpack_from("HBBI", seccomp.program(), at) for at in range(0, len(seccomp.program()), 8)]
    number = CALLS[call] if isinstance(call, str) else call
    data = {0: number, 4: architecture, 16: first, 24: second, 32: third & 0xFFFFFFFF, 36: third >> 32, 40: fourth}
    at = accumulator = steps = 0
    while True:
        code, if_true, if_false, value = program[at]
        steps, at = steps + 1, at + 1
        if code == 0x20:
            accumulator = data[value]
        elif code == 0x06:
            return value, steps
        elif code == 0x05:
            at += value
        elif code == 0x54:
            accumulator &= value
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            at += if_true if holds else if_false


def test_every_call_gets_the_verdict_of_the_list():
    for number in range(600):
        expected = ALLOW
        if number in numbers(*seccomp.DENIED):
            expected = REFUSE | errno.EPERM
        elif number in numbers(*seccomp.ABSENT) or number > 469:
            expected = REFUSE | errno.ENOSYS
        elif number in numbers("fsync", "fdatasync", "sync", "syncfs"):
            expected = REFUSE  # success, and nothing is done
        got, steps = verdict(number, first=1 if number == CALLS["socketpair"] else 16)
        assert got == expected, f"call {number}"
        assert steps <= 17


def test_a_foreign_architecture_is_killed_and_x32_is_unknown():
    assert verdict("write", architecture=0x40000003)[0] == KILL
    assert verdict(0x40000001)[0] == REFUSE | errno.ENOSYS


@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
def test_clone_makes_no_namespace(flag):
    assert verdict("clone", first=flag | 17)[0] == REFUSE | errno.EPERM
    assert verdict("clone", first=17)[0] == ALLOW


def test_terminals_take_no_injected_input():
    assert {verdict("ioctl", second=request)[0] for request in (0x5412, 0x541C)} == {REFUSE | errno.EPERM}
    assert verdict("ioctl", second=0x5401)[0] == ALLOW


def test_nobody_changes_the_limit_on_core_files():
    """Any value but 1 lets agent code start the host's crash handler, by crashing. It is told that it worked."""
    assert verdict("setrlimit", first=4)[0] == REFUSE
    assert verdict("setrlimit", first=7)[0] == ALLOW
    assert verdict("prlimit64", second=4, third=0x7FFF_0000_0000)[0] == REFUSE
    assert verdict("prlimit64", second=4, third=0x7000)[0] == REFUSE
    assert verdict("prlimit64", second=4, third=0)[0] == ALLOW
    assert verdict("prlimit64", second=7, third=0x7000)[0] == ALLOW


@pytest.mark.parametrize("call", ["fsync", "fdatasync", "syncfs"])
def test_a_flush_reports_success_unless_its_descriptor_is_negative(call):
    """A sandbox's own files are in memory. A flush of one that it may only read would still reach the host's disk."""
    assert verdict(call, first=3)[0] == REFUSE
    assert verdict(call, first=0xFFFFFFFF)[0] == ALLOW


@pytest.mark.parametrize(
    "call", ["sched_setparam", "sched_setscheduler", "sched_setaffinity", "prlimit64", "sched_setattr"]
)
def test_agent_code_changes_neither_limits_nor_scheduling_of_the_guest(call):
    """The guest's user is the agent's: the kernel alone would let it be starved."""
    assert verdict(call, first=1)[0] == REFUSE | errno.EPERM
    assert verdict(call, first=0)[0] == verdict(call, first=2)[0] == ALLOW


@pytest.mark.parametrize(("call", "everybody"), [("setpriority", 2), ("ioprio_set", 3)])
def test_agent_code_changes_not_the_priority_of_the_guest_nor_of_everybody(call, everybody):
    assert verdict(call, first=1, second=1)[0] == REFUSE | errno.EPERM
    assert verdict(call, first=everybody)[0] == REFUSE | errno.EPERM
    assert verdict(call, first=1, second=0)[0] == verdict(call, first=0, second=2)[0] == ALLOW


def test_the_groups_of_a_spawner_that_is_a_zombie_are_removed(tmp_path):
    """Nobody waits for a spawner that was killed together with its host."""
    zombie = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, zombie, os.WEXITED | os.WNOWAIT)
    for name in (f"agentgym-{zombie}/1", f"agentgym-{os.getpid()}/1", "agentgym-host", "other"):
        (tmp_path / name).mkdir(parents=True)
    home = os.open(tmp_path, os.O_RDONLY)
    try:
        cgroups._remove_dead_spawners(home)
        assert sorted(os.listdir(home)) == sorted([f"agentgym-{os.getpid()}", "agentgym-host", "other"])
    finally:
        os.close(home)
        os.waitpid(zombie, 0)


def test_only_four_socket_families_exist():
    allowed = [family for family in range(60) if verdict("socket", first=family, second=1)[0] == ALLOW]
    assert allowed == [1, 2, 10, 16]
    assert [family for family in range(60) if verdict("socketpair", first=family, second=1)[0] == ALLOW] == [1]


@pytest.mark.parametrize("family", [2, 10])
def test_inet_sockets_speak_tcp_and_udp_only(family):
    """Not MPTCP (262), UDP-Lite (136) or SCTP (132), also not as the protocol of another kind of socket."""
    for kind in (1, 2, 1 | 0o2004000):
        allowed = [protocol for protocol in range(300) if verdict("socket", family, kind, protocol)[0] == ALLOW]
        assert allowed == [0, 6, 17]
    assert [kind for kind in range(16) if verdict("socket", family, kind)[0] == ALLOW] == [1, 2]


def test_netlink_tells_of_addresses_and_routes_only():
    assert [protocol for protocol in range(32) if verdict("socket", 16, 3, protocol)[0] == ALLOW] == [0]


def test_nobody_takes_reserved_huge_pages():
    assert verdict("mmap", fourth=0x40022)[0] == REFUSE | errno.ENOMEM
    for flags in (4, 0xFFFFFFFF):
        assert verdict("memfd_create", second=flags)[0] == REFUSE | errno.EINVAL
    assert verdict("mmap", fourth=0x22)[0] == verdict("memfd_create", second=3)[0] == ALLOW


def record(**fields) -> bytes:
    return json.dumps(fields).encode() + b"\n"


FOLDER = record(t="d", p="work", m=0o755, u=0)


def test_an_archive_has_the_same_hash_whatever_its_times():
    first = FOLDER + record(t="f", p="work/a", m=0o644, u=1, n=2) + b"ab"
    two = FOLDER + record(t="f", p="work/a", m=0o644, u=2, n=2) + b"ab"
    other = FOLDER + record(t="f", p="work/a", m=0o644, u=1, n=2) + b"ac"
    first, second, third = (snapshot_of(data, "test") for data in (first, two, other))
    assert first.id == second.id != third.id
    assert first.layers[0].digest != second.layers[0].digest, "a layer is kept under what its bytes are, times too"


@pytest.mark.parametrize(
    "data",
    [
        b"junk\n",
        b"[]\n",
        b"[" * 60_000 + b"\n",
        b"{" * 70_000,
        record(t="x", p="work/a", m=0, u=0),
        record(t="f", p="work/a", m=0, u=0, n=-1),
        record(t="f", p="work/a", m=0, u=0, n=5) + b"abc",
        record(t="f", p="work/a", m=0, u=0, n="5") + b"abcde",
        record(t="f", p="work/a", m=0, u=0, n=2**60) + b"abcde",
        record(t="f", p="work/a", m=0, u=0),
        record(t="f", p="work/a", m=0o10000, u=0, n=0),
        record(t="f", p="work/a", m=0, u=2**100, n=0),
        record(t="f", p="work/a", m=True, u=0, n=0),
        record(t="d", p="work/a", m=0, u=0, n=5) + b"abcde",
        record(t="l", p="work/a", m=0, u=0),
        record(t="l", p="work/a", m=0, u=0, l=5),
        record(t="d", p="work/a", m=0, u=0, o=2),
        record(t="d", p="work/a", m=0, u=0, more=[[]] * 1000),
        record(t="w", p="work/a", m="rw"),
        record(t="w", p="work/a", o=1),
        record(t="d", p="work/" + "a/" * 3000 + "a", m=0, u=0),
        *(
            record(t="f", p=path, m=0, u=0, n=0)
            for path in (
                "",
                "/",
                "/etc/passwd",
                "etc",
                "work/",
                "work//a",
                "work/.",
                "work/..",
                "work/../x",
                "work/a/../../b",
                "work/a\0b",
                "work/a/b",
                "tmp/a",
                "hex:7g",
                "hex:2f657463",
                "hex:776f726b2f2e2e",
                "\ud800",
                5,
                None,
            )
        ),
    ],
)
def test_what_is_no_archive_is_refused(data):
    """Out of a hostile sandbox, or handed in as a snapshot: it is refused on the host, before anybody unpacks it."""
    with pytest.raises(ValueError, match=r"."):
        snapshot_of(FOLDER + data, "test")


@pytest.mark.parametrize(
    "data",
    [
        record(t="l", p="work", m=0, u=0, l="/etc"),
        record(t="f", p="work", m=0, u=0, n=0),
        record(t="w", p="work"),
        record(t="d", p="work", m=0, u=0, o=1),
        FOLDER + FOLDER,
        FOLDER + record(t="d", p="tmp", m=0, u=0),
        FOLDER + record(t="l", p="work/a", m=0, u=0, l="/etc") + record(t="f", p="work/a/b", m=0, u=0, n=0),
        FOLDER + record(t="d", p="work/a", m=0, u=0) + record(t="l", p="work/a", m=0, u=0, l="/etc"),
        FOLDER + record(t="f", p="work/b", m=0, u=0, n=0) + record(t="f", p="work/a", m=0, u=0, n=0),
    ],
)
def test_an_archive_takes_no_detour(data):
    """Roots are directories, no path comes twice or too late, and nothing lies below a link."""
    with pytest.raises(ValueError, match=r"."):
        snapshot_of(data, "test")


def test_names_that_are_no_text_survive_the_archive():
    for name in (b"plain", b"\xff\xfe", b"hex:trick", "ümlaut".encode(), b"with\nnewline"):
        assert archive.decode(archive.encode(name)) == name


def test_the_spawner_pid_is_in_its_groups_name():
    """So that the groups of one that was killed can be told apart, and swept up."""
    from agentgym.sandbox.guest.cgroups import Cgroups

    assert Cgroups().name == f"agentgym-{os.getpid()}"


def test_an_event_of_a_closed_descriptor_is_not_taken_for_one_of_the_next_with_its_number():
    """A call ends and the next begins in one round: waiting for a process that still runs would stop everything."""
    called, poller = [], Poller()
    pipes, fresh = [os.pipe() for _ in range(2)], os.pipe()

    def exchange(other):
        called.append("first")
        poller.remove(other)
        os.dup2(fresh[0], other)  # as if it had been closed, and its number taken again
        poller.add(other, lambda: called.append("nothing happened to it"))

    for (read, write), (other, _) in zip(pipes, reversed(pipes), strict=True):
        os.write(write, b".")
        poller.add(read, partial(exchange, other))
    poller.once(1.0)
    assert called == ["first"]
    poller.close()
    for descriptor in [*fresh, *(end for pipe in pipes for end in pipe)]:
        os.close(descriptor)


def test_each_request_has_one_reply_whatever_fails_half_way():
    """By hand: a session's call is registered, then sending its code fails, then its time is over."""
    host, control = socket.socketpair()
    guest = server.Guest(control, {"environment": dict(os.environ), "missing": {}, "cores": 1.0}, None)
    kernel.set_dumpable(True)  # a guest is not, but this process goes on
    guest.unanswered.add(7)
    guest._reply(7, error="os", errno=5, text="half-way")
    guest._answer(7, frames.encode({"id": 7, "exit": -9}))
    guest._reply(8)
    reader = frames.FrameReader(4096, 4096)
    reader.feed(host.recv(65_536))
    assert reader.next() == ({"id": 7, "error": "os", "errno": 5, "text": "half-way"}, b"")
    assert reader.next() is None
    for stream in (host, control, guest.poller):
        stream.close()


def allowed(call: str, level: int) -> set[int]:
    return {option for option in range(300) if verdict(call, first=3, second=level, third=option)[0] == ALLOW}


def test_sockets_join_no_groups_and_run_no_code_for_each_packet():
    """Memberships and keys hold up the whole machine at their end; filters and ULPs are code in the kernel."""
    memberships = {*range(35, 49)}
    assert not allowed("setsockopt", 0) & {*memberships, 64, 65, *range(200, 212)}
    assert not allowed("setsockopt", 41) & {20, 21, 27, 28, 32, 34, 35, *range(42, 49), 64, 65, 73, *range(200, 212)}
    assert not allowed("setsockopt", 6) & {14, 19, 29, 31, 32, 37, *range(38, 44)}
    assert not allowed("setsockopt", 1) & {26, 29, 35, 37, 44, 46, 50, 51, 52, 60, 61, 63, 64, 65}
    assert not allowed("setsockopt", 17) & {100, 104}
    assert not allowed("setsockopt", 136)
    assert not allowed("setsockopt", 282)


def test_sockets_have_the_options_that_programs_use():
    prefixes = {
        0: ("IP_TOS", "IP_TTL", "IP_MULTICAST", "IP_TRANSPARENT"),
        1: ("SO_REUSE", "SO_KEEP", "SO_SND", "SO_RCV", "SO_LINGER", "SO_BROADCAST", "SO_PASS"),
        6: ("TCP_NODELAY", "TCP_KEEP", "TCP_CORK", "TCP_USER_TIMEOUT", "TCP_QUICKACK"),
        41: ("IPV6_V6ONLY", "IPV6_UNICAST_HOPS", "IPV6_MULTICAST", "IPV6_RECVPKTINFO"),
    }
    named = {level: [name for name in dir(socket) if name.startswith(prefixes[level])] for level in prefixes}
    for level, names in named.items():
        assert {getattr(socket, name) for name in names} <= allowed("setsockopt", level), level
    assert allowed("setsockopt", 270) > {*range(13)}, "those of the routing table's socket"


def test_files_have_the_commands_that_watch_nobody():
    """Not F_SETLEASE, F_NOTIFY, nor what is newer than the list."""
    commands = {command for command in range(1200) if verdict("fcntl", first=3, second=command)[0] == ALLOW}
    assert commands == {*range(17), *range(36, 39), 1025, *range(1027, 1041)}


def test_the_cache_of_the_machine_is_not_dropped_nor_written_out():
    """A sandbox may ask for it; the files that it shares with all others are none of its business."""
    assert [verdict("fadvise64", first=3, fourth=advice)[0] for advice in range(6)] == [ALLOW] * 4 + [REFUSE, ALLOW]
    assert [verdict("msync", third=flags)[0] for flags in (1, 2, 4, 6)] == [ALLOW, ALLOW, REFUSE, REFUSE]
    assert [verdict("sync_file_range", first=3, fourth=flags)[0] for flags in (0, 1, 7)] == [ALLOW, REFUSE, REFUSE]
    assert verdict("prctl", first=62)[0] == REFUSE | errno.EINVAL
    assert verdict("ioctl", second=0x5423)[0] == REFUSE | errno.EPERM
