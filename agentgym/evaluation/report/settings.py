"""The end of the page: how to repeat the run, what it ran on, how long its parts took."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from agentgym.evaluation.cost import in_words
from agentgym.evaluation.report.contents import Contents
from agentgym.evaluation.report.html import Html, el

PACKAGES = ("agentgym-core", "torch", "transformers", "trl", "accelerate", "numpy")


def settings(contents: Contents) -> Html:
    """Evaluations, timings, versions, the recipe, and what could not be read."""
    return el(
        "section",
        el("h2", "The run"),
        el("div", _evaluations(contents), cls="scroll", tabindex=0),
        el("div", _timings(contents), _versions(contents), _costs(contents), cls="columns"),
        el("details", el("summary", "The resolved recipe"), el("pre", contents.recipe_text, cls="text recipe"))
        if contents.recipe_text else None,
        el("details", el("summary", "State"), el("table", _flat(contents.state))) if contents.state else None,
        el("div", el("h3", "Could not be read"), el("ul", [el("li", note) for note in contents.notes]))
        if contents.notes else None,
    )  # fmt: skip


def _evaluations(contents: Contents) -> Html:
    if not contents.evaluations:
        return Html("")
    head = ["Evaluation", "Tasks", "Agent", "n", "Success, 95 % interval", "Failed", "Seed", "Manifest"]
    rows = [
        el("tr", el("th", e.label, scope="row"), el("td", f"{e.task_set}:{e.split}"), el("td", e.policy),
           el("td", f"{len(e.rows):,} \N{MULTIPLICATION SIGN} {e.samples}", cls="num"),
           el("td", e.success().percent(), cls="num"),
           el("td", e.failed, cls="num"), el("td", e.seed, cls="num"), el("td", el("code", e.manifest)))
        for e in contents.evaluations
    ]  # fmt: skip
    return el(
        "table", el("caption", "Evaluations; an equal manifest means exactly the same tasks"),
        el("thead", el("tr", [el("th", h, scope="col") for h in head])), el("tbody", rows),
    )  # fmt: skip


def _costs(contents: Contents) -> Html:
    """What the episodes of each evaluation took of sandboxes, tools and API."""
    told = [(e.label, in_words(e.usage())) for e in contents.evaluations]
    rows = [
        el("tr", el("th", label, scope="row"), el("td", [el("div", phrase) for phrase in words]))
        for label, words in told if words
    ]  # fmt: skip
    return el("table", el("caption", "What evaluations took"), el("tbody", rows)) if rows else Html("")


def _timings(contents: Contents) -> Html:
    """Wall time of each phase, from its first to its last line in the metrics."""
    rows = []
    for phase, lines in contents.metrics.items():
        times = [row["time"] for row in lines if "time" in row]
        if len(times) > 1 and "validation" not in phase:
            steps = int(lines[-1]["step"] - lines[0]["step"])
            took = max(times) - min(times)
            pace = f"{took / steps:.2f} s" if steps else "\N{EN DASH}"
            rows.append(
                el("tr", el("th", phase.replace("_", " "), scope="row"), el("td", duration(took), cls="num"),
                   el("td", pace, cls="num"))
            )  # fmt: skip
    if not rows:
        return Html("")
    head = el("tr", [el("th", h, scope="col") for h in ("Phase", "First to last log line", "Per step")])
    return el("table", el("caption", "Timings"), el("thead", head), el("tbody", rows))


def _versions(contents: Contents) -> Html:
    rows = [("Python", platform.python_version()), ("Machine", f"{platform.system()} {platform.machine()}")]
    for package in PACKAGES:
        try:
            rows.append((package, version(package)))
        except PackageNotFoundError:
            continue
    body = [el("tr", el("th", name, scope="row"), el("td", found, cls="num")) for name, found in rows]
    return el("table", el("caption", "Versions when this page was written"), el("tbody", body))


def _flat(data: Mapping[str, Any], prefix: str = "") -> list[Html]:
    rows: list[Html] = []
    for key, value in data.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{key}.")
        else:
            rows.append(el("tr", el("th", f"{prefix}{key}", scope="row"), el("td", str(value))))
    return rows


def duration(seconds: float) -> str:
    """For people: `48 s`, `7 min 05 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def written() -> str:
    """Now, in UTC, to the minute."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
