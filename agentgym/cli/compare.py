"""`agentgym compare` and `agentgym power`: which agent is better, and how many tasks are needed to decide."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from agentgym.cli.console import out, write_text
from agentgym.cli.fields import takes
from agentgym.text import percent

if TYPE_CHECKING:
    from agentgym.evaluation.record import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """How agents are compared, and where the result is written."""

    common: Annotated[bool, typer.Option("--common")] = False
    """Compare on the tasks that all agents were evaluated on."""
    also: Annotated[str | None, typer.Option(metavar="COMPONENT")] = None
    """Count a task as solved only if this outcome component is 1 as well."""
    tag: str | None = None
    """Compare only on tasks with this tag."""
    turns: Annotated[str, typer.Option(metavar="K,K")] = ""
    """Compare also success within these numbers of turns."""
    interims: Annotated[int | None, typer.Option(min=1)] = None
    """The number of batches planned for a comparison of several seeds, which AdaStop then decides."""
    as_json: Annotated[Path | None, typer.Option("--json", metavar="FILE")] = None
    """Write the numbers to this file."""
    as_html: Annotated[Path | None, typer.Option("--html", metavar="FILE")] = None
    """Write a page to this file."""

    @property
    def chooses_tasks(self) -> bool:
        """Whether an option is given that applies only to comparisons of single evaluations."""
        return bool(self.common or self.also or self.tag or self.turns)


@takes(options=CompareOptions)
def compare(
    arms: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C ...]",
            help="FILE.json, RUN (its newest record) or RUN:LABEL; NAME=... names it; seeds with commas between.",
        ),
    ],
    options: CompareOptions,
) -> None:
    """Compare agents on the same tasks, pair by pair: gains with intervals, pass@k curves, corrected for many pairs.

    Example: agentgym compare runs/quickstart:before runs/quickstart:after
    """
    from agentgym.cli.compare_tables import comparison_tables
    from agentgym.errors import EvaluationError
    from agentgym.evaluation.tournament import over_seeds, tournament

    named = [_arm(text) for text in arms]
    names = _distinct([name for name, _ in named])
    evaluations = dict(zip(names, (group for _, group in named), strict=True))
    if any(len(group) > 1 for group in evaluations.values()):
        if options.chooses_tasks:
            raise EvaluationError(
                "--common, --also, --tag and --turns work only with one evaluation per agent. Leave them out, or "
                "give one each."
            )
        result: dict[str, Any] = over_seeds(evaluations, interims=options.interims)
    else:
        single = {name: group[0] for name, group in evaluations.items()}
        turns = _whole_numbers(options.turns)
        result = tournament(single, common=options.common, also=options.also, tag=options.tag, turns=turns)
    for table in comparison_tables(result):
        out().print(table)
    runs = {name: run for name, text in zip(names, arms, strict=True) if (run := _run_of(text)) is not None}
    if any(pair.get("changed") for pair in result["pairs"]) and runs:
        hint = f"Read an episode: agentgym show {next(iter(runs.values()))} --episode ID"
        out().print(f"\n{hint}", style="dim", markup=False, soft_wrap=True)
    if options.as_json is not None:
        write_text(options.as_json, json.dumps(_plain(result), indent=1, allow_nan=False))
    if options.as_html is not None:
        from agentgym.evaluation.tournament_page import page

        write_text(options.as_html, page(result, _reports(runs, options.as_html)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerOptions:
    """The gain to detect, and how it is measured."""

    gain: float = 3.0
    """The gain to detect, in percentage points: 3 is from 50 % to 53 %."""
    rate: float = 50.0
    """The present success rate, in percent."""
    group_size: Annotated[int, typer.Option(min=1)] = 1
    """How many episodes of each task each agent plays."""
    agreement: float = 0.5
    """How similarly hard the tasks are for the two agents, from 0 to 1."""
    spread: float = 0.5
    """How much the tasks differ in difficulty, from 0 to 1."""
    target_power: Annotated[float, typer.Option("--power")] = 0.8
    """The probability of detecting the gain."""
    tasks: Annotated[int | None, typer.Option(min=1)] = None
    """Print the probability for this many tasks instead."""
    record: Annotated[Path | None, typer.Option("--from", metavar="FILE.json")] = None
    """Take the success rate and the spread from this evaluation."""


@takes(options=PowerOptions)
def power(options: PowerOptions) -> None:
    """Say how many tasks it takes to detect a gain or, with --tasks, the chance of detecting it with so many.

    Example: agentgym power --gain 3 --group-size 4 --from runs/quickstart/evaluation/before.json
    """
    from agentgym.evaluation.record import Evaluation
    from agentgym.evaluation.statistics.power import power_of, spread_of, tasks_needed
    from agentgym.text import format_count

    gain, rate, spread, record = options.gain, options.rate, options.spread, options.record
    if record is not None:
        outcomes = Evaluation.load(record).outcomes()
        rate, spread = 100 * Evaluation.load(record).success().value, spread_of(outcomes, default=spread)
        out().print(f"{record}: success {percent(rate / 100, 1)}, spread {spread:.2f}", markup=False, soft_wrap=True)
    design: dict[str, Any] = {"rate": rate / 100, "samples": options.group_size, "spread": spread}
    design["agreement"] = options.agreement
    episodes = format_count(options.group_size)
    claim = f"tasks, played {episodes} each, show a gain of {gain:g} points from {rate:.3g}%"
    if options.tasks is not None:
        chance = power_of(options.tasks, gain / 100, **design)
        out().print(f"{options.tasks} {claim} with a chance of {percent(chance)}.", soft_wrap=True)
        return
    needed = tasks_needed(gain / 100, power=options.target_power, **design)
    out().print(f"{needed:,} {claim} with a chance of {percent(options.target_power)}.", soft_wrap=True)


def _arm(text: str) -> tuple[str, list[Evaluation]]:
    """Return the name of an agent and the evaluations that its argument names."""
    name, equals, source = text.partition("=")
    if not equals:
        name, source = "", text
    evaluations = [_load(part) for part in source.split(",") if part]
    return name or _called(source, evaluations[0]), evaluations


def _load(text: str) -> Evaluation:
    """Load the evaluation FILE.json, RUN or RUN:LABEL. Raises: EvaluationError listing the existing ones."""
    from agentgym.evaluation.record import Evaluation
    from agentgym.storage.run_folder import RunFolder

    if Path(text).is_file():
        return Evaluation.load(text)
    where, colon, label = text.rpartition(":")
    if Path(text).is_dir() or not colon:
        where, label = text, ""
    return Evaluation.of_run(RunFolder.existing(where), label)


def _run_of(text: str) -> Path | None:
    """Return the run folder that an argument of `compare` names; None for a file elsewhere."""
    source = Path((text.partition("=")[2] or text).split(",")[0])
    if source.is_file():
        return source.parent.parent if source.parent.name == "evaluation" else None
    run = source if source.is_dir() else Path(str(source).rpartition(":")[0])
    return run if run.is_dir() else None


def _reports(runs: Mapping[str, Path], page: Path) -> dict[str, str]:
    """Return the addresses of the report pages that exist, from the folder of a comparison's page."""
    pages = {name: run / "report.html" for name, run in runs.items()}
    return {name: quote(os.path.relpath(report, page.parent)) for name, report in pages.items() if report.is_file()}


def _called(text: str, evaluation: Evaluation) -> str:
    path = Path(text.split(",")[0])
    run = path.parent.parent.name if path.suffix == ".json" else Path(text.partition(":")[0]).name
    return f"{run}:{evaluation.label}" if run else evaluation.label


def _distinct(names: list[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]


def _whole_numbers(text: str) -> list[int]:
    from agentgym.errors import EvaluationError

    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise EvaluationError(
            f"--turns {text!r} is not valid: write whole numbers separated by commas, such as 2,4,8."
        ) from error


def _plain(value: Any) -> Any:
    """Return the value as JSON data, in which an undefined number (NaN) becomes null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
