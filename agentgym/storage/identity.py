"""The identity of a label: how its episodes are played. Stored when a run begins, compared when a run resumes.

An identity maps names to JSON data: the policy, the reward, the sampling, the budgets and everything else that episodes
depend on. Each label of a ledger has one. An object can define its part with a method `identity()` that returns a
dict; see `describe`.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import logging
import sqlite3
from collections.abc import Iterator, Mapping, Sequence, Set
from enum import Enum
from pathlib import Path
from typing import Any

from agentgym.errors import DifferentRunError, LedgerError
from agentgym.options import kept_arguments
from agentgym.storage.codec import head_from_json
from agentgym.task.definition import Task
from agentgym.trajectory import Provenance
from agentgym.trajectory.record import Trajectory

_LOGGER = logging.getLogger(__name__)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS identity (digest TEXT PRIMARY KEY, data TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS claim (label TEXT PRIMARY KEY, digest TEXT NOT NULL) WITHOUT ROWID",
)
_FINISHED = """
turns IS NOT NULL AND (id >= :label || '/' AND id < :label || '0' OR id >= :label || '#' AND id < :label || '$')
"""
"""Episodes of a label, `<label>/<task>#<sample>`, or branches of one fork, `<fork>#<sample>`."""
_RECORDED = ("policy", "seed", "temperature", "top_p", "max_turn_tokens", "hooks", "instruction")
"""The facts that each episode's record holds on how it was played, even in ledgers without identities."""
_REMEDY = "Choose another label or another folder (--label, --out)."
MAX_DEPTH = 4
MAX_SHOWN_CHARS = 80


