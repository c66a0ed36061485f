"""`agentgym tasks mix` and `weak`: which tasks a training should play."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.console import out, resumable
from agentgym.cli.user_code import Import
from agentgym.text import percent, points, visible

if TYPE_CHECKING:
    from rich.table import Table

    from agentgym.evaluation.weakness import WeakKind
    from agentgym.training.mixing import MixtureSearch


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
    """Train with several mixtures of a recipe's sets, and say which mixture the scores speak for.

    Repeat the command to go on with a search that was cut short, or with more --runs.
    Example: [b]agentgym tasks mix recipes/mixture.toml --set train.steps=10 --runs 30 --out runs/mix[/b]
    """
    import json

    from agentgym.training import Recipe

    chosen = Recipe.load(recipe, settings or [])
    with resumable(f"Finished runs are kept in {folder}. Repeat the command to go on."):
        from agentgym.training.mixing import search_mixture

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


def weak_tasks(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    label: Annotated[
        str, typer.Option(metavar="TEXT", help="Only episodes whose id begins with it, as train-0000.")
    ] = "",
    below: Annotated[float, typer.Option(min=0, max=1, help="A task is weak whose success stays under this.")] = 0.5,
    at_least: Annotated[int, typer.Option(min=1, help="Leave out kinds of fewer tasks.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table, and the weak tasks, as JSON.")] = False,
) -> None:
    """Say which kinds of training tasks a run fails at: tags, difficulties, environments.

    A task is weak if no visit's mean success reached --below, and it does not rise from visit to visit. Held-out and
    validation tasks are not looked at, nor episodes with help. The stage `generate` makes new tasks like the weak ones.
    Example: [b]agentgym tasks weak runs/quickstart[/b]
    """
    import json

    from agentgym.evaluation.weakness import training_histories, weak_kinds
    from agentgym.storage.reader import LedgerReader
    from agentgym.storage.run_folder import RunFolder

    reader = LedgerReader(RunFolder.existing(run).ledger)
    try:
        histories = training_histories(reader, label)
    finally:
        reader.close()
    kinds = weak_kinds(histories, below=below, at_least=at_least)
    weak = sorted(history.task.id for history in histories if history.is_weak(below))
    if as_json:
        data: dict[str, Any] = {"below": below, "kinds": [kind.to_json() for kind in kinds], "weak_tasks": weak}
        typer.echo(json.dumps(data, indent=1))
        return
    out().print(_kinds_table(kinds))
    note = (
        f"{len(weak)} of {len(histories)} tasks are weak: no visit reached {percent(below)}, and success does not rise."
    )
    out().print(note, markup=False, soft_wrap=True)


def _kinds_table(kinds: Sequence[WeakKind]) -> Table:
    """A row for each kind; narrow enough for 80 columns, where long names are folded."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Kind", overflow="fold")
    for name in ("Tasks", "Weak", "Episodes", "Success", "95 % interval", "Change"):
        table.add_column(name, justify="right", no_wrap=True)
    for kind in kinds:
        success = kind.success
        table.add_row(
            Text(visible(kind.name)),
            str(kind.tasks),
            str(kind.weak),
            str(kind.episodes),
            percent(success.value, 1),
            f"{percent(success.low, 1)} to {percent(success.high, 1)}",
            points(kind.change, 1),
            style="bold" if kind.name == "all" else None,
        )
    return table


def _table(search: MixtureSearch) -> Table:
    """A row for each run, then one for the best mixture."""
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
