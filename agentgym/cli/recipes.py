"""`agentgym recipes` and `agentgym demo`: the bundled runs, also where there is only the wheel."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli.console import err, out, replaced_when_done
from agentgym.cli.train import train

DEMO = "quickstart"


def recipes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Print this recipe instead of the list.")] = None,
    file: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the recipe to a new file.")] = None,
) -> None:
    """List the bundled recipes; print one, or copy it to a file of your own.

    Example: agentgym recipes quickstart --out my.toml
    """
    from agentgym.errors import RecipeError
    from agentgym.training.recipe.keys import bundled_recipes, recipe_file

    if name is None and file is not None:
        raise RecipeError("--out writes one recipe: name it, for example agentgym recipes quickstart --out my.toml.")
    if name is None:
        _print_list(bundled_recipes())
    elif file is None:
        out().print(
            recipe_file(name).read_text(encoding="utf-8"), end="", markup=False, highlight=False, soft_wrap=True
        )
    else:
        if file.exists():
            raise RecipeError(f"{file} exists. Remove it, or name another file in --out.")
        with replaced_when_done(file) as new:
            shutil.copyfile(recipe_file(name), new)
        out().print(f"{file}: change it, then run: agentgym train {file}", markup=False, soft_wrap=True)


def demo(
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write.")] = Path("runs") / DEMO,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe.")
    ] = None,
) -> None:
    """Watch a small model learn to use tools, from nothing to a report, without GPU, Docker or model hub.

    The same command goes on with a demo that was stopped. It runs the bundled recipe quickstart.

    Example: agentgym demo
    """
    from agentgym._imports import check_package

    check_package("trl", "train", "The demo trains a model, which")
    err().print(
        "A language model, made from scratch, learns to question a database: warm start, reinforcement, held-out "
        f"evaluation.\nThis takes 6 to 13 minutes on two cores, and 60 MB in {folder}. Ctrl-C stops it.",
        markup=False,
        soft_wrap=True,
    )
    resume = (folder / "recipe.toml").is_file()
    if resume:
        err().print(f"Going on with {folder}. To see it all again, remove it first.", markup=False, soft_wrap=True)
    train(Path(DEMO), settings, folder, resume=resume)
    out().print(f"Episodes in a browser: agentgym view {folder}", markup=False, soft_wrap=True)


def _print_list(files: dict[str, Path]) -> None:
    """Print each recipe's name, and the first sentence of the comment at its top."""
    from rich.table import Table
    from rich.text import Text

    console = out()
    texts = {name: _first_sentence(file) for name, file in files.items()}
    if not console.is_terminal:  # one line for each name, so that grep and cut work
        width = max(map(len, texts))
        for name, text in texts.items():
            console.print(f"{name:<{width}}  {text}", markup=False, soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Name", no_wrap=True)
    table.add_column("What it does")
    for name, text in texts.items():
        table.add_row(Text(name), Text(text))
    console.print(table)
    console.print("\nRun one: agentgym train NAME. Read one: agentgym recipes NAME.", style="dim", markup=False)


def _first_sentence(file: Path) -> str:
    comment = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.lstrip("# "))
    return " ".join(comment).partition(". ")[0].rstrip(".:")
