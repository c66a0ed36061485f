"""StoreApp: an app with tables and APIs. An API's one declaration yields its documentation, checks and calls."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from agentgym import Tool, ToolError

from .record_store import Row, Store, TableSchema

PAGE = 10
"""Rows per page of a listing."""


class NotFound(ToolError):
    """A call named an id that no record has."""


class StoreApp:
    """Base of the apps. APIs are methods marked with `@tool`; an agent's mistake raises a ToolError.

    Attributes:
        name: the app's name in calls.
        tables: the app's tables. An API may also use other apps' tables.
        apis: the marked methods by name.
    """

    name: ClassVar[str]
    tables: ClassVar[tuple[TableSchema, ...]] = ()
    apis: ClassVar[Mapping[str, Tool]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.apis = Tool.collect(cls)

    def __init__(self, store: Store, now: str) -> None:
        """Make an app. `now`: the episode's fixed time, as `2026-01-05 09:00`."""
        self.store, self.now = store, now

    @property
    def today(self) -> str:
        """Return the date of the episode."""
        return self.now[:10]

    @classmethod
    def summary(cls) -> str:
        """Return one line about the app's purpose."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]

    @classmethod
    def documentation(cls, api: str = "") -> str:
        """Return all APIs, one per line, or details of one. Raises: ToolError for an unknown API."""
        if not api:
            return "\n".join(f"{cls.name}.{each.signature()}: {each.description}" for each in cls.apis.values())
        chosen = cls.api(api)
        arguments = chosen.parameters["properties"].items()
        texts = [f"  {name}: {schema['description']}" for name, schema in arguments if "description" in schema]
        return "\n".join([f"{cls.name}.{chosen.signature()}", chosen.description, *texts])

    @classmethod
    def api(cls, name: str) -> Tool:
        """Return an API by name. Raises: ToolError, which lists the APIs, for an unknown name."""
        if name not in cls.apis:
            raise ToolError(f"The app {cls.name} has no API {name[:60]!r}. It has: {', '.join(cls.apis)}.")
        return cls.apis[name]

    def row(self, table: str, row_id: int) -> Row:
        """Return the table's record with this id. Raises: NotFound."""
        row = self.store.get(table, row_id)
        if row is None:
            raise NotFound(f"{table} has no id {row_id}. Look it up first.")
        return row


def listing(rows: Iterable[Row], page: int, *columns: str) -> dict[str, Any]:
    """Return one page of rows, with only these columns. Raises: ToolError for a page below 0."""
    if page < 0:
        raise ToolError("Pages count from 0.")
    everything = list(rows)
    chosen = everything[page * PAGE : (page + 1) * PAGE]
    results = [{column: row[column] for column in columns} for row in chosen]
    return {"results": results, "more": len(everything) > (page + 1) * PAGE}


def holds(row: Row, text: str, *columns: str) -> bool:
    """Return whether a column contains the text, ignoring case; every row contains the empty text."""
    folded = text.casefold()
    return not folded or any(folded in row[column].casefold() for column in columns)


def schema_of(apps: Iterable[type[StoreApp]]) -> dict[str, TableSchema]:
    """Return all apps' tables by name."""
    return {table.name: table for app in apps for table in app.tables}
