"""A calendar of one month: days with events, which can be added, changed and removed."""

from __future__ import annotations

import re
from typing import Any

from .app import App, Fields, button, entry, link, table, text

_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MAX_NEW_EVENTS = 50
_FIELDS = {"title": "Title", "date": "Date (YYYY-MM-DD)", "time": "Time (HH:MM)", "place": "Place"}


class Calendar(App):
    """`data`: events, each with title, date, time and place."""

    title = "Almanac"
    links = (("/", "All events"), ("/new", "New event"))

    def get_home(self, query: Fields) -> str:
        words = query.get("q", "").lower().split()
        events = [
            event
            for event in sorted(self.state["events"], key=lambda event: (event["date"], event["time"], event["id"]))
            if all(word in " ".join(event[field] for field in _FIELDS).lower() for word in words)
        ]
        rows = [
            (text(e["date"]), text(e["time"]), link(f"/event?id={e['id']}", e["title"]), text(e["place"]))
            for e in events
        ]
        body = f"<form method=get action=/>{entry('q', 'Search', query.get('q', ''))}<button>Search</button></form>"
        return self.page("Events", body + table(("Date", "Time", "Event", "Place"), rows))

    def get_event(self, query: Fields, note: str = "") -> str:
        event = self._event(query)
        if event is None:
            return self.page("Not found", "<p>There is no such event.</p>")
        form = f"<form method=post action=/change><input type=hidden name=id value={event['id']}>{self._fields(event)}"
        return self.page(
            event["title"],
            f"{form}<button>Save</button></form>{button('/remove', 'Remove event', id=event['id'])}",
            note,
        )

    def post_change(self, form: Fields) -> str:
        event = self._event(form)
        if event is None:
            return "/"
        if complaint := _wrong(form):
            return self.get_event({"id": event["id"]}, complaint)
        event.update({field: form[field].strip()[:200] for field in _FIELDS})
        return f"/event?id={event['id']}"

    def post_remove(self, form: Fields) -> str:
        self.state["events"] = [event for event in self.state["events"] if event["id"] != form.get("id")]
        return "/"

    def get_new(self, query: Fields, note: str = "") -> str:
        held = {field: query.get(field, "") for field in _FIELDS}
        return self.page(
            "New event", f"<form method=post action=/new>{self._fields(held)}<button>Save</button></form>", note
        )

    def post_new(self, form: Fields) -> str:
        if complaint := _wrong(form):
            return self.get_new(form, complaint)
        events = self.state["events"]
        if len(events) < len(self.start["events"]) + _MAX_NEW_EVENTS:
            number = str(1 + max((int(event["id"]) for event in [*self.start["events"], *events]), default=0))
            events.append({"id": number, **{field: form[field].strip()[:200] for field in _FIELDS}})
        return "/"

    def effects(self) -> dict[str, Any]:
        """Return the events added, changed and removed."""
        before = {event["id"]: event for event in self.start["events"]}
        now = {event["id"]: event for event in self.state["events"]}
        changes = {
            "added": [{f: e[f] for f in _FIELDS} for key, e in now.items() if key not in before],
            "changed": {
                key: {f: event[f] for f in _FIELDS if event[f] != before[key][f]}
                for key, event in now.items()
                if key in before and event != before[key]
            },
            "removed": sorted(before.keys() - now.keys()),
        }
        return {key: value for key, value in changes.items() if value}

    def _event(self, query: Fields) -> dict[str, Any] | None:
        return next((event for event in self.state["events"] if event["id"] == query.get("id")), None)

    def _fields(self, held: Fields) -> str:
        return "".join(entry(field, label, held[field]) + "<br>" for field, label in _FIELDS.items())


def _wrong(form: Fields) -> str:
    """Return what is wrong with the form's values; empty if nothing is."""
    if not form.get("title", "").strip():
        return "An event needs a title."
    if not _DATE.fullmatch(form.get("date", "").strip()):
        return "The date is written as 2026-03-14."
    if not _TIME.fullmatch(form.get("time", "").strip()):
        return "The time is written as 09:30."
    return "" if "place" in form else "The place is missing."
