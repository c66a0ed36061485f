"""The base of the environments over a store: snapshot, APIs, counters, potential, and the record for the judge."""

from __future__ import annotations

import json
from abc import ABC
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import Any

from agentgym import Checkpoint, Environment, Message, ObservedState, Task, TaskError, ToolError, load
from agentgym.tools import WrongArguments

from .record_app import NotFound, StoreApp, schema_of
from .record_store import Store, Tables, TableSchema

RECORD = "Record: "
"""Begins the record in the last result of an episode: an object with the digests of all changes and the counters. The
reward `state_changes` reads it; no agent reads it or can write it. The result ends with the record.
"""
MAX_CHANGES = 500
"""An episode with more changes does not record them, and fails."""
MAX_ARGUMENT_CHARS, MAX_ARGUMENT_LEVELS = 20_000, 8
"""Limits on the length and nesting of one call's arguments as JSON: the host holds them in memory."""


@dataclass(slots=True)
class Conduct:
    """An agent's use of the APIs, for the counters of the reward `state_changes`.

    Attributes:
        calls: number of API calls, including refused ones.
        failures: refused calls.
        undocumented: APIs first used before the agent had read their documentation or their app's.
        invented_ids: calls with an id that no record has.
        recoveries: runs of refused calls after which the same API was called successfully.
        documented, used, failing: APIs as `app.api`; a whole app as `app.`.
    """

    calls: int = 0
    failures: int = 0
    undocumented: int = 0
    invented_ids: int = 0
    recoveries: int = 0
    documented: list[str] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    failing: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return the counters only."""
        return {each.name: value for each in fields(self) if isinstance(value := getattr(self, each.name), int)}

    def read_documentation(self, app: str, api: str) -> None:
        """Record that documentation was read."""
        if (name := f"{app}.{api}") not in self.documented:
            self.documented.append(name)

    def begin_call(self, app: str, api: str) -> None:
        """Record a call of an existing API."""
        self.calls += 1
        if (name := f"{app}.{api}") not in self.used:
            self.used.append(name)
            self.undocumented += name not in self.documented and f"{app}." not in self.documented

    def end_call(self, app: str, api: str, error: ToolError | None) -> None:
        """Record the outcome of a call."""
        name = f"{app}.{api}"
        if error is not None:
            self.failures += 1
            self.invented_ids += isinstance(error, NotFound)
            if name not in self.failing:
                self.failing.append(name)
        elif name in self.failing:
            self.failing.remove(name)
            self.recoveries += 1


class StoreEnvironment(Environment, ABC):
    """Base of the environments over a store of records. The subclass decides what is isolated.

    Task parameters: `records`, the name of an asset such as "apps/year", which is called with `seed` (default 0) and
    returns JSON: `now`, and `tables` with their rows. `goal` (optional), digests of the changes that the task asks for,
    from which `potential` is computed.

    A subclass sets `kinds`, and appends `record()` to the last result, for the reward.
    """

    reward = "state_changes"
    kinds: tuple[type[StoreApp], ...] = ()

    def __init__(self) -> None:
        self.apps: dict[str, StoreApp] = {}
        self.store = Store({}, {})
        self.conduct = Conduct()
        self.now = ""
        self._goal: frozenset[str] = frozenset()
        self._observed = ObservedState()

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin with the task's snapshot. Raises: TaskError if the parameters name no snapshot."""
        parameters = task.parameters
        goal = parameters.get("goal", ())
        if not isinstance(goal, list | tuple) or not all(isinstance(digest, str) for digest in goal):
            raise TaskError(f"{task.id}: parameters['goal'] must be a list of digests of changes, not {goal!r:.80}.")
        name, number = parameters.get("records"), parameters.get("seed", 0)
        if not isinstance(name, str) or not isinstance(number, int):
            raise TaskError(
                f"{task.id}: parameters['records'] is {name!r:.80} and parameters['seed'] is {number!r:.80}. Give the "
                "name of an asset, such as 'apps/year', and a whole number."
            )
        self.open_records(name, number)
        self._goal, self.ended = frozenset(goal), False
        identity = json.dumps([task.environment, name, number, list(goal)])
        self.conduct, self._observed = Conduct(), ObservedState(identity)
        return task.opening()

    def open_records(self, records: str, seed: int) -> None:
        """Begin with the records of a snapshot, without a task. Task sets use this to compute solutions.

        Raises: the errors of `snapshot_of`.
        """
        self.now, tables = snapshot_of(records, seed, self.kinds)
        self.store = Store(tables, schema_of(self.kinds))
        self.apps = {kind.name: kind(self.store, self.now) for kind in self.kinds}

    def app(self, name: str) -> StoreApp:
        """Return an app by its name. Raises: ToolError that lists the apps."""
        if name not in self.apps:
            raise ToolError(f"There is no app {name[:60]!r}. There are: {', '.join(self.apps)}.")
        return self.apps[name]

    def call_api(self, app: str, api: str, arguments: dict[str, Any]) -> Any:
        """Check the arguments of an API and call it. Raises: ToolError if it refuses."""
        self.check_open()
        owner = self.app(app)
        chosen = owner.api(api)
        self.conduct.begin_call(app, api)
        error: ToolError | None = None
        try:
            _check_size(f"{app}.{api}", arguments)
            return chosen.function(owner, **chosen.validate(arguments))
        except ToolError as refusal:
            error = refusal
            raise
        except WrongArguments as wrong:
            error = ToolError(str(wrong))
            raise error from wrong
        finally:
            self.conduct.end_call(app, api, error)

    def check_open(self) -> None:
        """Check that the episode is not over: calls that follow the last one in the same message must not change
        anything.

        Raises: ToolError once it is over.
        """
        if self.ended:
            raise ToolError("It is over: nothing changes any more.")

    def record(self) -> str:
        """Return the line that the reward reads."""
        digests = sorted(self.store.changes())
        changes = digests if len(digests) <= MAX_CHANGES else None
        return RECORD + json.dumps({"changes": changes, **self.counts()})

    def counts(self) -> dict[str, int]:
        """Return the numbers in the record."""
        return self.conduct.counts()

    async def potential(self) -> float | None:
        """Return the requested changes that were made, as a share of all changes that were requested or made.

        It is 1 only if exactly the requested changes were made, and 0 if the task requests none.
        """
        if not self._goal:
            return 0.0
        changes = self.store.changes().keys()
        return len(self._goal & changes) / len(self._goal | changes)

    async def state_key(self) -> str | None:
        """Return a hash of the task, the changes, and the set of results seen so far."""
        return self._observed.key(json.dumps(self.store.data(), sort_keys=True))

    async def checkpoint(self) -> Checkpoint | None:
        data = {"store": self.store.data(), "conduct": asdict(self.conduct), "ended": self.ended}
        return Checkpoint({**data, **self._observed.data()})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        data = checkpoint.data
        self.store.restore(data["store"])
        self.conduct, self.ended = Conduct(**data["conduct"]), data["ended"]
        self._observed.restore(data)


