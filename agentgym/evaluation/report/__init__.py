"""The report of a run: one self-contained HTML file that opens from disk and loads nothing else.

It is the viewer's page (`page/`) with the data inside it (`embedding`). `contents` reads the run folder; `run_data`,
`findings` and `episode_data` turn it into plain data, which `agentgym.viewer` serves for whole runs too. `html` makes
markup in which text of agents and tools is always escaped. Without JavaScript, the file shows the table of gains.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.errors import AgentGymError
from agentgym.evaluation.report.assets import assets, policy_hash, script
from agentgym.evaluation.report.contents import read
from agentgym.evaluation.report.embedding import MAX_BYTES, data_element, embedded
from agentgym.evaluation.report.html import Html, el, join, timestamp
from agentgym.text import percent, points

if TYPE_CHECKING:
    from agentgym.storage.run_folder import RunFolder


def policy() -> str:
    """Return the page's Content-Security-Policy: only its own script, by hash, and embedded images."""
    return (
        f"default-src 'none'; script-src {policy_hash(script())}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def write_report(run_folder: RunFolder | Path | str, *, most_bytes: int = MAX_BYTES) -> Path:
    """Write `report.html` into a run folder atomically, from the files that exist there.

    Args:
        most_bytes: total size of the episodes included in full; others are only listed.
    Returns: the path of the report.
    Raises: AgentGymError if the folder is missing or cannot be written to.
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


def page(path: Path, *, most_bytes: int = MAX_BYTES) -> Html:
    """Return the current report of a run folder. Raises: AgentGymError if the folder is missing."""
    contents = read(path)
    data = embedded(contents, most_bytes=most_bytes)
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=policy()),
        el("meta", name_="color-scheme", content="light dark"),
        el("title", f"{contents.name}: agentgym report"),
        el("style", Html(assets()["viewer.css"].decode("utf-8"))),
    )
    body = el(
        "body",
        el("div", el("noscript", _without_script(contents.name, data["run"])), id="app"),
        data_element(data),
        Html(f'<script type="module">{script()}</script>'),
    )
    return join([Html("<!doctype html>\n"), el("html", head, body, lang="en")])


def _without_script(name: str, run: Mapping[str, Any]) -> Html:
    """Return the view without JavaScript: success before and after, per kind of task."""
    if not run["gains"]:
        result = el("p", "Nothing has been evaluated yet.")
    else:
        several = run["same_tasks"] if len(run["same_tasks"]) > 2 else []
        rates = [evaluation["label"] for evaluation in several] or ["Before", "After"]
        heads = ("Tasks", "n", *rates, "Gain, points")
        rows = [
            el(
                "tr",
                el("th", row["tag"] or "all tasks", scope="row"),
                el("td", row["tasks"], cls="num"),
                *(
                    el("td", _percent(success), cls="num")
                    for success in (row["each"] if several else (row["before"], row["after"]))
                ),
                el("td", _points(row["gain"]), cls="num"),
            )
            for row in run["gains"]
        ]
        caption = el("caption", "Success with 95 % intervals; gains are paired by task")
        head = el("thead", el("tr", [el("th", name, scope="col") for name in heads]))
        result = el("table", caption, head, el("tbody", rows))
    adapted = el("p", f"Label-free adaptation: the agent that was measured last was {run['adapted']}.")
    return el(
        "div",
        el("h1", name),
        *([adapted] if run["adapted"] else []),
        *([el("p", f"Played in {run['weaker']}.")] if run["weaker"] else []),
        result,
        el("p", f"Written {timestamp()}. Curves and episodes need JavaScript; nothing is loaded from elsewhere."),
        cls="view",
    )


def _percent(estimate: Mapping[str, Any] | None) -> str:
    if estimate is None or estimate["value"] is None:
        return "no data"
    return f"{percent(estimate['value'])} ({percent(estimate['low'])} to {percent(estimate['high'])})"


def _points(gain: Mapping[str, Any] | None) -> str:
    if gain is None or gain["value"] is None:
        return "no data"
    return f"{points(gain['value'], 1)} ({points(gain['low'], 1)} to {points(gain['high'], 1)})"
