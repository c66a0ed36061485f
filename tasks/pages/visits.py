"""Chooses the pages to photograph: their data, window sizes and styles."""

# ruff: noqa: SIM905 - a list of words is easier to read as one string that is split

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym import load, seed_of

WIDTHS, HEIGHTS = (480, 560, 640, 800, 1024), (360, 420, 480, 600, 720)
KNOWN_SITES, UNSEEN_SITE = ("shop", "mail", "calendar", "form"), "forum"
STRATA = {"train": 160, "validation": 24, "unseen_site": 24, "unseen_worlds": 24, "unseen_questions": 40}
"""The number of photographs of each stratum."""
STOPS = 5
"""The largest number of pages of a visit."""
PAINTS = (
    "",
    "body { font-family: serif; background: #efe9dc } nav { background: #6b3f2a } main { background: #fffdf6 }",
    "body, main { background: #1d2128; color: #dfe3ea } td, th { border-color: #434b59 } a { color: #8db4ff } "
    "nav { background: #0f1319 } input, select, textarea, button { background: #2c323d; color: #dfe3ea }",
    "nav { background: #1f6f54 } button { background: #1f6f54; color: #fff; border: 0; border-radius: 6px }",
    "nav { background: #e7ebf3; border-bottom: 1px solid #99a } nav a, nav b { color: #234 } h1 { color: #a33 }",
)
"""Style sheets that replace the application's own colours."""
LABELS = tuple(
    """
    Name City Street Colour Team Code Country Phone Language Newsletter Age Company
    """.split()
)
CHOICES = ("Oslo", "Lima", "Graz", "Porto", "red", "green", "north", "south", "daily", "weekly")
BUTTONS = ("Save", "Send", "Cancel", "Next", "Print", "Close", "Delete", "Copy")
"""Texts of buttons on forms."""
AppData = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stop:
    """A page of a visit: its path, the style sheet added to it, and the pixels by which it is scrolled down."""

    path: str
    look: str
    down: int


@dataclass(frozen=True, slots=True)
class Visit:
    """Some pages of one application in one window. `site` and `data` are as in `agentgym/web-v1`."""

    site: str
    data: AppData
    viewport: tuple[int, int]
    stops: tuple[Stop, ...]


def look(rng: random.Random) -> str:
    """Draw a style sheet. It moves elements, so that an element's position cannot be guessed from its name."""
    nav = f"padding: {rng.randint(2, 26)}px {rng.randint(4, 60)}px"
    if rng.random() < 0.5:
        nav += "; display: flex; flex-wrap: wrap; flex-direction: row-reverse"
        nav += f"; justify-content: {rng.choice(('flex-start', 'center', 'flex-end'))}"
    else:
        nav += f"; text-align: {rng.choice(('left', 'center', 'right'))}"
    page = rng.choice(("", "display: flex; flex-direction: column-reverse", "display: flex; flex-direction: row"))
    if page.endswith("row"):  # the bar is at the side
        nav += "; display: flex; flex-direction: column"
    top, side = rng.randint(0, 30), rng.choice(("auto", "0", "auto 0 0", "20px"))
    around, label = rng.randint(2, 30), rng.choice(("", "display: block", "margin-right: 30px"))
    return (
        f"{rng.choice(PAINTS)} html {{ zoom: {rng.choice((0.85, 0.95, 1, 1.1, 1.25))} }} body {{ {page} }} "
        f"nav {{ {nav} }} nav a {{ margin: {rng.randint(0, 6)}px {rng.randint(4, 34)}px {rng.randint(0, 6)}px 0 }} "
        f"h1 {{ font-size: {rng.randint(15, 30)}px; margin: {rng.randint(0, 24)}px 0 }} "
        f"main {{ flex: 1; max-width: {rng.randint(420, 900)}px; padding: {around}px; margin: {top}px {side} }} "
        f"label {{ {label} }} td, th {{ padding: {rng.randint(1, 9)}px }} "
        f"input, select, button {{ padding: {rng.randint(1, 7)}px {rng.randint(3, 16)}px }}"
    )


