"""The report page of a run: one HTML file without scripts or outside assets, readable in dark and light.

`contents` reads the run folder, `results`, `curves`, `episodes` and `settings` are its four parts, `svg` draws,
`html` makes markup that what agents and tools wrote cannot break out of.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.errors import AgentGymError
from agentgym.evaluation.report.contents import Contents, read
from agentgym.evaluation.report.curves import curves
from agentgym.evaluation.report.episodes import episodes
from agentgym.evaluation.report.html import Html, el, join
from agentgym.evaluation.report.results import facts, headline, mistakes, samples, strata
from agentgym.evaluation.report.settings import settings, written

if TYPE_CHECKING:
    from agentgym.episode.run_folder import RunFolder

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What the page may load: nothing. A script would not run even if one got in."""


def write_report(run_folder: RunFolder | Path | str) -> Path:
    """Write `report.html` into a run folder, whole or not at all, from whatever files are there.

    Returns: where it is.
    Raises: AgentGymError if there is no such folder or it cannot be written to.
    """
    path = Path(run_folder) if isinstance(run_folder, (str, Path)) else run_folder.path
    page = render(read(path))
    target, partial = path / "report.html", path / "report.html.partial"
    try:
        partial.write_text(page, encoding="utf-8", errors="replace")
        partial.replace(target)
    except OSError as error:
        raise AgentGymError(
            f"Cannot write the report {target}: {error.strerror}. Free some space, or copy the run folder elsewhere."
        ) from error
    return target


def render(contents: Contents) -> Html:
    """The whole page."""
    style = (files(__package__) / "style.css").read_text(encoding="utf-8")
    what = [contents.setting("tasks", "set"), contents.setting("train", "estimator")]
    under = " · ".join(str(part) for part in [*what, written()] if part)
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=POLICY),
        el("meta", name_="color-scheme", content="light dark"),
        el("title", f"{contents.name}: agentgym report"),
        el("style", Html(style)),
    )
    body = el(
        "body",
        el("a", "Skip to the result", href="#result", cls="skip"),
        el("header", el("p", "agentgym", cls="brand"), el("h1", contents.name), el("p", under, cls="fine"), cls="top"),
        el(
            "main",
            headline(contents), facts(contents), strata(contents), samples(contents), mistakes(contents),
            curves(contents), episodes(contents), settings(contents),
            id="result",
        ),
        el("footer", f"Written by agentgym on {written()}. Numbers come from the files of the run folder alone.",
           cls="bottom"),
    )  # fmt: skip
    return join([Html("<!doctype html>\n"), el("html", head, body, lang="en")])
