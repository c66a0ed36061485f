"""The calendar."""

from __future__ import annotations

from datetime import date as calendar_date
from datetime import time as clock_time
from typing import Any

from agentgym import ToolError, tool

from ..record_app import StoreApp, holds, listing
from ..record_store import TableSchema


class CalendarApp(StoreApp):
    """Events with a date and a time."""

    name = "calendar"
    tables = (TableSchema("events", ("date", "time", "title", "location")),)

    @tool
    def search(self, text: str, page: int = 0) -> dict[str, Any]:
        """Find events whose title holds a text, earliest first. Each result has id, date, time, title and location."""
        rows = [row for row in self.store.rows("events") if holds(row, text, "title")]
        rows.sort(key=lambda row: (row["date"], row["time"], row["id"]))
        return listing(rows, page, "id", "date", "time", "title", "location")

    @tool
    def agenda(self, date: str) -> dict[str, Any]:
        """All events of a day, earliest first, with what a search shows.

        Args:
            date: as 2025-03-01.
        """
        rows = sorted(self.store.rows("events", date=date), key=lambda row: (row["time"], row["id"]))
        return listing(rows, 0, "id", "date", "time", "title", "location")

    @tool
    def add(self, date: str, time: str, title: str, location: str = "") -> dict[str, Any]:
        """Add an event.

        Args:
            date: as 2025-03-01.
            time: as 09:30.
        """
        check_moment(date, time)
        return {"id": self.store.insert("events", date=date, time=time, title=title, location=location)["id"]}

    @tool
    def move(self, event_id: int, date: str, time: str) -> str:
        """Move an event to another date or time."""
        self.row("events", event_id)
        check_moment(date, time)
        self.store.update("events", event_id, date=date, time=time)
        return "Moved."

    @tool
    def cancel(self, event_id: int) -> str:
        """Remove an event."""
        self.row("events", event_id)
        self.store.delete("events", event_id)
        return "Cancelled."


def check_moment(date: str, time: str) -> None:
    """Check that a date and a time read as 2025-03-01 and 09:30. Raises: ToolError if not."""
    try:
        if calendar_date.fromisoformat(date).isoformat() != date or f"{clock_time.fromisoformat(time):%H:%M}" != time:
            raise ValueError
    except ValueError as error:
        raise ToolError(
            f"Write the date as 2025-03-01 and the time as 09:30, not {date[:20]!r}, {time[:20]!r}."
        ) from error
