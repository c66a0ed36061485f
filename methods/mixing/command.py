"""`agentgym tasks mix`: find the mixture of its task sets that a training should play."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli import Import, out, resumable

if TYPE_CHECKING:
    from rich.table import Table

    from .runs import MixtureSearch


def mix_tasks(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="A recipe with tasks.sources.")],
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the runs and the result go.")],
    runs: Annotated[int, typer.Option(min=3, help="Mixtures: each set alone, all alike, then random ones.")] = 12,
    seed: Annotated[int, typer.Option(help="Of the random mixtures.")] = 0,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of the last validation; by default mean success over the sets."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. train.steps=20.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    modules: Import = None,
) -> None:
    """Train with several mixtures of a recipe's sets, and say which mixture maximises the fitted score.

    Repeat the command to continue an interrupted search, or with more --runs.
    Example: agentgym tasks mix recipes/mixture.toml --set train.steps=10 --runs 30 --out runs/mix
    """
    import json

    from agentgym.training import Recipe

    chosen = Recipe.load(recipe, settings or [])
    with resumable(f"Finished runs are kept in {folder}. Repeat the command to go on."):
        from .runs import search_mixture

        console = None if as_json else out()
        search = search_mixture(chosen, folder, runs=runs, seed=seed, metric=metric, console=console)
    if as_json:
        typer.echo(json.dumps(search.to_json(), indent=1))
        return
    out().print(_table(search))
    fit = search.fit
    out().print(
        f"The fit misses a run that it has not seen by {fit.leave_one_out:.3g}; the scores vary by {fit.spread:.3g}."
        + ("" if fit.leave_one_out < fit.spread else " It says nothing: more runs, or longer ones, may."),
        markup=False,
        soft_wrap=True,
    )


def _table(search: MixtureSearch) -> Table:
    """Return a row for each run, then one for the best mixture."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("run", *search.sources, "score", "fit"):
        table.add_column(name, justify="left" if name == "run" else "right")
    for number, (weights, score) in enumerate(zip(search.mixtures, search.scores, strict=True)):
        row = [*(f"{weight:.2f}" for weight in weights), f"{score:.3f}", f"{search.fit.score(weights):.3f}"]
        table.add_row(str(number + 1), *row)
    best = [*(f"{weight:.2f}" for weight in search.best), "", f"{search.fit.score(search.best):.3f}"]
    table.add_row("best", *best, style="bold")
    return table
