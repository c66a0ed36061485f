"""`agentgym new`: write a first version of a package of your own."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from agentgym.cli.console import out
from agentgym.errors import AgentGymError

app = typer.Typer(no_args_is_help=True, help="Write the beginning of a package of your own.")
_NAME = re.compile(r"(?P<namespace>[a-z][a-z0-9_]*)/(?P<name>[a-z](?:[a-z0-9_-]*?[a-z0-9])?)(?:-v(?P<version>\d+))?")


class NewPackageError(AgentGymError, ValueError):
    """A package cannot be written under this name or into this folder."""


@app.callback()
def _new() -> None:
    """Write a first version of a package of your own."""


@app.command("environment")
def environment(
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="Of the environment, such as acme/warehouse.")],
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to write; by default a folder of that name.")
    ] = None,
) -> None:
    """Write a package with an environment, its reward, a task set with an oracle, tests, a card and a file for CI.

    It works without changes: after `pip install -e DIR`, `agentgym check` and `pytest` pass. Then make it yours.

    Example: agentgym new environment acme/warehouse
    """
    from agentgym import __version__

    match = _NAME.fullmatch(name)
    if match is None:
        raise NewPackageError(f"{name!r} cannot name an environment. Write namespace/name, such as acme/warehouse.")
    package = f"{match['namespace']}_{match['name']}".replace("-", "_")
    names = {
        "environment": f"{match['namespace']}/{match['name']}-v{match['version'] or 1}",
        "package": package,
        "distribution": package.replace("_", "-"),
        "class_name": "".join(word.capitalize() for word in re.split(r"[-_]", match["name"])),
        "version": __version__,
    }
    target = folder or Path(match["name"])
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise NewPackageError(f"{target} must be a new or empty folder. Name another one by --out.")
    for path, template in _FILES.items():
        text = files("agentgym.cli.templates").joinpath(f"{template}.template").read_text(encoding="utf-8")
        file = target / Template(path).substitute(names)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(text).substitute(names), encoding="utf-8")
    (target / package / "__init__.py").write_text(f'"""The environment {names["environment"]} for agentgym."""\n')
    out().print(
        f"{target}: {len(_FILES) + 1} files of {names['environment']}. Next: pip install -e {target}, then "
        f"agentgym check {names['environment']}",
        markup=False,
        soft_wrap=True,
    )


_FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "CARD.md": "CARD.md",
    "$package/environment.py": "environment.py",
    "$package/reward.py": "reward.py",
    "$package/task_set.py": "task_set.py",
    "tests/test_environment.py": "test_environment.py",
    ".github/workflows/check.yml": "ci.yml",
}
"""Each file of the package, and the template from which it is made."""
