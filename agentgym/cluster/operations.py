"""The operations on an open environment: each reads its arguments, runs, and returns JSON data."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from agentgym.cluster.wire import archives_of, checkpoint_to_json
from agentgym.environment.contract import Environment
from agentgym.environment.state import Checkpoint
from agentgym.errors import FilesNotCaptured, TaskError
from agentgym.messages import Call
from agentgym.rollout.checks import awaited, check_messages
from agentgym.sandbox import Snapshot
from agentgym.sandbox.host.snapshots import snapshot_of
from agentgym.sandbox.limits import SandboxSpec
from agentgym.storage.codec import message_from_json, message_to_json, result_to_json
from agentgym.task.definition import Task

_OWN_FILES, _OWN_BYTES, _HEADER_BYTES = 16, 2**20, 1024
"""What a checkpoint may have beyond its spec's limits: directories of every sandbox, and a header for each file."""

Arguments = Mapping[str, Any]
Operation = Callable[[Environment, Arguments], Awaitable[Any]]


class InvalidRequest(Exception):
    """The arguments of an operation are invalid."""


async def _reset(environment: Environment, arguments: Arguments) -> list[Any]:
    task, seed = _task(arguments), _seed(arguments)
    method = environment.reset
    opening = await awaited(environment.reset(task, seed=seed), method)
    check_messages(opening, method, "return task.opening()")
    return [message_to_json(message) for message in opening]


async def _restore(environment: Environment, arguments: Arguments) -> None:
    task, seed = _task(arguments), _seed(arguments)
    try:
        data, backend, archives = archives_of(arguments.get("checkpoint") or {})
        work = partial(_verified, archives, backend, environment.sandbox or SandboxSpec())
        snapshot = await asyncio.to_thread(work) if archives else None
    except (ValueError, FilesNotCaptured) as error:
        raise InvalidRequest(f"The checkpoint cannot be used: {error}") from error
    await environment.restore(task, Checkpoint(data, snapshot), seed=seed)


def _verified(archives: list[bytes], backend: str, spec: SandboxSpec) -> Snapshot:
    """Return the snapshot of some archives. Recompute their digests, because clients' sandboxes share layers by digest.

    Raises: ValueError for data that is not an archive; FilesNotCaptured for more than the spec allows.
    """
    most_files = spec.inodes + _OWN_FILES
    most_bytes = 2 * (spec.disk_mib * 2**20 + spec.inodes * _HEADER_BYTES + _OWN_BYTES)  # holes included
    snapshot: Snapshot | None = None
    for archive in archives:
        bounds = {"most_files": most_files, "most_bytes": most_bytes}
        snapshot = snapshot_of(archive, backend, snapshot, **bounds, over_image=spec.writable_root)
    assert snapshot is not None
    return snapshot


async def _call(environment: Environment, arguments: Arguments) -> list[Any]:
    fields = arguments.get("call")
    if not isinstance(fields, list) or len(fields) != 4 or not isinstance(fields[0], str):
        raise InvalidRequest("A call must be written as [name, arguments, id, error].")
    return result_to_json(await environment.call(Call(*fields)))


async def _respond(environment: Environment, arguments: Arguments) -> list[Any]:
    try:
        message = message_from_json(arguments["message"])
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest("A message must be written as [role, content, calls, call_id, name].") from error
    method = environment.respond
    replies = await awaited(environment.respond(message), method)
    check_messages(replies, method, "return [] to end the episode")
    return [message_to_json(reply) for reply in replies]


async def _state_key(environment: Environment, arguments: Arguments) -> str | None:
    return await environment.state_key()


async def _potential(environment: Environment, arguments: Arguments) -> float | None:
    return await environment.potential()


async def _outlook(environment: Environment, arguments: Arguments) -> dict[str, Any] | None:
    outlook = await environment.outlook()
    return None if outlook is None else asdict(outlook)


async def _checkpoint(environment: Environment, arguments: Arguments) -> dict[str, Any] | None:
    known = arguments.get("known", [])
    if not isinstance(known, list) or not all(isinstance(digest, str) for digest in known):
        raise InvalidRequest("`known` must be a list of the digests of layers.")
    return checkpoint_to_json(await environment.checkpoint(), known)


async def _usage(environment: Environment, arguments: Arguments) -> dict[str, float]:
    return asdict(await environment.sandboxes.usage())


def _task(arguments: Arguments) -> Task:
    try:
        task = Task.from_json(arguments.get("task"))
    except TaskError as error:
        raise InvalidRequest(str(error)) from error
    if task.truth is not None or task.hints:
        raise InvalidRequest(
            "The task contains its truth or hints. Leave them out: they must stay where episodes are judged."
        )
    return task


def _seed(arguments: Arguments) -> int:
    seed = arguments.get("seed")
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise InvalidRequest(f"seed = {seed!r:.40} is not valid: give a whole number.")
    return seed


OPERATIONS: Mapping[str, Operation] = {
    "reset": _reset,
    "restore": _restore,
    "call": _call,
    "respond": _respond,
    "state_key": _state_key,
    "potential": _potential,
    "outlook": _outlook,
    "checkpoint": _checkpoint,
    "usage": _usage,
}
"""Each operation by its name in the path of a request."""
