"""`agentgym eval`: measure a policy on a fixed list of tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.console import err, exit_by_failures, out, progress_bar, resumable, run, write_text
from agentgym.cli.fields import takes
from agentgym.cli.options import TaskOptions, check_sandboxes, load_tasks, rollout_options
from agentgym.cli.policies import Agent, AgentOptions
from agentgym.cli.user_code import Import
from agentgym.text import counted, percent

if TYPE_CHECKING:
    from agentgym.cli.rollout_options import RolloutOptions
    from agentgym.evaluation.record import Evaluation
    from agentgym.evaluation.runner import Progress
    from agentgym.rollout.search import EpisodeSearch


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """How a policy is measured, and where the record is written."""

    folder: Annotated[Path | None, typer.Option("--out", metavar="DIR")] = None
    """Keep record and episodes in DIR, and resume."""
    label: str | None = None
    """The name of the record. By default it is the split."""
    search: Annotated[str | None, typer.Option(metavar="SEARCH")] = None
    """A search over the turns of each episode, e.g. best_first(nodes=200) or mcts; see docs/stages.md. Its cost is
    recorded."""
    price: Annotated[str | None, typer.Option(metavar="IN,OUT")] = None
    """The price of a million tokens read by the policy, and of a million written, e.g. 0.15,0.6. It is recorded."""
    max_cost: float | None = None
    """Stop once the ended episodes have cost more than this in total; needs --price."""
    choose: Annotated[list[str] | None, typer.Option(metavar="WAY")] = None
    """Also measure the one episode of a task that is chosen without its truth: by majority (of answers), agreement (of
    the last results), or a component of the reward. Repeatable; needs --group-size."""
    against: Annotated[Path | None, typer.Option(metavar="FILE.json")] = None
    """Compare with this earlier evaluation of the same tasks."""
    as_json: Annotated[Path | None, typer.Option("--json", metavar="FILE")] = None
    """Also write the record, with its summary, to this file."""
    as_html: Annotated[bool, typer.Option("--html")] = False
    """Write the report page; needs --out."""

    def make_search(self) -> EpisodeSearch | None:
        """Make the search. Raises: SearchError; EvaluationError if the search reads the outcome, or without --out."""
        from agentgym.errors import EvaluationError
        from agentgym.evaluation.search import make_search

        if self.as_html and self.folder is None:
            raise EvaluationError(
                "--html needs --out DIR, because the page is written beside the episodes that it shows."
            )
        if self.as_json is not None and self.as_json.is_dir():
            raise EvaluationError(f"Cannot write {self.as_json}: Is a directory. Name another file.")
        search = make_search(self.search) if self.search else None
        if search is not None:
            search.check_evaluation()
        return search


@takes(agent=AgentOptions, tasks=TaskOptions, measured=MeasureOptions, options=rollout_options)
def evaluate(
    agent: AgentOptions, tasks: TaskOptions, measured: MeasureOptions, options: RolloutOptions, modules: Import = None
) -> None:
    """Measure a policy: success with intervals, pass@k, what goes wrong, and the gain over an earlier evaluation.

    Example: agentgym eval sql/store-v1:held_out --policy runs/quickstart --group-size 4 --out runs/eval
    """
    from agentgym.cli.run_ledger import opened_ledger, say_what_is_there
    from agentgym.evaluation.choices import check_choices
    from agentgym.evaluation.comparison import check_tasks
    from agentgym.evaluation.price import Price, Spending
    from agentgym.evaluation.record import Evaluation
    from agentgym.evaluation.runner import evaluate as evaluate_policy
    from agentgym.evaluation.text import format_projection

    config, search, folder = options.make_config(), measured.make_search(), measured.folder
    price = Price.parse(measured.price) if measured.price else None
    Spending(price, measured.max_cost)  # refused before anything is loaded
    check_choices(measured.choose or (), config.group_size)
    name, split = tasks.choose("held_out")
    label = measured.label or split
    earlier = Evaluation.load(measured.against) if measured.against else None
    task_set, chosen = load_tasks((name, split), tasks.limit, config)
    if earlier is not None:
        check_tasks(earlier, task_set, split, chosen)
    loading = f"{name}:{split}: {counted(len(chosen), 'task')}. Loading {agent.policy}."
    err().print(loading, style="dim", markup=False, soft_wrap=True)
    check_sandboxes(chosen, config)
    player, player_name = agent.load(task_set)
    if config.temperature is None:
        config = replace(config, temperature=0.0 if config.group_size == 1 else 1.0)
    hint = "Run the same command again to go on." if folder else "Nothing is kept without --out DIR."
    with opened_ledger(folder, config) as ledger, resumable(hint):
        say_what_is_there(ledger, f"evaluation/{label}", len(chosen) * config.group_size)
        measure = partial(
            evaluate_policy,
            player,
            task_set,
            split,
            config=config,
            label=label,
            policy_name=player_name,
            limit=tasks.limit,
            ledger=ledger,
            search=search,
            price=price,
            max_cost=measured.max_cost,
            choose_by=measured.choose or (),
        )
        evaluation = _with_progress(measure, player)
    evaluation.adapted = agent.adaptations()
    _report(evaluation, earlier, measured)
    if line := format_projection(evaluation, len(task_set[split])):
        out().print(line, style="dim", markup=False, soft_wrap=True)
    exit_by_failures(evaluation.causes(), sum(map(len, (row.stop for row in evaluation.rows))))


def _with_progress(measure: Callable[..., Coroutine[Any, Any, Evaluation]], player: Agent) -> Evaluation:
    """Play the tasks, and show a progress bar."""
    with progress_bar() as progress:
        bar = progress.add_task("episodes", total=None, note="")

        def show(state: Progress) -> None:
            note = f"solved {percent(state.solved / max(1, state.done - state.failed))}"
            note += f", {state.failed} failed" if state.failed else ""
            if state.spent:
                note += f", price {state.spent:.3g}, about {state.spent / state.done * state.total:.3g} in all"
            progress.update(bar, completed=state.done, total=state.total, note=note)

        return run(measure(progress=show), player)


def _report(evaluation: Evaluation, earlier: Evaluation | None, measured: MeasureOptions) -> None:
    """Print an evaluation, and write it to the files that the options name."""
    from agentgym.cli.tables import evaluation_table
    from agentgym.evaluation.report import write_report
    from agentgym.evaluation.text import format_gains
    from agentgym.storage.run_folder import RunFolder

    folder = RunFolder(measured.folder) if measured.folder else None
    record = folder.write_json(f"evaluation/{evaluation.label}.json", evaluation.to_json()) if folder else None
    out().print(evaluation_table(evaluation))
    if record:
        out().print(f"Record: {record}", markup=False, soft_wrap=True)
    if measured.as_json is not None:
        data = {"summary": evaluation.to_summary(), **evaluation.to_json()}
        write_text(measured.as_json, json.dumps(data, indent=1))
    if folder and measured.as_html:
        out().print(f"Page: {write_report(folder)}", markup=False, soft_wrap=True)
    if earlier is not None:
        out().print("\n" + format_gains(earlier, evaluation), markup=False, soft_wrap=True)
