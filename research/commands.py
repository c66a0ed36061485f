"""Commands of `agentgym dev` in a checkout: write pages from the code, and benchmark estimators.

An installed wheel does not have them. pyproject.toml registers them under tool.agentgym.checkout.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import out, progress_bar
from agentgym.cli.user_code import Import
from agentgym.errors import CreditError
from agentgym.methods.credit_audit.command import estimator_names

if TYPE_CHECKING:
    from agentgym.testing.exact.bias import GradientBias

Estimators = Annotated[
    str | None,
    typer.Option("--estimators", metavar="A;B", help="Separated by ;, written as in recipes. Default: all."),
]


def reference(
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write.")] = Path("docs/reference"),
) -> None:
    """Write the reference pages of commands, recipe keys, extension points and records from the code.

    Example: agentgym dev reference --out docs/reference
    """
    from research.reference.pages import write_pages

    changed = write_pages(folder)
    text = ", ".join(str(path) for path in changed) or f"nothing: {folder} is up to date"
    out().print(f"Written: {text}", markup=False, soft_wrap=True)


def catalogue(
    page: Annotated[Path, typer.Option("--out", metavar="FILE.md", help="The page.")] = Path("docs/catalogue.md"),
    play: Annotated[int, typer.Option(min=0, help="Tasks to play of each set without figures.")] = 0,
    modules: Import = None,
) -> None:
    """Write the catalogue of what is installed, and what scripted players earn. Figures are kept in FILE.json.

    Example: agentgym dev catalogue --play 20
    """
    import asyncio

    from research.reference.catalogue_page import catalogue_page, look_at_all, read_figures

    path = page.with_suffix(".json")
    figures = read_figures(path)
    asyncio.run(look_at_all(figures, path, play, lambda text: out().print(text, markup=False, soft_wrap=True)))
    page.write_text(catalogue_page(figures), encoding="utf-8")
    out().print(f"Written: {page}", markup=False, soft_wrap=True)


def systems(
    source: Annotated[Path, typer.Argument(metavar="TABLE", help="The table of systems.")] = Path("docs/systems.tsv"),
) -> None:
    """Write the page of published systems beside its table, once every reference in it leads somewhere.

    Example: agentgym dev systems docs/systems.tsv
    """
    from research.reference.systems_page import systems_page

    page = source.with_suffix(".md")
    page.write_text(systems_page(source), encoding="utf-8")
    out().print(f"Written: {page}", markup=False, soft_wrap=True)


def credit_bench(
    estimators: Estimators = None,
    turns: Annotated[str, typer.Option(metavar="K,K", help="Numbers of turns of the tasks.")] = "2,4,8,16,32",
    size: Annotated[int, typer.Option(min=2, help="Trajectories of a group.")] = 8,
    groups: Annotated[int, typer.Option(min=2, help="Groups for each figure.")] = 200,
    seeds: Annotated[int, typer.Option(min=2, help="Runs of learning for each figure.")] = 10,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write credit-bench.json and a page with plots to DIR; or FILE.md: put the table into a document.",
        ),
    ] = None,
    modules: Import = None,
) -> None:
    """Measure estimators where the truth is known: exactly one turn of K decides how a task ends.

    Example: agentgym dev credit-bench --estimators rloo,return_to_go,turn_gae --turns 4,16
    """
    from research import credit_bench as benchmark
    from research.credit_bench.markdown import BENCH, bench_block, write_into
    from research.credit_bench.page import write_page
    from research.credit_bench.tables import bench_table

    counts = _whole_numbers(turns)
    names = estimator_names(estimators)
    started = time.monotonic()
    with progress_bar() as progress:
        bar = progress.add_task("credit-bench", total=len(names) * len(counts), note="")

        def show(name: str, count: int) -> None:
            progress.update(bar, advance=1, note=f"{name}, {count} turns")

        rows = benchmark.run_benchmark(names, turns=counts, size=size, groups=groups, seeds=seeds, progress=show)
    console = out()
    console.print(bench_table(rows))
    console.print(f"{len(names)} estimators in {time.monotonic() - started:.0f} s", style="dim")
    if folder is not None and folder.suffix == ".md":
        write_into(folder, BENCH, bench_block(rows))
    elif folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        record = folder / "credit-bench.json"
        record.write_text(json.dumps([row.to_json() for row in rows], indent=1) + "\n", encoding="utf-8")
        console.print(f"{record}\n{write_page(rows, folder / 'credit-bench.html')}", markup=False, soft_wrap=True)


def credit_bias(
    estimators: Estimators = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write every figure to FILE.json as well; or FILE.md: put the table into a document.",
        ),
    ] = None,
    modules: Import = None,
) -> None:
    """Compute the bias of estimators exactly, by sums over all possible groups in four small problems.

    Example: agentgym dev credit-bias --estimators "rloo; grpo; return_to_go(gamma=0.9)"
    """
    import warnings
    from dataclasses import asdict

    from agentgym.credit import CreditWarning, estimator
    from agentgym.testing.exact.bias import bias_of
    from research.credit_bench.markdown import BIAS, bias_block, write_into
    from research.credit_bench.tables import bias_table

    names = estimator_names(estimators)
    measured: dict[str, tuple[str, Sequence[GradientBias]]] = {}
    started = time.monotonic()
    with progress_bar() as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", CreditWarning)
        bar = progress.add_task("credit-bias", total=len(names), note="")
        for name in names:
            progress.update(bar, note=name)
            chosen = estimator(name)
            measured[name] = (chosen.bias, bias_of(chosen))
            progress.advance(bar)
    console = out()
    console.print(bias_table(measured))
    console.print(f"{len(names)} estimators in {time.monotonic() - started:.0f} s", style="dim")
    not_unbiased = [
        name for name, (declared, rows) in measured.items() if declared == "unbiased" and any(r.error for r in rows)
    ]
    if folder is not None and folder.suffix == ".md":
        write_into(folder, BIAS, bias_block(measured))
    elif folder is not None:
        record = {
            name: {"declared": d, "measured": [asdict(row) for row in rows]} for name, (d, rows) in measured.items()
        }
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        console.print(str(folder), markup=False, soft_wrap=True)
    if not_unbiased:
        raise CreditError(f"Declared unbiased, but measured as biased: {', '.join(not_unbiased)}. See the table.")


def _whole_numbers(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise CreditError(f"--turns {text!r}: whole numbers with commas between, such as 2,8,32.") from error
    if min(counts) < 1:
        raise CreditError(f"--turns {text!r}: a task has at least one turn.")
    return counts
