"""`agentgym cluster`: start, check and end a Ray cluster that plays episodes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import err, out
from agentgym.cli.fields import Fields, FieldsCommand, takes
from agentgym.cli.options import rollout_options
from agentgym.text import counted

if TYPE_CHECKING:
    from agentgym.cli.rollout_options import RolloutOptions
    from agentgym.storage.run_folder import RunFolder

app = typer.Typer(no_args_is_help=True, help="A Ray cluster that plays episodes: plan, start, check and end it.")
Address = Annotated[str, typer.Option(help="The cluster's address, HOST:PORT; auto is the one of this host.")]


@app.command()
def up(
    join: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Join this cluster instead of beginning a new one.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where a new cluster listens; 0 takes any.")] = 6379,
    cpus: Annotated[int | None, typer.Option(min=1, help="How many this node says that it has.")] = None,
) -> None:
    """Start a node of Ray on this host, with workers at normal priority: at Ray's default priority, sandboxes starve.

    Example: agentgym cluster up, and on other hosts agentgym cluster up --join HOST:6379
    """
    import os

    from agentgym.cluster.ray_access import head_asks_for_token
    from agentgym.cluster.ray_start import start_node

    if (nice := os.nice(0)) > 0:
        err().print(f"This shell runs at nice {nice}, and so will the workers.", style="yellow", markup=False)
    address = start_node(join=join, port=port, cpus=cpus)
    out().print(f"A node of the cluster at {address} runs. End it with: agentgym cluster down", markup=False)
    if join is None and head_asks_for_token():
        out().print("It asks for Ray's token: other hosts need the same ~/.ray/auth_token.", markup=False)


@app.command()
def down() -> None:
    """End the nodes that `agentgym cluster up` started on this host; no other Ray is touched."""
    from agentgym.cluster.ray_start import end_nodes

    ended = end_nodes()
    out().print(f"Ended {counted(len(ended), 'node')}.", markup=False)


@app.command()
def status(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="Show the last figures of this training too.")
    ] = None,
    address: Address = "auto",
) -> None:
    """Show the nodes of a cluster, the episodes that are played on each, and the pace of a training.

    A request is open while an episode waits for the policy. Example: agentgym cluster status runs/guess
    """
    from agentgym.storage.run_folder import RunFolder

    folder = None if run is None else RunFolder.existing(run)
    _show_nodes(address)
    if folder is not None:
        _show_pace(folder)


def _show_nodes(address: str) -> None:
    from rich.table import Table

    from agentgym.cluster.ray_nodes import activity_by_node, connect, import_ray

    connect(address)
    activity = activity_by_node()
    table = Table("node", "alive", "cpus", "GiB", "workers", "episodes", "requests", "id", box=None, pad_edge=False)
    for row in import_ray().nodes():
        resources, doing = row["Resources"], activity.get(row["NodeID"], {})
        alive = "yes" if row["Alive"] else f"no ({row.get('DeathReasonMessage') or 'ended'})"
        workers = f"{doing.get('workers', 0)}" + (f" ({doing['silent']} silent)" if doing.get("silent") else "")
        table.add_row(
            row["NodeManagerAddress"],
            alive,
            f"{resources.get('CPU', 0):g}",
            f"{resources.get('memory', 0) / 2**30:.1f}",
            workers,
            str(doing.get("episodes", 0)),
            str(doing.get("asking", 0)),
            row["NodeID"][:8],
        )
    out().print(table)


def _show_pace(folder: RunFolder) -> None:
    from rich.table import Table

    from agentgym.evaluation.report.contents import read
    from agentgym.evaluation.report.pace_data import in_words
    from agentgym.evaluation.report.run_data import pace_of

    rows = pace_of(read(folder.path, credit=False))
    if not rows:
        out().print(f"{folder.name}: no step of a training was logged yet.", markup=False)
        return
    table = Table(f"{folder.name}, last step", "", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row["name"], in_words(row["unit"], row["value"]))
    out().print(table)


def _probed_backend() -> Fields:
    return Fields(rollout_options(), ("backend",), {"backend": "namespaces"})


@app.command(cls=FieldsCommand)
@takes(options=_probed_backend)
def probe(options: RolloutOptions, address: Address = "auto") -> None:
    """Start a worker on every node and make a sandbox there. Exits with 1 if a node cannot play episodes.

    Example: agentgym cluster probe --address 10.0.0.7:6379
    """
    from rich.table import Table
    from rich.text import Text

    from agentgym.cluster.ray_engine import RayEngine

    reports = asyncio.run(RayEngine(address, backend=str(options.config.backend)).probe())
    table = Table("node", "host", "agentgym", "python", "nice", "sandboxes")
    for node, answer, _ in reports:
        cells = [str(answer.get(key, "")) for key in ("host", "agentgym", "python", "nice", "level")]
        table.add_row(node.name, *cells)
    out().print(table)
    faults = [f"{node.name}: {fault}" for node, _, fault in reports if fault]
    for fault in faults:
        err().print(Text(f"  - {fault}", style="red"), soft_wrap=True)
    if faults:
        raise typer.Exit(1)
    out().print(f"{counted(len(reports), 'node')} can play episodes.", style="green", markup=False)
