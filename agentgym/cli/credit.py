"""`agentgym credit`: how good an estimator's credit is, on tasks with a known truth and on a run of one's own."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.screen import out, progress_bar, run
from agentgym.cli.user_code import Import
from agentgym.errors import CreditError, EvaluationError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agentgym.storage.run_folder import RunFolder
    from agentgym.trajectory import Trajectory

app = typer.Typer(help="Measure and audit how credit is assigned to turns.", no_args_is_help=True)

Names = Annotated[
    str | None,
    typer.Option("--estimators", metavar="A;B", help="With ; between, options and wrappers as in recipes; or all."),
]


@app.command("bench")
def bench(
    estimators: Names = None,
    turns: Annotated[str, typer.Option(metavar="K,K", help="How many turns the tasks have.")] = "2,4,8,16,32",
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

    Example: [b]agentgym credit bench --estimators rloo,return_to_go,turn_gae --turns 4,16[/b]
    """
    from agentgym.cli.credit_markdown import BENCH, bench_block, write_into
    from agentgym.cli.credit_tables import bench_table
    from agentgym.credit import bench as benchmark
    from agentgym.evaluation.report.credit_page import write_page

    counts = _whole_numbers(turns)
    names = _names(estimators)
    started = time.monotonic()
    with progress_bar() as progress:
        bar = progress.add_task("credit bench", total=len(names) * len(counts), note="")

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


@app.command("bias")
def bias(
    estimators: Names = None,
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
    """Compute the bias of estimators exactly, by sums over every group there can be in four small problems.

    Example: [b]agentgym credit bias --estimators "rloo; grpo; return_to_go(gamma=0.9)"[/b]
    """
    import warnings
    from dataclasses import asdict

    from agentgym.cli.credit_markdown import BIAS, bias_block, write_into
    from agentgym.cli.credit_tables import bias_table
    from agentgym.credit import CreditWarning, estimator
    from agentgym.credit.exact import bias_of

    names, found = _names(estimators), {}
    started = time.monotonic()
    with progress_bar() as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", CreditWarning)
        bar = progress.add_task("credit bias", total=len(names), note="")
        for name in names:
            progress.update(bar, note=name)
            chosen = estimator(name)
            found[name] = (chosen.bias, bias_of(chosen))
            progress.advance(bar)
    console = out()
    console.print(bias_table(found))
    console.print(f"{len(names)} estimators in {time.monotonic() - started:.0f} s", style="dim")
    wrong = [name for name, (declared, rows) in found.items() if declared == "unbiased" and any(r.error for r in rows)]
    if folder is not None and folder.suffix == ".md":
        write_into(folder, BIAS, bias_block(found))
    elif folder is not None:
        record = {name: {"declared": d, "measured": [asdict(row) for row in rows]} for name, (d, rows) in found.items()}
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        console.print(str(folder), markup=False, soft_wrap=True)
    if wrong:
        raise CreditError(f"Declared unbiased, and not: {', '.join(wrong)}. See the table.")


@app.command("audit")
def audit(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A training run, e.g. runs/quickstart.")],
    estimators: Annotated[
        str | None,
        typer.Option("--estimators", metavar="A;B", help="By default the credit that the run itself gave."),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(metavar="PREFIX", help="Episodes whose id begins so; by default the last step's.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="POLICY", help="Who plays on; by default the run's checkpoint.")
    ] = None,
    sample: Annotated[int, typer.Option(min=2, help="Trajectories to play on from.")] = 16,
    continuations: Annotated[int, typer.Option(min=2, help="Episodes played on from each turn.")] = 8,
    seed: Annotated[int, typer.Option(help="Which trajectories, and how their continuations are sampled.")] = 0,
    modules: Import = None,
) -> None:
    """Ask whether a run's credit agrees with what its turns brought, by playing on from a sample of them.

    Example: [b]agentgym credit audit runs/quickstart --estimators return_to_go,grpo[/b]
    """
    from agentgym.cli.credit_tables import audit_table
    from agentgym.cli.policies import load_policy
    from agentgym.credit import estimator
    from agentgym.evaluation.credit_audit import audit as measure
    from agentgym.rollout import EpisodeManager
    from agentgym.storage.run_folder import RunFolder
    from agentgym.training import Recipe

    kept = RunFolder.existing(folder)
    recipe = Recipe.load(kept.recipe)
    task_set = recipe.tasks.load()
    groups = _groups(kept, prefix)
    chosen, recorded = [], {}
    if estimators:
        chosen = [estimator(name) for name in _names(estimators)]
    elif credit := _recorded(kept, groups):
        recorded = {recipe.train.make_estimator().name: credit}
    else:
        chosen = [recipe.train.make_estimator()]
    agent, told = load_policy(policy or str(folder), task_set)
    config = replace(recipe.rollout_config(task_set), seed=seed)
    manager = EpisodeManager(agent, config, label="audit")
    with progress_bar() as progress:
        bar = progress.add_task("playing on", total=None, note=told)
        found = run(
            measure(
                groups, chosen, manager, sample=sample, continuations=continuations, seed=seed, recorded=recorded,
                progress=lambda done, total: progress.update(bar, completed=done, total=total),
            ),
            agent,
        )  # fmt: skip
    out().print(audit_table(found))


def _groups(folder: RunFolder, prefix: str | None) -> list[list[Trajectory]]:
    """The run's finished episodes by task: those with the prefix, by default those of the last training step."""
    from agentgym.storage.ledger import Ledger

    if not folder.ledger.is_file():
        raise EvaluationError(f"{folder.path} holds no ledger.sqlite: this run kept no episodes.")
    ledger = Ledger(folder.ledger)
    try:
        wanted = prefix
        if wanted is None:  # train-000012, whichever process played it, and its branches
            wanted = "-".join((ledger.last_label("train-") or "train-").split("-")[:2])
        groups: dict[str, list[Trajectory]] = {}
        for trajectory in ledger.trajectories(wanted):
            groups.setdefault(trajectory.task.id, []).append(trajectory)
    finally:
        ledger.close()
    if not groups:
        raise EvaluationError(f"No finished episode in {folder.ledger} has an id that begins with {wanted!r}.")
    return list(groups.values())


def _recorded(folder: RunFolder, groups: list[list[Trajectory]]) -> dict[str, NDArray[np.float64]]:
    """The advantages that the run gave these trajectories; empty if some were never given any."""
    import numpy as np

    wanted = {trajectory.id for group in groups for trajectory in group}
    found: dict[str, NDArray[np.float64]] = {}
    file = folder.path / "credit.jsonl"
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:  # the last line of a run that was cut short
            continue
        if row["trajectory"] in wanted:
            found[row["trajectory"]] = np.array(row["advantages"], np.float64)
    return found if found.keys() == wanted else {}


def _names(text: str | None) -> list[str]:
    """Estimators as they are written in recipes; commas separate them too where no option does."""
    from agentgym import registry

    if text is None:
        return registry.names("estimators")
    return [name.strip() for name in text.split(";" if ";" in text or "(" in text else ",") if name.strip()]


def _whole_numbers(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise CreditError(f"--turns {text!r}: whole numbers with commas between, such as 2,8,32.") from error
    if min(counts) < 1:
        raise CreditError(f"--turns {text!r}: a task has at least one turn.")
    return counts
