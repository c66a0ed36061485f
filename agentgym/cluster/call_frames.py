"""Frames of calls between two of our processes over a byte stream: pickled, each with its number and size.

Only for ends that trust each other (which `call_stream` ensures), because unpickling can run code.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import struct
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

from agentgym.cluster.ray_nodes import import_ray
from agentgym.messages import Call, Message, Result, ResultStatus, StopReason
from agentgym.policy.contract import Reply, Request, Sampling
from agentgym.trajectory import Provenance
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn

_HEADER = struct.Struct(">QQ")
"""The header of a frame: the number of the call, and the length of the pickle that follows, in bytes."""
_FREQUENT = (Call, Message, Provenance, Reply, Request, Result, Sampling, Trajectory, Turn)
"""Classes pickled as constructor calls, in half the time of Python's default for dataclasses with slots."""


class Pickled:
    """A value pickled once and sent to several nodes, where it arrives unpickled.

    Args:
        data: the pickle.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self._data,)


def frame(number: int, value: Any) -> bytes:
    """Return a value as a frame. Definitions in `__main__` are sent by value, as with Ray.

    Raises: any error, if the value cannot be pickled.
    """
    buffer = io.BytesIO()
    buffer.write(bytes(_HEADER.size))
    _pickler()(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    with buffer.getbuffer() as view:
        _HEADER.pack_into(view, 0, number, len(view) - _HEADER.size)
    return buffer.getvalue()


def value_of(data: bytes) -> Any:
    """Return the value of a frame. Raises: any error, for example for a missing module."""
    return pickle.loads(data)


class CallReader:
    """Splits a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Add received data; yield number and content of each completed frame."""
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= _HEADER.size:
            number, size = _HEADER.unpack_from(self._buffer, start)
            end = start + _HEADER.size + size
            if end > len(self._buffer):
                break
            yield number, bytes(self._buffer[start + _HEADER.size : end])
            start = end
        del self._buffer[:start]


@cache
def _pickler() -> Any:
    """Return Ray's pickler, or Python's without Ray, with shortcuts for the most frequent classes."""
    base = import_ray().cloudpickle.CloudPickler if find_spec("ray") else pickle.Pickler
    short_ways: dict[type, Any] = {cls: _constructor_call(cls) for cls in _FREQUENT}
    short_ways |= {cls: lambda member: (type(member), (member.value,)) for cls in (ResultStatus, StopReason)}
    others = {} if base is pickle.Pickler else base.dispatch_table
    table = {**copyreg.dispatch_table, **others, **short_ways}
    return type("FramePickler", (base,), {"dispatch_table": table})


def _constructor_call(cls: type) -> Any:
    """Return a pickle reducer that rebuilds a dataclass by its constructor, with all fields in order."""
    values = attrgetter(*(field.name for field in fields(cls)))
    return lambda instance: (cls, values(instance))
