"""How calls between two processes of ours travel over a byte stream: pickled, each with its number and its size.

Only for ends that trust each other (which `call_stream` makes sure of), because to unpickle is to run code.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import struct
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any

from agentgym.cluster.ray_nodes import import_ray
from agentgym.messages import Call, Message, Result, ResultStatus, StopReason
from agentgym.policy.contract import Reply, Request, Sampling
from agentgym.trajectory import Provenance, Trajectory, Turn

_HEADER = struct.Struct(">QQ")
"""The number of a call, and how many bytes of pickle follow."""
_FREQUENT = (Call, Message, Provenance, Reply, Request, Result, Sampling, Trajectory, Turn)
"""Pickled as calls of their constructors, which takes half the time of Python's own way for dataclasses with slots."""


class Pickled:
    """What is sent to several nodes and pickled once. It arrives as what was pickled.

    Args:
        data: the pickle.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self._data,)


def frame(number: int, value: Any) -> bytes:
    """Return a value as it travels. What `__main__` defines travels whole, as with Ray.

    Raises: anything, if it cannot.
    """
    buffer = io.BytesIO()
    buffer.write(bytes(_HEADER.size))
    _pickler()(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    with buffer.getbuffer() as view:
        _HEADER.pack_into(view, 0, number, len(view) - _HEADER.size)
    return buffer.getvalue()


def value_of(data: bytes) -> Any:
    """Return the value of a frame. Raises: anything, for example for want of a module."""
    return pickle.loads(data)


class CallReader:
    """Cuts what a byte stream brings into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the number and the content of each frame that is complete now."""
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
    """Ray's own pickler, with shorter ways for what travels most."""
    base = import_ray().cloudpickle.CloudPickler
    short_ways: dict[type, Any] = {cls: _constructor_call(cls) for cls in _FREQUENT}
    short_ways |= {cls: lambda member: (type(member), (member.value,)) for cls in (ResultStatus, StopReason)}
    table = {**copyreg.dispatch_table, **base.dispatch_table, **short_ways}
    return type("FramePickler", (base,), {"dispatch_table": table})


def _constructor_call(cls: type) -> Any:
    """How pickle is told to make a dataclass anew: by its constructor, with all fields in order."""
    values = attrgetter(*(field.name for field in fields(cls)))
    return lambda instance: (cls, values(instance))
