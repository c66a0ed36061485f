"""`agentgym publish --check`: is a package ready for others?"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from agentgym.cli.console import err, out, run
from agentgym.errors import AgentGymError

_CARD_WORDS = {"counts as right": "what counts as right", "oor": "floors", "not measure": "what it does not measure"}


class PackageError(AgentGymError, ValueError):
    """A folder holds no package of environments, or it is not installed."""


def publish(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The package: the folder of its pyproject.toml.")],
    check: Annotated[bool, typer.Option("--check", help="Say what is missing. Nothing is ever uploaded.")] = True,
) -> None:
    """Say whether a package of environments is ready: contract, reward hacks, determinism, card and licence.

    The package must be installed (`pip install -e DIR`), so that its names are known. Your packaging tool uploads it.

    Example: agentgym publish --check warehouse
    """
    failed = False
    for title, finding in _findings(folder):
        failed = failed or bool(finding)
        console = err() if finding else out()
        text = f"- {title}: {finding}" if finding else f"+ {title}"
        console.print(text, markup=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)
    out().print("Ready.", style="green")


def _findings(folder: Path) -> Iterator[tuple[str, str]]:
    """Each thing that was checked, and what is wrong with it; empty if nothing."""
    from agentgym.testing import check_task_set

    project = _project(folder)
    points: dict[str, Any] = project.get("entry-points", {})
    environments = [*points.get("agentgym.environments", {})]
    task_sets = [*points.get("agentgym.task_sets", {})]
    if not environments and not task_sets:
        raise PackageError(
            f"{folder / 'pyproject.toml'} offers nothing: give entry points in the groups agentgym.environments or "
            "agentgym.task_sets."
        )
    _check_installed(environments, task_sets, folder)
    for name in environments:
        yield f"{name}: contract, reward hacks", _problem(_checked, name)
    for name in task_sets:
        yield f"{name}: splits, determinism in another process", _problem(check_task_set, name)
    yield "card", _card_problem(folder, [*environments, *task_sets])
    licence = project.get("license") or (folder / "LICENSE").is_file()
    yield "licence", "" if licence else "name one in pyproject.toml (license = ...), or add a file LICENSE"
    described = project.get("description") and project.get("version")
    yield "description and version", "" if described else "give both in pyproject.toml"


def _project(folder: Path) -> dict[str, Any]:
    file = folder / "pyproject.toml"
    try:
        project: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    except FileNotFoundError as error:
        raise PackageError(f"{file} does not exist: give the folder of a package.") from error
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise PackageError(f"{file} has no section [project] that can be read: {error}") from error
    return project


def _check_installed(environments: list[str], task_sets: list[str], folder: Path) -> None:
    from agentgym import registry

    known = {*registry.names("environments"), *registry.names("task_sets")}
    if missing := [name for name in (*environments, *task_sets) if name not in known]:
        raise PackageError(f"{missing[0]} is not installed here. Run: pip install -e {folder}")


def _checked(environment: str) -> None:
    from agentgym.testing import check_environment

    run(check_environment(environment))


def _problem(check: Callable[[str], Any], name: str) -> str:
    """Return what a check finds wrong; empty if nothing."""
    try:
        check(name)
    except AgentGymError as error:
        return str(error)
    return ""


def _card_problem(folder: Path, names: list[str]) -> str:
    cards = [path.read_text(encoding="utf-8") for path in folder.rglob("CARD.md") if ".venv" not in path.parts]
    if not cards:
        return "write CARD.md: what the agent does, the splits, what counts as right, floors and ceiling"
    text = "\n".join(cards)
    missing = [name for name in names if name not in text]
    missing += [title for words, title in _CARD_WORDS.items() if words not in text]
    return f"CARD.md says nothing of {', '.join(dict.fromkeys(missing))}" if missing else ""
