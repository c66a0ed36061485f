"""The report page of a run: one HTML file without outside assets, readable in dark and light.

`contents` reads the run folder, `results`, `curves`, `episodes` and `settings` are the four parts of the document,
`svg` draws, `html` makes markup that what agents and tools wrote cannot break out of. The document needs no script.
With one, the file is also the viewer's page (`page/`) over the episodes that `embedding` puts into it; `run_data`,
`rows` and `episode_data` make the data, and `agentgym.viewer` serves the same for whole runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.errors import AgentGymError
from agentgym.evaluation.report.assets import policy_hash, script
from agentgym.evaluation.report.contents import Contents, read
from agentgym.evaluation.report.curves import curves
from agentgym.evaluation.report.embedding import KEY, MOST_BYTES, embedded, page_elements
from agentgym.evaluation.report.episodes import chosen, episodes
from agentgym.evaluation.report.html import Html, el, join
from agentgym.evaluation.report.results import facts, headline, mistakes, samples, strata
from agentgym.evaluation.report.settings import settings, written

if TYPE_CHECKING:
    from agentgym.storage.run_folder import RunFolder


def policy() -> str:
    """What the page may load and run: nothing but its own script, known by its hash, and pictures within it."""
    return (
        f"default-src 'none'; script-src {policy_hash(script())}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def write_report(run_folder: RunFolder | Path | str, *, most_bytes: int = MOST_BYTES) -> Path:
    """Write `report.html` into a run folder, whole or not at all, from whatever files are there.

    Args:
        most_bytes: of the episodes that go in whole.
    Returns: where it is.
    Raises: AgentGymError if there is no such folder or it cannot be written to.
    """
    path = Path(run_folder) if isinstance(run_folder, (str, Path)) else run_folder.path
    text = page(path, most_bytes=most_bytes)
    target, partial = path / "report.html", path / "report.html.partial"
    try:
        partial.write_text(text, encoding="utf-8", errors="replace")
        partial.replace(target)
    except OSError as error:
        raise AgentGymError(
            f"Cannot write the report {target}: {error.strerror}. Free some space, or copy the run folder elsewhere."
        ) from error
    return target


def page(path: Path, *, most_bytes: int = MOST_BYTES) -> Html:
    """The page of a run folder as it is now. Raises: AgentGymError if there is no such folder."""
    contents = read(path)
    return render(contents, embedded(contents, chosen(contents), most_bytes=most_bytes))


def render(contents: Contents, data: Mapping[str, Any] | None = None) -> Html:
    """The whole page, with the episodes of `data` to go through if there are any."""
    app_head, app_body = page_elements(data) if data else (None, None)
    style = (files(__package__) / "style.css").read_text(encoding="utf-8")
    what = [contents.setting("tasks", "set"), contents.setting("train", "estimator")]
    under = " · ".join(str(part) for part in [*what, written()] if part)
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=policy()),
        el("meta", name_="color-scheme", content="light dark"),
        el("title", f"{contents.name}: agentgym report"),
        el("style", Html(style), id="document-style"),
        app_head,
    )
    body = el(
        "body",
        el("a", "Skip to the result", href="#result", cls="skip"),
        el("header", el("p", "agentgym", cls="brand"), el("h1", contents.name), el("p", under, cls="fine"), cls="top"),
        _ways_in(data),
        el(
            "main",
            headline(contents), facts(contents), strata(contents), samples(contents), mistakes(contents),
            curves(contents), episodes(contents), settings(contents),
            id="result",
        ),
        el("footer", f"Written by agentgym on {written()}. Numbers come from the files of the run folder alone.",
           cls="bottom"),
        app_body,
    )  # fmt: skip
    return join([Html("<!doctype html>\n"), el("html", head, body, lang="en")])


def _ways_in(data: Mapping[str, Any] | None) -> Html | None:
    """Links into the episodes: shown where the page's script runs."""
    if not data:
        return None
    held, count = len(data["episodes"]), len(data["rows"]) + data["left_out"]
    return el(
        "p",
        el("a", f"Go through the episodes ({held:,} of {count:,} are in this file)", href=f"#/run/{KEY}/episodes"),
        el("a", "Curves", href=f"#/run/{KEY}"),
        cls="ways-in", hidden=True,
    )  # fmt: skip