def visit(stratum: str, attempt: int) -> Visit:
    """Draw a visit from its own random stream."""
    rng = random.Random(seed_of("gui/pages-v1", stratum, attempt))
    site = UNSEEN_SITE if stratum == "unseen_site" else rng.choices(KNOWN_SITES, (6, 3, 3, 8))[0]
    if stratum == "unseen_questions":
        site = rng.choices(KNOWN_SITES, (3, 1, 1, 0))[0]  # sites with lists
    seed = rng.randrange(100, 200) if stratum == "unseen_worlds" else rng.randrange(100)
    data, paths = _SITES[site](rng, seed, stratum)
    stops = tuple(
        Stop(path, look(rng), rng.choice((0, 0, 0, 40, 120))) for path in rng.sample(paths, min(STOPS, len(paths)))
    )
    return Visit(site, data, (rng.choice(WIDTHS), rng.choice(HEIGHTS)), stops)


def _data(name: str, seed: int) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(load("assets", name)(seed=seed))
    return data


def _shop(rng: random.Random, seed: int, stratum: str) -> tuple[AppData, Sequence[str]]:
    data = _data("web/shop", seed)
    product_ids = [product["id"] for product in rng.sample(data["products"], 5)]
    data |= {
        "cart": {key: rng.randint(1, 3) for key in product_ids[: rng.randint(1, 5)]},
        "wishes": product_ids[: rng.randint(1, 5)],
    }
    category = rng.choice(data["products"])["category"]
    paths = [
        "/",
        "/?page=2",
        f"/?category={category}",
        f"/?category={category}&sort=price",
        "/?sort=rating",
        "/wishes",
        f"/product?id={product_ids[0]}",
        "/cart",
        "/checkout",
        "/orders",
        f"/order?id={rng.choice(data['orders'])['id']}",
    ]
    return data, paths


def _mail(rng: random.Random, seed: int, stratum: str) -> tuple[AppData, Sequence[str]]:
    data = _data("web/mail", seed)
    for message in data["messages"]:
        message["folder"] = rng.choices(("Inbox", "Archive", "Travel", "Bills"), (5, 1, 1, 1))[0]
        message["starred"] = rng.random() < 0.2
    message_id = rng.choice(data["messages"])["id"]
    paths = (
        "/",
        "/?folder=Archive",
        "/?folder=Travel",
        "/?page=2",
        f"/message?id={message_id}",
        "/write",
        f"/write?reply={message_id}",
        f"/write?forward={message_id}",
    )
    return data, paths


def _calendar(rng: random.Random, seed: int, stratum: str) -> tuple[AppData, Sequence[str]]:
    data = _data("web/calendar", seed)
    event = rng.choice(data["events"])
    location = event["place"].replace(" ", "+")
    return data, ("/", f"/?q={location}", f"/event?id={event['id']}", "/new")


def _form(rng: random.Random, seed: int, stratum: str) -> tuple[AppData, Sequence[str]]:
    fields = []
    for label in rng.sample(LABELS, rng.randint(2, 5)):
        kind = rng.choice(("text", "text", "choice", "check"))
        fields.append({"kind": kind, "name": label.lower(), "label": label, "options": rng.sample(CHOICES, 3)})
    return {"title": "Form", "fields": fields, "buttons": rng.sample(BUTTONS, rng.randint(2, 4))}, ("/",)


def _forum(rng: random.Random, seed: int, stratum: str) -> tuple[AppData, Sequence[str]]:
    data = _data("web/forum", seed)
    thread = rng.choice(data["threads"])
    return data, ("/", "/?sort=votes", f"/?topic={thread['topic']}", f"/thread?id={thread['id']}", "/new")


_SITES: dict[str, Callable[[random.Random, int, str], tuple[AppData, Sequence[str]]]] = {
    "shop": _shop,
    "mail": _mail,
    "calendar": _calendar,
    "form": _form,
    "forum": _forum,
}
