"""`agentgym dev sandbox-attack`: run hostile code against the backends of this machine, and report the outcome."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym import SandboxUnavailable
from agentgym.cli import err, out, progress_bar, run

if TYPE_CHECKING:
    from .table import TableColumn

_VERDICT_STYLES = {"passed": ("held", "green"), "failed": ("NOT HELD", "bold red"), "left out": ("not tried", "yellow")}


def attack(
    backends: Annotated[
        list[str] | None, typer.Option("--backend", metavar="NAME", help="By default every backend that works here.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="CHECK", help="Only this check, by name.")] = None,
    contract: Annotated[bool, typer.Option("--contract", help="Check the contract too, not only attacks.")] = False,
    image: Annotated[str, typer.Option(help="The root file system of the sandboxes under attack.")] = "host",
    label: Annotated[str | None, typer.Option(help="Heading of the column; by default backend and user.")] = None,
    beside: Annotated[
        list[Path] | None, typer.Option("--beside", metavar="FILE.json", help="Put an earlier run beside this one.")
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Keep results as .json, or as a table in .md.")
    ] = None,
) -> None:
    """Attack the sandboxes of this machine. Each attack must be contained, and the host and the next sandbox unharmed.

    The attacks are bounded, and harmless if sandboxes are made correctly. The exit status is 1 if one is not
    contained (NOT HELD).

    Example: agentgym dev sandbox-attack --backend namespaces
    """
    from . import table

    _check_names(only)
    earlier = [column for path in beside or () for column in table.load(path)]
    if target is not None and target.suffix == ".md" and target.exists():
        table.spliced(target.read_text(encoding="utf-8"), "")  # reports missing markers now, not after the attacks
    columns = run(_attack(backends, only, contract, image, label))
    _show(columns)
    if target is not None:
        _keep([*earlier, *columns], target)
        out().print(f"Kept in {target}", markup=False, soft_wrap=True)
    if any(column.failed for column in columns):
        raise typer.Exit(1)


async def _attack(
    chosen: list[str] | None, only: list[str] | None, contract: bool, image: str, label: str | None
) -> list[TableColumn]:
    from agentgym import names, shared_backend

    from .runs import ATTACKS, CONTRACT, run_checks
    from .table import TableColumn
    from .testbed import SPEC

    columns, spec = [], replace(SPEC, image=image)
    for name in chosen or names("backends"):
        backend = shared_backend(name)
        capabilities = await backend.probe()
        if not capabilities.available:
            if chosen:
                raise SandboxUnavailable(f"The backend {name!r} does not work on this machine: {capabilities.reason}")
            err().print(f"{name} is left out: {capabilities.reason}", style="yellow", markup=False, soft_wrap=True)
            continue
        cases = [case for case in (*(CONTRACT if contract else ()), *ATTACKS) if not only or case.name in only]
        verdicts = []
        with progress_bar() as progress:
            bar = progress.add_task(name, total=len(cases), note="")
            async for verdict in run_checks(
                backend, contract=contract or bool(only), only=only or None, spec=spec, capabilities=capabilities
            ):
                verdicts.append(verdict)
                progress.update(bar, completed=len(verdicts), note=verdict.name.replace("_", " ")[:40])
        user = "root" if os.geteuid() == 0 else "an ordinary user"
        columns.append(TableColumn(label or f"{name} as {user}", capabilities.level, tuple(verdicts)))
    if not columns:
        raise SandboxUnavailable(
            "No backend works on this machine. `agentgym sandbox doctor` says what each one needs."
        )
    return columns


def _check_names(only: list[str] | None) -> None:
    """Raise UnknownNameError for a name that no check has."""
    from difflib import get_close_matches

    from agentgym import UnknownNameError

    from .runs import ATTACKS, CONTRACT

    known = [case.name for case in (*ATTACKS, *CONTRACT)]
    for name in only or ():
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise UnknownNameError(f"There is no check named {name!r}.{hint}")


def _show(columns: list[TableColumn]) -> None:
    from rich.table import Table
    from rich.text import Text

    console = out()
    for column in columns:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column()
        theme = ""
        for verdict in column.verdicts:
            if verdict.theme != theme:
                theme = verdict.theme
                table.add_row(Text(theme, style="bold"), "")
            table.add_row(Text(*_VERDICT_STYLES[verdict.outcome]), Text(verdict.name.replace("_", " ")))
            if verdict.outcome == "failed":
                table.add_row("", Text(verdict.finding, style="red"))
        console.print(table)
        held = sum(verdict.outcome == "passed" for verdict in column.verdicts)
        not_tried = [verdict for verdict in column.verdicts if verdict.outcome == "left out"]
        summary = f"{column.label} ({column.level}): {held} of {len(column.verdicts)} held"
        summary += f", {len(column.failed)} not held" if column.failed else ""
        summary += f", {len(not_tried)} not tried" if not_tried else ""
        console.print(summary + ".", style="bold red" if column.failed else "bold", markup=False)
        for reason in dict.fromkeys(verdict.finding for verdict in not_tried):
            console.print(f"not tried: {reason}", style="yellow", markup=False)


def _keep(columns: list[Any], target: Path) -> None:
    from . import table

    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix != ".md":
        table.save(columns, target)
        return
    block = table.markdown(columns)
    if target.exists():
        block = table.spliced(target.read_text(encoding="utf-8"), block)
    else:
        block = f"{table.BEGIN}\n{block}{table.END}\n"
    target.write_text(block, encoding="utf-8")
