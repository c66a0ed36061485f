"""`agentgym train`: run a recipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli.console import err, out, resumable
from agentgym.cli.user_code import Import


def train(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="The run as a file, or the name of a bundled recipe.")
    ],
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. train.steps=10.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", "--folder", metavar="DIR", help="Where to write; by default runs/<name>.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was cut short.")] = False,
    extend: Annotated[
        bool, typer.Option("--extend", help="Go on with a run, also a finished one, to a larger train.steps.")
    ] = False,
    price: Annotated[
        str | None,
        typer.Option(
            "--price",
            metavar="IN,OUT",
            help="The price of a million tokens that chat_api reads, and of a million that it writes.",
        ),
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            "--max-cost",
            help="Stop sending requests to chat_api, those of judges and teachers included, once all have cost more "
            "than this in total.",
        ),
    ] = None,
    modules: Import = None,
) -> None:
    """Run a recipe: warm start, reinforcement, held-out evaluation before and after, report.

    Example: agentgym train quickstart --set train.steps=50 --out runs/first
    """
    from agentgym.errors import RecipeError
    from agentgym.evaluation.price import Price, Spending
    from agentgym.policy.account import charged_to
    from agentgym.storage.run_folder import RunFolder
    from agentgym.training import Recipe

    spending = Spending(Price.parse(price) if price else None, max_cost)
    chosen = Recipe.load(recipe, settings or [])  # every key and name is checked before torch is even imported
    run = RunFolder(folder or Path("runs") / chosen.name)
    is_alone = os.environ.get("WORLD_SIZE", "1") == "1"  # with several processes, a later check reports it once
    # checked before torch is imported, which takes a while
    may_exist = run.recipe.is_file() and (resume or extend)
    if is_alone and not may_exist and (message := run.why_not_new()):
        raise RecipeError(message)
    err().print(f"{chosen.name}: loading the libraries, and checking the recipe.", style="dim", soft_wrap=True)
    if resume and is_alone and not run.recipe.is_file():
        err().print(f"{run.path} holds no run yet; --resume starts one.", markup=False, soft_wrap=True)
    limits = [*(["--price", price] if price else []), *(["--max-cost", f"{max_cost:g}"] if max_cost else [])]
    hint = _resume_command(recipe, settings or [], folder, modules or [], limits)
    with resumable(f"Finished stages and the last checkpoint are kept. Go on with:\n  {hint}"):
        from agentgym.training import train as execute

        with charged_to(spending.account(run.spending)):
            execute(chosen, folder=folder, resume=resume, extend=extend, console=out())


def _resume_command(
    recipe: Path, overrides: list[str], folder: Path | None, modules: list[str], limits: list[str]
) -> str:
    """Return the command that resumes the run."""
    from shlex import join

    words = ["agentgym", "train", str(recipe)]
    for override in overrides:
        words += ["--set", override]
    for module in modules:
        words += ["--import", module]
    return join(words + limits + (["--out", str(folder)] if folder else []) + ["--resume"])
