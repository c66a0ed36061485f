"""Tasks in the calendar."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from .plan import TaskPlan, WebTemplate, button, done, link, typed
from .words import words_of

Data = Mapping[str, Any]
_DATE, _TIME = "Date (YYYY-MM-DD)", "Time (HH:MM)"


def _day(rng: random.Random) -> str:
    return f"2026-05-{rng.randint(1, 31):02d}"


def _hour(rng: random.Random) -> str:
    return f"{rng.randint(7, 20):02d}:{rng.choice(('05', '10', '20', '40'))}"


def _add(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    words = words_of(seed)
    taken = {event["title"] for event in data["events"]}
    titles = [f"{what} with {who}" for what in words.occasions for who in words.people]
    title = rng.choice([t for t in titles if t not in taken])
    event = {"title": title, "date": _day(rng), "time": _hour(rng), "place": rng.choice(words.places)}
    start = (link("New event"), typed("Title", title), typed(_DATE, event["date"]))
    ending = (typed("Place", event["place"]), button("Save"), done())
    return TaskPlan(
        f'Add the event "{title}" on {event["date"]} at {event["time"]}, place: {event["place"]}.',
        (*start, typed(_TIME, event["time"]), *ending),
        {"added": [event]},
        wrong=(*start, typed(_TIME, "06:00"), *ending),
    )


def _remove(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    event, wrong_event = rng.sample(data["events"], 2)
    return TaskPlan(
        f'Remove the event "{event["title"]}".',
        (link(event["title"]), button("Remove event"), done()),
        {"removed": [event["id"]]},
        wrong=(link(wrong_event["title"]), button("Remove event"), done()),
    )


def _shift(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    event, time = rng.choice(data["events"]), _hour(rng)
    return TaskPlan(
        f'Move the event "{event["title"]}" to {time} on the same day.',
        (link(event["title"]), typed(_TIME, time), button("Save"), done()),
        {"changed": {event["id"]: {"time": time}}},
        wrong=(link(event["title"]), typed(_TIME, "06:00"), button("Save"), done()),
    )


def _where(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    event = rng.choice(data["events"])
    start = (typed("Search", event["title"]), button("Search"))
    return TaskPlan(
        f'Where and when is "{event["title"]}"? Answer as: place, time.',
        (*start, done(f"{event['place']}, {event['time']}")),
        {},
        f"{event['place']}, {event['time']}",
        (*start, done(f"{event['place']}, 06:00")),
    )


def _change_place(rng: random.Random, data: Data, seed: int) -> TaskPlan:
    event = rng.choice(data["events"])
    location, wrong = rng.sample([p for p in words_of(seed).places if p != event["place"]], 2)
    return TaskPlan(
        f'"{event["title"]}" takes place in another place: {location}. Change it.',
        (link(event["title"]), typed("Place", location), button("Save"), done()),
        {"changed": {event["id"]: {"place": location}}},
        wrong=(link(event["title"]), typed("Place", wrong), button("Save"), done()),
    )


CALENDAR = (
    WebTemplate("add", "calendar", _add, difficulty=2),
    WebTemplate("remove", "calendar", _remove),
    WebTemplate("shift", "calendar", _shift, difficulty=2),
    WebTemplate("where", "calendar", _where),
    WebTemplate("change_place", "calendar", _change_place, held_out=True, difficulty=2),
)
