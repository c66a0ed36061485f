"""Store: tables of records with a snapshot. Episodes share a record until one of them changes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
Tables = Mapping[str, Mapping[int, Row]]


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table of an app. Every row has an integer `id`.

    Attributes:
        columns: names of the other columns.
        references: maps each column that holds an id to the table of that id.
        incidental: columns that reading may change and no task asks to change; their changes do not count.
    """

    name: str
    columns: tuple[str, ...]
    references: tuple[tuple[str, str], ...] = ()
    incidental: frozenset[str] = frozenset()


class Store:
    """The records of one episode: an immutable snapshot, and the changes on top of it.

    Creating a store and returning to the snapshot take constant time, whatever the number of records. Rows are
    read-only: change them with `update` and `insert`.

    Args:
        snapshot: per table, the rows by id.
        schema: the tables.
    """

    def __init__(self, snapshot: Tables, schema: Mapping[str, TableSchema]) -> None:
        self._snapshot, self._schema = snapshot, schema
        self._changed: dict[str, dict[int, Row | None]] = {}
        self._created: dict[str, int] = {}
        self._effects: list[dict[str, Any]] = []

    def get(self, table: str, row_id: int) -> Row | None:
        """Return the row with this id; None if there is none."""
        changed = self._changed.get(table)
        if changed is not None and row_id in changed:
            return changed[row_id]
        return self._snapshot[table].get(row_id)

    def rows(self, table: str, **equal: Any) -> Iterator[Row]:
        """Return the rows in the order of their ids. `equal`: only rows with these values."""
        snapshot, changed = self._snapshot[table], self._changed.get(table)
        if changed:
            merged = {**snapshot, **changed}
            rows: Iterator[Row | None] = (merged[row_id] for row_id in sorted(merged))
        else:
            rows = iter(snapshot.values())
        conditions = equal.items()
        for row in rows:
            if row is not None and all(row[column] == value for column, value in conditions):
                yield row

    def insert(self, table: str, **values: Any) -> Row:
        """Add a row under the next free id. Raises: KeyError unless it has exactly the table's columns."""
        if values.keys() != set(self._schema[table].columns):
            raise KeyError(
                f"A row of {table} must have the columns {self._schema[table].columns}, not {sorted(values)}."
            )
        count = self._created.get(table, 0) + 1
        self._created[table] = count
        row = {"id": max(self._snapshot[table], default=0) + count, **values}
        self._changed.setdefault(table, {})[row["id"]] = row
        return row

    def update(self, table: str, row_id: int, **values: Any) -> Row:
        """Change values of a row. Raises: KeyError if the row or a column does not exist."""
        row = self.get(table, row_id)
        if row is None or not values.keys() <= row.keys():
            raise KeyError(f"{table} has no row {row_id}, or the row lacks some of the columns {sorted(values)}.")
        changed = {**row, **values}
        self._changed.setdefault(table, {})[row_id] = changed
        return changed

    def delete(self, table: str, row_id: int) -> None:
        """Remove a row. Raises: KeyError if the row does not exist."""
        if self.get(table, row_id) is None:
            raise KeyError(f"{table} has no row {row_id}.")
        self._changed.setdefault(table, {})[row_id] = None

    def record_effect(self, effect: str, **content: Any) -> None:
        """Record an effect that no later change undoes, for example that a mail was sent or money was charged.

        The effect counts as a change, whatever happens to the rows.
        """
        self._effects.append({"effect": effect, **content})

    def changes(self) -> dict[str, dict[str, Any]]:
        """Return the differences from the snapshot, and the recorded effects, each by its digest.

        Equal differences have equal digests, whatever the ids of new rows and the order of the changes. A row that was
        changed back, or added and removed, makes no difference.
        """
        rows = [
            difference
            for table, changed in self._changed.items()
            for row_id, row in changed.items()
            if (difference := self._difference(table, row_id, row)) is not None
        ]
        differences: dict[str, dict[str, Any]] = {}
        for difference in [*rows, *self._effects]:
            text = json.dumps(difference, sort_keys=True)
            digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
            while digest in differences:  # the same row twice counts as two differences
                digest = hashlib.blake2b(digest.encode(), digest_size=8).hexdigest()
            differences[digest] = difference
        return differences

    def data(self) -> dict[str, Any]:
        """Return the changes as plain data, for a checkpoint."""
        changed = {table: [[row_id, row] for row_id, row in rows.items()] for table, rows in self._changed.items()}
        return {"changed": changed, "created": dict(self._created), "effects": list(self._effects)}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Load the changes that `data` returned for a store with the same snapshot."""
        self._changed = {table: dict(rows) for table, rows in data["changed"].items()}
        self._created, self._effects = dict(data["created"]), list(data["effects"])

    def _difference(self, table: str, row_id: int, row: Row | None) -> dict[str, Any] | None:
        before = self._snapshot[table].get(row_id)
        if row is None:
            return None if before is None else {"table": table, "id": row_id, "deleted": True}
        if before is None:
            return {"table": table, "created": self._content(table, row)}
        incidental = self._schema[table].incidental
        columns = {name for name, value in row.items() if value != before[name] and name not in incidental}
        return {"table": table, "id": row_id, "changed": self._content(table, row, columns)} if columns else None

    def _content(self, table: str, row: Row, columns: set[str] | None = None) -> dict[str, Any]:
        """Return a row without its id, with each reference to a new row replaced by that row's content."""
        schema = self._schema[table]
        references = dict(schema.references)
        content: dict[str, Any] = {}
        for name in schema.columns:
            if name in schema.incidental or (columns is not None and name not in columns):
                continue
            value, target = row[name], references.get(name)
            if target is not None and value not in self._snapshot[target]:
                referred = self.get(target, value)
                value = None if referred is None else self._content(target, referred)
            content[name] = value
        return content
