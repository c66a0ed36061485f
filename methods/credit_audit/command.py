"""`agentgym credit audit`: whether the credit that a run gave its turns agrees with the effect of these turns."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli import Import, out, progress_bar, run, takes
from agentgym.text import percent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.console import RenderableType

    from agentgym import Trajectory
    from agentgym.storage import RunFolder

    from .comparison import Audit


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Which credit is audited, and how many episodes are continued for the audit."""

    estimators: Annotated[str | None, typer.Option(metavar="A;B")] = None
    """The estimators whose credit is audited. By default it is the credit that the run itself gave."""
    prefix: Annotated[str | None, typer.Option(metavar="PREFIX")] = None
    """Audit the episodes whose id begins with this text. By default they are the episodes of the last step."""
    policy: Annotated[str | None, typer.Option(metavar="POLICY")] = None
    """The policy that continues the episodes. By default it is the run's checkpoint."""
    sample: Annotated[int, typer.Option(min=2)] = 16
    """The number of trajectories that are continued."""
    continuations: Annotated[int, typer.Option(min=2)] = 8
    """The number of episodes that are continued from each turn."""
    seed: int = 0
    """The seed that chooses the trajectories and samples their continuations."""


@takes(options=AuditOptions)
def audit(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A training run, e.g. runs/quickstart.")],
    options: AuditOptions,
    modules: Import = None,
) -> None:
    """Check whether a run's credit agrees with the effect of its turns, by continuing episodes from a sample of them.

    Example: agentgym credit audit runs/quickstart --estimators return_to_go,grpo
    """
    from agentgym import EpisodeManager
    from agentgym.cli import load_policy
    from agentgym.credit import estimator
    from agentgym.storage import RunFolder
    from agentgym.training import Recipe

    from .comparison import audit as measure

    run_folder = RunFolder.existing(folder)
    recipe = Recipe.load_recorded(run_folder.recipe)
    task_set = recipe.tasks.load()
    groups = _groups(run_folder, options.prefix)
    chosen, recorded = [], {}
    if options.estimators:
        chosen = [estimator(name) for name in estimator_names(options.estimators)]
    elif credit := _recorded(run_folder, groups):
        recorded = {recipe.train.make_estimator().name: credit}
    else:
        chosen = [recipe.train.make_estimator()]
    agent, agent_name = load_policy(options.policy or str(folder), task_set)
    config = replace(recipe.rollout_config(task_set), seed=options.seed, state_keys=True)
    manager = EpisodeManager(agent, config, label="audit")
    with progress_bar() as progress:
        bar = progress.add_task("playing on", total=None, note=agent_name)
        audited = run(
            measure(
                groups,
                chosen,
                manager,
                sample=options.sample,
                continuations=options.continuations,
                seed=options.seed,
                recorded=recorded,
                progress=lambda done, total: progress.update(bar, completed=done, total=total),
            ),
            agent,
        )
    out().print(audit_table(audited))


def _groups(folder: RunFolder, prefix: str | None) -> list[list[Trajectory]]:
    """Return the run's finished episodes by task: those with the prefix, by default those of the last training step."""
    from agentgym import EvaluationError
    from agentgym.storage import Ledger

    ledger = Ledger(folder.existing_ledger())
    try:
        id_prefix = prefix
        if id_prefix is None:  # matches train-000012 of every process, and its branches
            id_prefix = "-".join((ledger.last_label("train-") or "train-").split("-")[:2])
        groups: dict[str, list[Trajectory]] = {}
        for trajectory in ledger.trajectories(id_prefix):
            groups.setdefault(trajectory.task.id, []).append(trajectory)
    finally:
        ledger.close()
    if not groups:
        raise EvaluationError(f"{folder.ledger} has no finished episode whose id begins with {id_prefix!r}.")
    return list(groups.values())


def _recorded(folder: RunFolder, groups: list[list[Trajectory]]) -> dict[str, NDArray[np.float64]]:
    """Return the advantages that the run gave these trajectories; empty if any lacks them."""
    import numpy as np

    ids = {trajectory.id for group in groups for trajectory in group}
    advantages: dict[str, NDArray[np.float64]] = {}
    file = folder.path / "credit.jsonl"
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:  # the last line was cut when the run was interrupted
            continue
        if row["trajectory"] in ids:
            advantages[row["trajectory"]] = np.array(row["advantages"], np.float64)
    return advantages if advantages.keys() == ids else {}


def estimator_names(text: str | None) -> list[str]:
    """Return the estimators that a text names; all for None.

    They are separated by `;`, or by `,` if the text has neither `;` nor `(`.
    """
    from agentgym import names

    if text is None:
        return names("estimators")
    return [name.strip() for name in text.split(";" if ";" in text or "(" in text else ",") if name.strip()]


def audit_table(audit: Audit) -> RenderableType:
    """Return a table of each estimator's agreement with counterfactual credit, and its advantages' statistics."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Estimator", no_wrap=True)
    for head in ("Same sign", "Rank", "No gradient", "Singletons"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, agreement in audit.agreements.items():
        facts = audit.facts[name]
        table.add_row(
            name,
            f"{_percent(agreement.sign)} ({_percent(agreement.sign_low)} to {_percent(agreement.sign_high)})",
            f"{_number(agreement.rank)} ({_number(agreement.rank_low)} to {_number(agreement.rank_high)})",
            _percent(facts.zero_gradient),
            _percent(facts.singletons),
        )
    lines: list[RenderableType] = [table]
    for name, facts in audit.facts.items():
        spread = "  ".join(f"{k}: {value:.3g}" for k, value in enumerate(facts.variance[:12]))
        lines.append(Text(f"{name}, variance of the advantage by turn  {spread}", style="dim"))
    lines.append(
        Text(
            f"{audit.turns} turns of {audit.trajectories} trajectories, {audit.continuations} episodes played on, "
            f"{audit.diverged} of them set aside because the environment answered differently. The counterfactual "
            f"credit of a turn has a standard error of about {audit.noise:.2f}: no estimator can agree with it wholly.",
            style="dim",
        )
    )
    return Group(*lines)


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else percent(value)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:+.2f}"
