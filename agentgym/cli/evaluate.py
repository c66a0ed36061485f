"""`agentgym eval`: measure a policy on a fixed list of tasks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import exit_by_failures, out, progress_bar, resumable, run, write_text
from agentgym.cli.options import Limit, TasksArgument, TasksOption, chosen_tasks, takes_rollout_config
from agentgym.cli.policies import Agent, ApiKeyEnv, CallFormat, Device, PolicyOption, PolicyOptions, load_policy
from agentgym.cli.user_code import Import
from agentgym.text import percent

if TYPE_CHECKING:
    from agentgym.evaluation.record import Evaluation
    from agentgym.rollout import RolloutConfig
    from agentgym.search import TurnSearch
    from agentgym.storage.ledger import Ledger
    from agentgym.task import TaskSet


@takes_rollout_config
def evaluate(
    config: RolloutConfig,
    policy: PolicyOption,
    tasks: TasksArgument = None,
    tasks_option: TasksOption = None,
    limit: Limit = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Keep record and episodes in DIR, and resume."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Name of the record; by default the split.")] = None,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="SEARCH",
            help="Search over the turns, e.g. best_first(nodes=200) or mcts; see docs/stages.md. Its cost is recorded.",
        ),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Compare with this earlier evaluation of the same tasks.")
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the record here as well, with its summary.")
    ] = None,
    as_html: Annotated[bool, typer.Option("--html", help="Write the report page; needs --out.")] = False,
    call_format: CallFormat = None,
    api_key_env: ApiKeyEnv = None,
    policy_options: PolicyOptions = None,
    device: Device = "auto",
    modules: Import = None,
) -> None:
    """Measure a policy: success with intervals, pass@k, what goes wrong, and the gain over an earlier evaluation.

    Example: [b]agentgym eval sql/store-v1:held_out --policy runs/quickstart --group-size 4 --out runs/eval[/b]
    """
    from agentgym import registry
    from agentgym.cli.run_ledger import opened_ledger
    from agentgym.cli.tables import evaluation_table
    from agentgym.errors import EvaluationError
    from agentgym.evaluation.comparison import check_tasks
    from agentgym.evaluation.record import Evaluation
    from agentgym.evaluation.report import write_report
    from agentgym.evaluation.runner import choose
    from agentgym.evaluation.text import format_gains
    from agentgym.search import make_search
    from agentgym.storage.adaptations import adaptations_of
    from agentgym.storage.run_folder import RunFolder

    searching = make_search(search) if search else None
    if searching is not None:
        searching.check_evaluation()
    if as_html and folder is None:
        raise EvaluationError("--html needs --out DIR: the page is written beside the episodes that it shows.")
    name, split = chosen_tasks(tasks, tasks_option, "held_out")
    label = label or split
    earlier = Evaluation.load(against) if against else None
    task_set = registry.load_task_set(name)
    if earlier is not None:
        check_tasks(earlier, task_set, split, choose(task_set, split, limit))
    agent, agent_name = load_policy(
        policy, task_set, call_format=call_format, api_key_env=api_key_env, device=device, pairs=policy_options
    )
    if config.temperature is None:
        config = replace(config, temperature=0.0 if config.group_size == 1 else 1.0)
    hint = "Run the same command again to go on." if folder else "Nothing is kept without --out DIR."
    with opened_ledger(folder, config) as ledger, resumable(hint):
        evaluation = _measure(agent, agent_name, task_set, split, config, label, limit, ledger, searching)
    run_folder = RunFolder(folder) if folder else None
    evaluation.adapted = adaptations_of(policy)
    record = run_folder.write_json(f"evaluation/{label}.json", evaluation.to_json()) if run_folder else None
    out().print(evaluation_table(evaluation))
    if record:
        out().print(f"Record: {record}", markup=False, soft_wrap=True)
    if as_json is not None:
        write_text(as_json, json.dumps({"summary": evaluation.to_summary(), **evaluation.to_json()}, indent=1))
    if run_folder and as_html:
        out().print(f"Page: {write_report(run_folder)}", markup=False, soft_wrap=True)
    if earlier is not None:
        out().print("\n" + format_gains(earlier, evaluation), markup=False, soft_wrap=True)
    exit_by_failures(evaluation.causes(), sum(map(len, (row.stop for row in evaluation.rows))))


def _measure(
    agent: Agent,
    agent_name: str,
    task_set: TaskSet,
    split: str,
    config: RolloutConfig,
    label: str,
    limit: int | None,
    ledger: Ledger | None,
    search: TurnSearch | None,
) -> Evaluation:
    """Play the tasks behind a progress bar."""
    from agentgym.evaluation.runner import Progress
    from agentgym.evaluation.runner import evaluate as evaluate_policy

    with progress_bar() as progress:
        bar = progress.add_task("episodes", total=None, note="")

        def show(state: Progress) -> None:
            note = f"solved {percent(state.solved / max(1, state.done - state.failed))}"
            note += f", {state.failed} failed" if state.failed else ""
            progress.update(bar, completed=state.done, total=state.total, note=note)

        evaluating = evaluate_policy(
            agent,
            task_set,
            split,
            config=config,
            label=label,
            policy_name=agent_name,
            limit=limit,
            ledger=ledger,
            search=search,
            progress=show,
        )
        return run(evaluating, agent)
