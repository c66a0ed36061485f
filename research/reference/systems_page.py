"""The page of published systems, from a table whose references are all resolved: `agentgym dev systems`.

The table, docs/systems.tsv, has a line for each system: its name, its area, whether its mechanism runs here, references
to what runs it, and what is missing. A reference is `kind/name`: something registered (`stage/prefer`), a key of a
recipe (`option/train.kl`), a command, or a file in recipes/, tests/ or docs/.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym import registry
from agentgym.errors import AgentGymError

NOTICE = "<!-- Made from docs/systems.tsv by `agentgym dev systems`. Edit the table instead. -->"
STATUSES = ("runs", "in part", "missing")
REGISTERED: dict[str, registry.Kind] = {
    "environment": "environments",
    "task_set": "task_sets",
    "reward": "rewards",
    "estimator": "estimators",
    "wrapper": "credit_wrappers",
    "objective": "objectives",
    "term": "loss_terms",
    "gatherer": "gatherers",
    "sampler": "samplers",
    "stage": "stages",
    "part": "training_parts",
    "hook": "logit_hooks",
    "policy": "policies",
    "importer": "importers",
}
FOLDERS = {"recipe": "recipes", "test": "tests", "doc": "docs"}
INTRODUCTION = """\
Which published systems and methods agentgym can run. Of {total}, {runs} run, {part} run in part, and {missing} are
missing. *Runs* means that the mechanism of the paper runs here, by what is named. The paper's figures, which depend on
its models and data, were not reproduced."""


class SystemsTableError(AgentGymError, ValueError):
    """A line of the table that makes a wrong claim."""


def systems_page(source: Path) -> str:
    """Return the text of the page. Raises: SystemsTableError naming the system and the mistake in its line."""
    rows = _rows(source)
    counts = Counter(row["status"] for row in rows)
    introduction = INTRODUCTION.format(
        runs=counts["runs"], part=counts["in part"], missing=counts["missing"], total=len(rows)
    )
    lines = [NOTICE, "", "# Published systems", "", introduction]
    for area in dict.fromkeys(row["area"] for row in rows):
        lines += ["", f"## {area}", "", *(_line(row, source.parent) for row in rows if row["area"] == area)]
    return "\n".join([*lines, ""])


def _line(row: dict[str, str], docs: Path) -> str:
    """Return a system's line: its name, its status if it is not `runs`, what runs it, and what is missing."""
    by_kind: dict[str, list[str]] = {}
    for kind, link in _links(row, docs):
        if link not in (links := by_kind.setdefault(kind, [])):
            links.append(link)
    runs = [
        f"{kind}{'s' * (len(links) > 1)} {', '.join(links)}" if kind else ", ".join(links)
        for kind, links in by_kind.items()
    ]
    if not runs and row["status"] != "missing":
        runs = ["a test"]
    status = "" if row["status"] == "runs" else f" ({row['status']})"
    missing = f" *Missing*: {row['missing']}." if row["missing"] and runs else row["missing"]
    return f"- **{row['system']}**{status}: {'; '.join(runs)}{'.' * bool(runs)}{missing}"


def _rows(source: Path) -> list[dict[str, str]]:
    with source.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows:
        system, status = row["system"], row["status"]
        if status not in STATUSES:
            raise SystemsTableError(f"{system}: there is no status {status!r}. Choose one of {', '.join(STATUSES)}.")
        if (status == "missing") == bool(row["here"]):
            raise SystemsTableError(f"{system}: name what runs it, unless its status is 'missing'.")
        if status != "runs" and not row["missing"]:
            raise SystemsTableError(f"{system}: say what is missing, because its status is not 'runs'.")
    if twice := [name for name, count in Counter(row["system"] for row in rows).items() if count > 1]:
        raise SystemsTableError(f"{twice[0]} has two lines.")
    return rows


def _links(row: dict[str, str], docs: Path) -> Iterator[tuple[str, str]]:
    """Yield the references of a line, each as its kind in words and as Markdown.

    Raises: SystemsTableError for a broken reference.
    """
    for reference in row["here"].split():
        kind, _, name = reference.partition("/")
        if kind in REGISTERED and name in registry.names(REGISTERED[kind]):
            yield kind.replace("_", " "), f"`{name}`"
        elif kind in FOLDERS and (docs.parent / FOLDERS[kind] / name).is_file():
            if kind != "test":  # the page links only what readers can run
                yield "", f"[{name}]({name if kind == 'doc' else f'../{FOLDERS[kind]}/{name}'})"
        elif kind == "option" and name in _recipe_keys():
            yield "", f"[`{name}`](reference/recipe.md)"
        elif kind == "command" and name in _commands():
            yield "", f"`agentgym {name}`"
        else:
            raise SystemsTableError(f"{row['system']}: the reference {reference!r} does not exist.")


def _recipe_keys() -> set[str]:
    from research.reference.recipe_page import keys

    return keys()


def _commands() -> Any:
    import typer

    from agentgym.cli.app import app

    return typer.main.get_command(app).commands  # type: ignore[attr-defined]
