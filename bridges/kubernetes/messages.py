"""Messages between a driver and a SandboxHost over a byte stream, sent in pieces so that none blocks another.

A message is JSON followed by the bytes in its values. Decoding makes only the classes named here, so the other side
cannot run code. A piece is a header (message number, 1 for the last piece, size) and a part of the message.
"""

from __future__ import annotations

import builtins
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from agentgym import AgentGymError, SandboxError, SandboxSpec, ToolError, UnknownNameError
from agentgym.cluster import hosts
from agentgym.sandbox import Capabilities, ExecResult, Running, Snapshot, Usage

PIECE_BYTES = 1 << 16
LARGEST_MESSAGE = 1 << 30
_PIECE, _LENGTH = struct.Struct(">QBI"), struct.Struct(">I")
_DATA = {
    cls.__name__: cls
    for cls in (Capabilities, hosts.Connection, ExecResult, hosts.Layer, Running, SandboxSpec, Snapshot, Usage)
}
_BUILTIN_ERRORS = (OSError, ValueError, TypeError, KeyError, NotImplementedError)


class HostMessageError(ValueError):
    """The received data is not a message of this protocol."""


def encode(value: Any) -> bytes:
    """Return a value as a message. Raises: TypeError, ValueError, RecursionError if it cannot be sent."""
    blobs: list[bytes] = []
    head = json.dumps(_plain(value, blobs), separators=(",", ":")).encode()
    return b"".join((_LENGTH.pack(len(head)), head, *blobs))


def decode(message: bytes) -> Any:
    """Return the value of a message. Raises: HostMessageError."""
    try:
        (size,) = _LENGTH.unpack_from(message)
        start = _LENGTH.size + size
        return _Values(memoryview(message)[start:]).of(json.loads(message[_LENGTH.size : start]))
    except (
        struct.error,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        RecursionError,
        SandboxError,
    ) as error:
        raise HostMessageError(
            f"data that is not a message of a sandbox host ({type(error).__name__}: {error!s:.200})"
        ) from error


def pieces(number: int, message: bytes) -> Iterator[bytes]:
    """Yield a message in pieces that carry its number.

    Pieces of several messages may alternate, but nothing may be sent within a piece.
    """
    for start in range(0, len(message), PIECE_BYTES):
        part = message[start : start + PIECE_BYTES]
        yield _PIECE.pack(number, start + PIECE_BYTES >= len(message), len(part)) + part


class MessageReader:
    """Assembles messages from a byte stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._parts: dict[int, bytearray] = {}

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Add received data; yield the number and the bytes of each completed message. Raises: HostMessageError."""
        self._buffer += data
        while len(self._buffer) >= _PIECE.size:
            number, is_last, size = _PIECE.unpack_from(self._buffer)
            if not 0 < size <= PIECE_BYTES or is_last > 1:
                raise HostMessageError(f"data that is not a piece of a message: {bytes(self._buffer[:60])!r}")
            end = _PIECE.size + size
            if len(self._buffer) < end:
                return
            part = self._parts.setdefault(number, bytearray())
            part += self._buffer[_PIECE.size : end]
            del self._buffer[:end]
            if sum(map(len, self._parts.values())) > LARGEST_MESSAGE:
                raise HostMessageError(f"messages of more than {LARGEST_MESSAGE} bytes in total")
            if is_last:
                yield number, bytes(self._parts.pop(number))


def _plain(value: Any, blobs: list[bytes]) -> Any:
    """Return a value as JSON data: a type that JSON lacks becomes an object whose only key names the type."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes | bytearray):
        blobs.append(bytes(value))
        return {"bytes": len(value)}
    if isinstance(value, list):
        return [_plain(item, blobs) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(item, blobs) for item in value]}
    if isinstance(value, Mapping):
        return {"map": [[_plain(key, blobs), _plain(item, blobs)] for key, item in value.items()]}
    if isinstance(value, Exception):
        name, arguments = _error_of(value)
        return {"error": [name, *(_plain(argument, blobs) for argument in arguments)]}
    if _DATA.get(name := type(value).__name__) is type(value):
        values = {part.name: _plain(getattr(value, part.name), blobs) for part in fields(value)}
        return {name: values}
    raise TypeError(
        f"A {name} cannot be sent to a sandbox on another node. Pass text, numbers, bytes, lists and mappings."
    )


class _Values:
    """Builds values from JSON data, taking their bytes in order from the data after the JSON."""

    def __init__(self, blobs: memoryview) -> None:
        self._blobs = blobs

    def of(self, plain: Any) -> Any:
        if isinstance(plain, list):
            return [self.of(item) for item in plain]
        if not isinstance(plain, dict):
            return plain
        [(kind, content)] = plain.items()
        if kind == "bytes":
            if not 0 <= content <= len(self._blobs):
                raise ValueError(
                    f"the message says that it carries {content} bytes, but only {len(self._blobs)} arrived"
                )
            data, self._blobs = bytes(self._blobs[:content]), self._blobs[content:]
            return data
        if kind == "tuple":
            return tuple([self.of(item) for item in content])  # a list makes the evaluation order explicit
        if kind == "map":
            return {self.of(key): self.of(item) for key, item in content}
        if kind == "error":
            name, *arguments = [self.of(item) for item in content]
            return _error_class(name)(*arguments)
        return _adapter(kind).validate_python({name: self.of(item) for name, item in content.items()})


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    """Return the adapter that checks the fields of a class. Raises: KeyError for a class that messages cannot carry."""
    return TypeAdapter(_DATA[name])


def _error_of(error: Exception) -> tuple[str, tuple[Any, ...]]:
    """Return the class that the other side knows, and the values from which it is built."""
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, AgentGymError):
        return "OSError", (error.errno, error.strerror or "", error.filename and str(error.filename))
    for cls in type(error).__mro__:
        if _known(cls.__name__) is cls:
            return cls.__name__, (str(error.args[0]) if error.args else "",)
    return "SandboxError", (f"{type(error).__name__}: {str(error)[:2000]}",)


def _error_class(name: str) -> type[Exception]:
    known = _known(name)
    if known is None:
        raise KeyError(name)
    return known


def _known(name: str) -> type[Exception] | None:
    """Return the error class of this name if messages can carry it: our errors of sandboxes and agents, and errors of
    operating-system calls.
    """
    cls = getattr(hosts.errors, name, None) or getattr(builtins, name, None)
    if not isinstance(cls, type):
        return None
    known = (SandboxError, ToolError, UnknownNameError, *_BUILTIN_ERRORS)
    return cls if issubclass(cls, known) else None
