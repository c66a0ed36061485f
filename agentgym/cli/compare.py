"""`agentgym compare` and `agentgym power`: who is better, and how many tasks it takes to tell."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.console import out, write_text
from agentgym.text import percent

if TYPE_CHECKING:
    from agentgym.evaluation.record import Evaluation


def compare(
    arms: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C ...]",
            help="FILE.json, RUN (its newest record) or RUN:LABEL; NAME=... names it; seeds with commas between.",
        ),
    ],
    common: Annotated[
        bool, typer.Option("--common", help="Compare on the tasks that all agents were evaluated on.")
    ] = False,
    also: Annotated[
        str | None, typer.Option(metavar="COMPONENT", help="Solved means that this outcome component is 1 as well.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only tasks with this tag.")] = None,
    turns: Annotated[str, typer.Option(metavar="K,K", help="Also success within so many turns.")] = "",
    interims: Annotated[
        int | None, typer.Option(min=1, help="Several seeds: decide by AdaStop; how many batches were planned.")
    ] = None,
    as_json: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers here.")] = None,
    as_html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page here.")] = None,
) -> None:
    """Compare agents on the same tasks, pair by pair: gains with intervals, pass@k curves, corrected for many pairs.

    Example: [b]agentgym compare runs/quickstart:before runs/quickstart:after[/b]
    """
    from agentgym.cli.compare_tables import seeds_tables, tournament_tables
    from agentgym.errors import EvaluationError
    from agentgym.evaluation.tournament import over_seeds, tournament

    named = [_arm(text) for text in arms]
    names = _distinct([name for name, _ in named])
    evaluations = dict(zip(names, (group for _, group in named), strict=True))
    if any(len(group) > 1 for group in evaluations.values()):
        if common or also or tag or turns:
            raise EvaluationError("--common, --also, --tag and --turns are for one evaluation of each agent.")
        result: dict[str, Any] = over_seeds(evaluations, interims=interims)
        tables = seeds_tables(result)
    else:
        single = {name: group[0] for name, group in evaluations.items()}
        result = tournament(single, common=common, also=also, tag=tag, turns=_whole_numbers(turns))
        tables = tournament_tables(result)
    for table in tables:
        out().print(table)
    if as_json is not None:
        write_text(as_json, json.dumps(_plain(result), indent=1, allow_nan=False))
    if as_html is not None:
        from agentgym.evaluation.tournament_page import page

        write_text(as_html, page(result))


def power(
    gain: Annotated[float, typer.Option(help="The gain to see, in points: 3 is from 50 % to 53 %.")] = 3.0,
    rate: Annotated[float, typer.Option(help="Success now, in percent.")] = 50.0,
    group_size: Annotated[int, typer.Option(min=1, help="Episodes of each task, for each agent.")] = 1,
    agreement: Annotated[float, typer.Option(help="How alike the two find tasks hard, 0 to 1.")] = 0.5,
    spread: Annotated[float, typer.Option(help="How unequal tasks are, 0 to 1.")] = 0.5,
    target_power: Annotated[float, typer.Option("--power", help="The chance to see it.")] = 0.8,
    tasks: Annotated[int | None, typer.Option(min=1, help="The chance with this many tasks instead.")] = None,
    record: Annotated[
        Path | None, typer.Option("--from", metavar="FILE.json", help="Take rate and spread from this evaluation.")
    ] = None,
) -> None:
    """How many tasks it takes to see a gain, or the chance to see it with the tasks there are.

    Example: [b]agentgym power --gain 3 --group-size 4 --from runs/quickstart/evaluation/before.json[/b]
    """
    from agentgym.evaluation.record import Evaluation
    from agentgym.evaluation.statistics.power import power_of, spread_of, tasks_needed
    from agentgym.evaluation.text import format_count

    if record is not None:
        outcomes = Evaluation.load(record).outcomes()
        rate, spread = 100 * Evaluation.load(record).success().value, spread_of(outcomes, default=spread)
        out().print(f"{record}: success {percent(rate / 100, 1)}, spread {spread:.2f}", markup=False, soft_wrap=True)
    options: dict[str, Any] = {"rate": rate / 100, "samples": group_size, "agreement": agreement, "spread": spread}
    claim = f"tasks, played {format_count(group_size)} each, show a gain of {gain:g} points from {rate:.3g}%"
    if tasks is not None:
        chance = power_of(tasks, gain / 100, **options)
        out().print(f"{tasks} {claim} with a chance of {percent(chance)}.", soft_wrap=True)
        return
    needed = tasks_needed(gain / 100, power=target_power, **options)
    out().print(f"{needed:,} {claim} with a chance of {percent(target_power)}.", soft_wrap=True)


def _arm(text: str) -> tuple[str, list[Evaluation]]:
    """A name and the evaluations it stands for."""
    name, equals, source = text.partition("=")
    if not equals:
        name, source = "", text
    evaluations = [_load(part) for part in source.split(",") if part]
    return name or _called(source, evaluations[0]), evaluations


def _load(text: str) -> Evaluation:
    """FILE.json, RUN or RUN:LABEL. Raises: EvaluationError saying which there are."""
    from agentgym.errors import EvaluationError
    from agentgym.evaluation.record import Evaluation
    from agentgym.storage.run_folder import RunFolder

    if Path(text).is_file():
        return Evaluation.load(text)
    where, colon, label = text.rpartition(":")
    if Path(text).is_dir() or not colon:
        where, label = text, ""
    folder = RunFolder.existing(where)
    labels = folder.evaluations()
    if not labels or (label and label not in labels):
        raise EvaluationError(f"{folder.path} has no evaluation {label!r}. It has {', '.join(labels) or 'none'}.")
    loaded = [Evaluation.load(folder.path / "evaluation" / f"{name}.json") for name in ([label] if label else labels)]
    return max(loaded, key=lambda evaluation: evaluation.created)


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
        raise EvaluationError(f"--turns {text!r}: whole numbers with commas between, such as 2,4,8.") from error


def _plain(value: Any) -> Any:
    """The value as JSON has it: what is not defined, NaN, is null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
