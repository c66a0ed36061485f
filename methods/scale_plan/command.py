"""`agentgym cluster plan`: simulate a training on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from agentgym.cli import Import, out, resumable

if TYPE_CHECKING:
    from . import ScalePlan


def plan(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="The recipe of the training.")],
    nodes: Annotated[int, typer.Option(min=1, help="Machines that play episodes.")],
    gpus: Annotated[int, typer.Option(min=1, help="GPUs, shared between the policy's servers and the trainer.")],
    episodes_per_node: Annotated[int, typer.Option(min=1, help="Episodes that each node plays at once.")] = 64,
    cores: Annotated[
        float | None, typer.Option(min=1, help="Cores of a node for tools. By default tools only wait.")
    ] = None,
    staleness: Annotated[
        int | None, typer.Option(min=0, help="Versions that an episode may be behind; by default as in the recipe.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where to keep the measurement; by default runs/NAME-plan."),
    ] = None,
    modules: Import = None,
) -> None:
    """Say how fast a training would be on a cluster, what limits it, and what more machines or staleness would gain.

    Trains the recipe for three steps here, twice, to measure its stages. Then everything is simulated.

    Example: agentgym cluster plan recipes/text.toml --nodes 8 --gpus 4
    """
    import math
    from dataclasses import replace

    from agentgym.training import Recipe

    from . import ClusterShape, StepSchedule, make_plan, simulate
    from .measuring import measure
    from .plan import ASKED_BY_DRIVER_S, ASKED_BY_WORKERS_S

    chosen = Recipe.load(recipe, settings or [])
    ahead = chosen.train.staleness if staleness is None else staleness
    schedule = StepSchedule(chosen.train.tasks_per_step, chosen.train.group_size, ahead)
    with resumable("What was measured is kept: give the same command again."):
        times = measure(chosen, folder or Path("runs") / f"{chosen.name}-plan", out())
    here = simulate(times, ClusterShape(1, chosen.episode.concurrency), replace(schedule, staleness=0))
    out().print(f"Here a step took {times.measured_step_s:.2f} s; simulated: {here.step_s:.2f} s", markup=False)
    starts_server = chosen.vllm is not None and not chosen.vllm.urls  # on a socket that only the driver reaches
    _show(
        make_plan(
            times,
            schedule,
            nodes=nodes,
            gpus=gpus,
            episodes_per_node=episodes_per_node,
            cores=cores or math.inf,
            driver_turn_s=ASKED_BY_DRIVER_S if starts_server else ASKED_BY_WORKERS_S,
        )
    )


def _show(result: ScalePlan) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for name in ("s/step", "episodes/s", "speed-up", "trainer", "servers", "slots", "driver", "age", "too old"):
        table.add_column(name, justify="right", no_wrap=True)
    for option in (result.base, *result.alternatives):
        reached = option.throughput
        table.add_row(
            option.name or "as planned",
            f"{reached.step_s:.2f}",
            f"{reached.episodes_per_s:.1f}",
            f"{option.speedup(result.base):.2f}x",
            *(
                f"{share:.0%}"
                for share in (reached.trainer_busy, reached.servers_busy, reached.slots_busy, option.driver_busy)
            ),
            f"{reached.age:.1f}",
            f"{reached.too_old:.0%}",
        )
    shape = result.base.shape
    out().print(
        f"{shape.nodes} nodes, {shape.servers} GPUs for servers, {shape.trainer_gpus} for the trainer. Busy shares of "
        "trainer, servers, slots for episodes and driver; mean age in versions, and the share above the bound:",
        markup=False,
    )
    out().print(table)
    binding = f"What binds: {result.binding} helps most." if result.binding else "No single change helps by over 5 %."
    out().print(binding, markup=False)
    out().print(f"{result.nodes_needed} nodes feed this trainer: more make steps at most 5 % faster.", markup=False)
