"""Messages between a driver and a SandboxHost: what travels arrives as it was, and nothing else is made of it."""

from __future__ import annotations

import json
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import SandboxSpec, errors
from agentgym.bridges.kubernetes import messages
from agentgym.bridges.kubernetes.messages import HostMessageError, MessageReader, decode, encode, pieces
from agentgym.sandbox import Capabilities, ExecResult, Running, Snapshot, Usage
from agentgym.sandbox.contract import Connection, Layer

SNAPSHOT = Snapshot("id", "namespaces", (Layer("d", b"\0" * 300_000), Layer("e", b"")), {b"a\xff": b"\1\2"})
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.binary() | st.integers(), inner)
    ),
    max_leaves=20,
)


@given(values)
def test_what_travels_arrives_as_it_was(value):
    assert decode(encode(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        (
            "create",
            "key",
            SandboxSpec(network=("example.org",), preload=("json",), environment=(("A", "b"),)),
            SNAPSHOT,
        ),
        (ExecResult(-9, b"out\xff", b"", truncated=True, usage=Usage(cpu_s=0.5)), None, (Connection("a", 80, True),)),
        [Running("1", "namespaces", owner=7, age_s=1.5)],
        Capabilities(True, "ns", ("wall",), (("memory", "no group"),), snapshots=True),
    ],
)
def test_the_data_of_sandboxes_arrives_as_it_was(value):
    arrived = decode(encode(value))
    assert arrived == value
    assert repr(arrived) == repr(value)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file", "/work/a"),
        OSError(28, "No space left on device"),
        IsADirectoryError("it is a directory"),
        ValueError("no"),
        TimeoutError("late"),
        errors.SandboxExhausted("out of memory"),
        errors.FilesNotCaptured("too many"),
        errors.LimitUnenforceable("no group"),
    ],
)
def test_an_error_arrives_as_what_it_was(error):
    arrived = decode(encode((None, error, ())))[1]
    assert (type(arrived), str(arrived)) == (type(error), str(error))
    assert getattr(arrived, "errno", None) == getattr(error, "errno", None)


def test_an_error_that_does_not_travel_arrives_as_one_of_the_infrastructure():
    arrived = decode(encode(ZeroDivisionError("division by zero")))
    assert (type(arrived), str(arrived)) == (errors.SandboxError, "ZeroDivisionError: division by zero")


def test_what_cannot_travel_is_refused_where_it_is_sent():
    with pytest.raises(TypeError, match="A object cannot be sent"):
        encode(("exec", object()))


@pytest.mark.parametrize(
    "plain",
    [
        {"Popen": {"args": "id"}},
        {"error": ["SystemExit", 1]},
        {"error": ["KeyboardInterrupt"]},
        {"ExecResult": {"exit_code": "no number"}},
        {"ExecResult": {}},
        {"bytes": 1},
        {"bytes": -1},
        {"SandboxSpec": {"memory_mib": 0}},
        {"a": 1, "b": 2},
        {},
        {"tuple": 7},
        {"map": [1]},
        {"map": [[[], 1]]},
    ],
)
def test_a_message_that_makes_no_sense_is_refused(plain):
    head = json.dumps(plain).encode()
    with pytest.raises(HostMessageError):
        decode(struct.pack(">I", len(head)) + head)


@pytest.mark.parametrize("message", [b"", b"\0\0", b"\xff\xff\xff\xff{}", struct.pack(">I", 200_000) + b"[" * 200_000])
def test_bytes_that_are_no_message_are_refused(message):
    with pytest.raises(HostMessageError):
        decode(message)


def test_pieces_of_several_messages_may_be_mixed_and_cut_anywhere():
    first, second = encode(b"1" * 200_000), encode("two")
    mixed = [*pieces(1, first)]
    mixed[1:1] = pieces(2, second)
    stream, reader = b"".join(mixed), MessageReader()
    arrived = [row for start in range(0, len(stream), 777) for row in reader.feed(stream[start : start + 777])]
    assert arrived == [(2, second), (1, first)]


@pytest.mark.parametrize("stream", [b"Traceback (most recent call last)", bytes(13), b"\0" * 8 + b"\2\0\0\0\1x"])
def test_a_stream_that_has_no_pieces_is_refused(stream):
    with pytest.raises(HostMessageError, match="data that is not a piece of a message"):
        [*MessageReader().feed(stream)]


def test_a_message_may_not_be_larger_than_allowed(monkeypatch):
    monkeypatch.setattr(messages, "LARGEST_MESSAGE", 1000)
    reader = MessageReader()
    with pytest.raises(HostMessageError, match="more than 1000 bytes"):
        [*reader.feed(b"".join(pieces(1, bytes(1001))))]


@pytest.mark.needs_namespaces
def test_a_host_whose_driver_is_silent_or_gone_ends_and_says_nothing_on_its_output():
    command = [sys.executable, "-m", "agentgym.bridges.kubernetes.pod_host", "--lease-s", "0.5"]
    silent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    gone = subprocess.run([*command[:-1], "900"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=30)
    out, _ = silent.communicate(timeout=30)
    assert (silent.returncode, gone.returncode, out, gone.stdout) == (0, 0, b"", b"")