def claim(
    connection: sqlite3.Connection, path: Path, label: str, identity: Mapping[str, Any], provenance: Provenance
) -> None:
    """Store the identity of a label, after comparing it with the label's finished episodes, if there are any.

    Args:
        path: the ledger's file, for messages.
        provenance: the provenance of a new episode; compared if the ledger has no identity for the label.
    Raises: DifferentRunError naming each key that differs, with both values and the remedy.
    """
    identity = describe(identity)
    text = json.dumps(identity, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    for statement in _SCHEMA:
        connection.execute(statement)
    before = connection.execute("SELECT digest FROM claim WHERE label = ?", (label,)).fetchone()
    if before is not None:
        _check_claim(connection, path, label, *before)
    if before == (digest,):
        return
    is_begun = connection.execute(f"SELECT 1 FROM episode WHERE {_FINISHED} LIMIT 1", {"label": label}).fetchone()
    if is_begun and before is not None:
        (data,) = connection.execute("SELECT data FROM identity WHERE digest = ?", before).fetchone()
        _refuse(path, label, _differences(json.loads(data), identity))
    elif is_begun:
        _compare_records(connection, path, label, provenance)
    connection.execute("INSERT OR IGNORE INTO identity VALUES (?, ?)", (digest, text))
    connection.execute("INSERT OR REPLACE INTO claim VALUES (?, ?)", (label, digest))


def _check_claim(connection: sqlite3.Connection, path: Path, label: str, digest: str) -> None:
    """Raise LedgerError if the stored identity of a label is missing or does not match its digest."""
    row = connection.execute("SELECT data FROM identity WHERE digest = ?", (digest,)).fetchone()
    if row is None or hashlib.sha256(row[0].encode()).hexdigest()[:32] != digest:
        raise LedgerError(
            f"{path} is damaged: the settings of the episodes under the label {label!r} cannot be read. Restore a "
            "copy, or choose another path."
        )


def relabel(connection: sqlite3.Connection, label: str, new_label: str, *, keep: bool) -> None:
    """Copy a label's identity to a new label. `keep`: whether the old label keeps its own, since it has episodes."""
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(
        "INSERT OR REPLACE INTO claim SELECT ?, digest FROM claim WHERE label = ?",
        (new_label, label),
    )
    if not keep:
        connection.execute("DELETE FROM claim WHERE label = ?", (label,))


def identity_of_policy(policy: object, name: str = "") -> dict[str, Any]:
    """Return the identity of a policy, or of a function from a task to its policy.

    Args:
        name: the name under which the policy is recorded, if not its own.
    """
    described = describe(policy)
    if isinstance(described, dict):
        return {**described, "name": name} if name else described
    return {"name": name} if name else {"made_by": described}


def check_task(recorded: Trajectory, task: Task) -> None:
    """Raise DifferentRunError if a recorded episode played a different task with the same id."""
    if recorded.task == task:
        return
    before, now = (json.loads(json.dumps(each.to_json(), default=str)) for each in (recorded.task, task))
    different = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    if different:
        raise DifferentRunError(
            f"The ledger already has an episode {recorded.id!r} of another task than this {task.id!r}: its "
            f"{', '.join(different)} differ. {_REMEDY}"
        )


def describe(value: object, depth: int = 0) -> Any:
    """Return a description of an object as JSON data, for an identity.

    An object is described by the result of its `identity()`. An object without that method is described by its class
    and the constructor arguments that it stores under their own names, with or without an underscore; arguments whose
    names end like a secret's are omitted. Functions and classes are described by their names.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): describe(each, depth + 1) for key, each in value.items()}
    if isinstance(value, Set):
        return sorted((describe(each, depth + 1) for each in value), key=str)
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, Sequence):
        return [describe(each, depth + 1) for each in value]
    if isinstance(value, functools.partial):
        return {"function": describe(value.func), "arguments": describe(value.args), **describe(value.keywords)}
    if isinstance(value, Enum | Path):
        return str(value)
    if isinstance(value, type) or inspect.isroutine(value):
        return value.__qualname__
    if callable(fingerprint := getattr(value, "fingerprint", None)):
        return fingerprint()
    name = type(value).__qualname__
    if depth >= MAX_DEPTH:
        return {"class": name}
    if callable(identity := getattr(value, "identity", None)):
        return describe(identity(), depth)
    return {"class": name, **describe(kept_arguments(value), depth + 1)}


def _compare_records(connection: sqlite3.Connection, path: Path, label: str, provenance: Provenance) -> None:
    """Compare with a label's records that an older agentgym wrote, and log that only some facts are compared."""
    now = {name: getattr(provenance, name) for name in _RECORDED}
    for (head,) in connection.execute(f"SELECT head FROM episode WHERE {_FINISHED}", {"label": label}):
        recorded = head_from_json(json.loads(head)).provenance
        before = {name: getattr(recorded, name) for name in _RECORDED}
        known = [name for name in _RECORDED if name == "instruction" or None not in (before[name], now[name])]
        _refuse(path, label, _differences({k: before[k] for k in known}, {k: now[k] for k in known}))
    _LOGGER.warning(
        ("%s has episodes under the label %r that an earlier agentgym played, so only %s could be compared with them."),
        path,
        label,
        ", ".join(_RECORDED),
    )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield each key whose values differ, with both values. Skip keys on only one side: another version wrote them."""
    for key in (key for key in now if key in before):
        yield from _differences_of(key, before[key], now[key])


def _differences_of(key: str, before: Any, now: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        for name in {**before, **now}:
            yield from _differences_of(f"{key}.{name}", before.get(name, _NOTHING), now.get(name, _NOTHING))
    elif before != now:
        yield f"{key} was {_excerpt(before)}, now {_excerpt(now)}"


_NOTHING: Any = object()


def _excerpt(value: Any) -> str:
    text = "nothing" if value is _NOTHING else repr(value)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[: MAX_SHOWN_CHARS - 3]}..."


def _refuse(path: Path, label: str, differences: Iterator[str]) -> None:
    if different := list(differences):
        raise DifferentRunError(
            f"{path} already has episodes under the label {label!r} that were played differently: "
            f"{'; '.join(different)}. {_REMEDY}"
        )