def _check_size(name: str, arguments: Any) -> None:
    """Raise ToolError if arguments are too long or nested too deeply."""
    level, levels = [arguments], 0
    while level := [
        value
        for holder in level
        if isinstance(holder, dict | list)
        for value in (holder.values() if isinstance(holder, dict) else holder)
    ]:
        levels += 1
        if levels > MAX_ARGUMENT_LEVELS:
            raise ToolError(f"The arguments of {name} are nested more than {MAX_ARGUMENT_LEVELS} levels deep.")
    if (length := len(json.dumps(arguments, default=str))) > MAX_ARGUMENT_CHARS:
        raise ToolError(f"The arguments of {name} have {length} characters; at most {MAX_ARGUMENT_CHARS} are taken.")


@lru_cache(maxsize=64)
def snapshot_of(name: str, seed: int, kinds: tuple[type[StoreApp], ...]) -> tuple[str, Tables]:
    """Return an asset's time and tables for a seed. Many episodes share them, and none changes them.

    Raises: TaskError if the asset does not return JSON or its rows do not fit the apps; UnknownNameError for an unknown
        asset.
    """
    try:
        content: Mapping[str, Any] = json.loads(load("assets", name)(seed))
        now, rows = str(content["now"]), content["tables"]
        tables = {table: {int(row["id"]): row for row in rows[table]} for table in schema_of(kinds)}
    except (ValueError, KeyError, TypeError) as error:
        raise TaskError(f"The asset {name!r} cannot make records for seed {seed}: {error!r}.") from error
    for table in schema_of(kinds).values():
        check_rows(name, table, tables[table.name])
    return now, tables


def check_rows(name: str, table: TableSchema, rows: Mapping[int, Mapping[str, Any]]) -> None:
    """Raise TaskError for a row that does not have exactly its table's columns."""
    expected = {"id", *table.columns}
    if wrong := next((row for row in rows.values() if row.keys() != expected), None):
        raise TaskError(
            f"{name}: a row of {table.name} has the columns {sorted(wrong)}, but it needs {sorted(expected)}."
        )
