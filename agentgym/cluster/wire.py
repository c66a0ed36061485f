"""The messages between an environment server and its clients: JSON, with the files of checkpoints in base64.

A task is sent without its truth: rewards judge at the client. Errors are sent by class name and raised again as the
same class on the other side; an error of a class that agentgym does not know becomes a RemoteEnvironmentError.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from agentgym import errors, strict_json
from agentgym.environment.contract import Environment
from agentgym.environment.state import Checkpoint
from agentgym.rollout.failures import raised_at
from agentgym.sandbox import Snapshot
from agentgym.sandbox.contract import Layer
from agentgym.tools.definition import Tool, ToolOptions

PROTOCOL = 2
"""The protocol version, raised when an older client or server could misunderstand a newer one."""
PROTOCOL_HEADER = "agentgym-protocol"

_RAISED_AGAIN: Mapping[str, type[Exception]] = {
    error.__name__: error
    for error in (
        errors.FilesNotCaptured,
        errors.HostOverloaded,
        errors.JudgeError,
        errors.LimitUnenforceable,
        errors.SandboxDied,
        errors.SandboxError,
        errors.SandboxExhausted,
        errors.SandboxUnavailable,
        errors.TaskError,
        errors.ToolError,
        NotImplementedError,
    )
}
_OFFERS = ("respond", "state_key", "potential", "outlook", "checkpoint")
"""Optional methods, which clients call only if the environment's class defines them."""


class WireError(ValueError):
    """The received data violates the protocol."""


def encode(value: Any) -> bytes:
    """Return JSON as bytes. Raises: TypeError, ValueError, RecursionError for a value that is not JSON data."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def decode(data: bytes) -> dict[str, Any]:
    """Return the JSON object of a message. Raises: WireError."""
    try:
        value = strict_json.loads(data, allow_surrogates=True)
    except ValueError as error:
        raise WireError(f"it is not JSON: {data[:60]!r}") from error
    if not isinstance(value, dict):
        raise WireError(f"it is not a JSON object: {data[:60]!r}")
    return value


def description_of(environment: Environment) -> dict[str, Any]:
    """Return the description of an environment that a client needs before playing in it."""
    cls = type(environment)
    return {
        "class": cls.__qualname__,
        "doc": cls.__doc__ or "",
        "tools": tools_to_json(environment),
        "reward": environment.reward,
        "offers": [name for name in _OFFERS if getattr(cls, name) is not getattr(Environment, name)]
        + ["usage"] * (environment.sandbox is not None or environment.backend is not None),
        "unavailable": environment.unavailable_reason(),
    }


def tools_to_json(environment: Environment) -> list[dict[str, Any]]:
    """Return the tools of an environment: the model-visible description and the options of each."""
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "options": asdict(tool.options),
        }
        for tool in environment.tools.values()
    ]


def tool_from_json(row: Mapping[str, Any]) -> Tool:
    """Return a tool with the description and checks of a served tool. It can be called only through its environment.

    Raises: ToolDefinitionError, KeyError, TypeError for an invalid description.
    """
    tool = Tool.from_schema(row["name"], row["description"], row["parameters"], _called_elsewhere)
    return replace(tool, parameters=row["parameters"], options=ToolOptions.of(row["options"]))


async def _called_elsewhere(arguments: dict[str, Any]) -> Any:
    raise errors.EnvironmentServerError(
        "A tool of a remote environment runs on its server. Call it by `environment.call`."
    )


def checkpoint_to_json(checkpoint: Checkpoint | None, known: Iterable[str] = ()) -> dict[str, Any] | None:
    """Return a checkpoint as JSON data.

    Args:
        known: digests of layers that the other side has; their bytes are omitted.
    """
    if checkpoint is None:
        return None
    row: dict[str, Any] = {"data": dict(checkpoint.data)}
    if (snapshot := checkpoint.snapshot) is not None:
        known = frozenset(known)
        row["snapshot"] = {
            "id": snapshot.id,
            "backend": snapshot.backend,
            "layers": [
                {"digest": layer.digest}
                if layer.digest in known
                else {"digest": layer.digest, "data": b64encode(layer.data).decode()}
                for layer in snapshot.layers
            ],
            "entries": {path.decode("latin-1"): digest.hex() for path, digest in snapshot.entries.items()},
            "over_image": snapshot.over_image,
        }
    return row


def checkpoint_from_json(row: Mapping[str, Any] | None, known: Mapping[str, Layer]) -> Checkpoint | None:
    """Return the checkpoint that `checkpoint_to_json` wrote. The sender is trusted: digests are not recomputed.

    Args:
        known: layers by digest, for layers whose bytes were omitted.
    Raises: WireError.
    """
    if row is None:
        return None
    try:
        data, files = dict(row["data"]), row.get("snapshot")
        if files is None:
            return Checkpoint(data)
        layers = tuple(
            Layer(layer["digest"], b64decode(layer["data"], validate=True))
            if "data" in layer
            else known[layer["digest"]]
            for layer in files["layers"]
        )
        entries = {path.encode("latin-1"): bytes.fromhex(digest) for path, digest in files["entries"].items()}
        over_image = bool(files.get("over_image"))
        return Checkpoint(data, Snapshot(str(files["id"]), str(files["backend"]), layers, entries, over_image))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError(f"it is not a valid checkpoint ({type(error).__name__}: {error})") from error


def archives_of(row: Mapping[str, Any]) -> tuple[dict[str, Any], str, list[bytes]]:
    """Return data, backend and archives of a checkpoint from an untrusted sender, ignoring its digests.

    Raises: WireError.
    """
    try:
        files = row.get("snapshot") or {"backend": "", "layers": ()}
        archives = [b64decode(layer["data"], validate=True) for layer in files["layers"]]
        return dict(row["data"]), str(files["backend"]), archives
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError(f"it is not a valid checkpoint ({type(error).__name__}: {error})") from error


def error_to_json(error: BaseException) -> dict[str, str]:
    """Return an environment's error as JSON data: a class that the other side knows, and the message."""
    for cls in type(error).__mro__:
        if _RAISED_AGAIN.get(cls.__name__) is cls:
            return {"type": cls.__name__, "message": str(error)}
    location = raised_at(error)
    text = f"{type(error).__name__}: {str(error)[:2000]}{location and f' at {location}'}"
    return {"type": "RemoteEnvironmentError", "message": text}


def error_from_json(row: Mapping[str, Any], server: str) -> Exception:
    """Return the error that `error_to_json` wrote, for raising.

    Args:
        server: its address, named if the error's class is not ours.
    """
    name, message = str(row.get("type")), str(row.get("message"))
    known = _RAISED_AGAIN.get(name)
    if known is None:
        return errors.RemoteEnvironmentError(f"The server at {server} raised an error: {message}")
    return known(message)
