"""`agentgym eval`: measure a policy on a fixed list of tasks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.choosing import Limit, Tasks
from agentgym.cli.choosing import split_tasks as split_of
from agentgym.cli.policies import ApiKeyEnv, CallFormat, Device, PolicyArgument, load_policy
from agentgym.cli.rollout_options import asked_of, takes_rollout_config
from agentgym.cli.screen import out, progress_bar, resumable, run, write_text
from agentgym.cli.user_code import Import

if TYPE_CHECKING:
    from agentgym.rollout import RolloutConfig


@takes_rollout_config
def evaluate(
    config: RolloutConfig,
    tasks: Tasks,
    policy: PolicyArgument,
    limit: Limit = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Keep record and episodes in DIR, and resume."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Name of the record; by default the split.")] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Compare with this earlier evaluation of the same tasks.")
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the record here as well, with its summary.")
    ] = None,
    as_html: Annotated[bool, typer.Option("--html", help="Write the report page; needs --out.")] = False,
    call_format: CallFormat = None,
    api_key_env: ApiKeyEnv = None,
    device: Device = "auto",
    modules: Import = None,
) -> None:
    """Measure a policy: success with intervals, pass@k, what goes wrong, and the gain over an earlier evaluation.

    Example: [b]agentgym eval --tasks sql/store-v1:held_out --policy runs/quickstart --group-size 4 --out runs/eval[/b]
    """
    from agentgym import registry
    from agentgym.cli.asked import claim
    from agentgym.cli.tables import evaluation_table
    from agentgym.errors import EvaluationError
    from agentgym.evaluation.comparison import check_tasks
    from agentgym.evaluation.record import Evaluation
    from agentgym.evaluation.report import write_report
    from agentgym.evaluation.runner import Progress, choose
    from agentgym.evaluation.runner import evaluate as measure
    from agentgym.storage.ledger import Ledger
    from agentgym.storage.run_folder import RunFolder

    if as_html and folder is None:
        raise EvaluationError("--html needs --out DIR: the page is written beside the episodes that it shows.")
    name, split = split_of(tasks, "held_out")
    label = label or split
    earlier = Evaluation.load(against) if against else None
    task_set = registry.load_task_set(name)
    if earlier is not None:
        check_tasks(earlier, task_set, split, choose(task_set, split, limit))
    agent, told = load_policy(policy, task_set, call_format=call_format, api_key_env=api_key_env, device=device)
    if config.temperature is None:
        config = replace(config, temperature=0.0 if config.group_size == 1 else 1.0)
    kept = RunFolder(folder).create() if folder else None
    ledger = Ledger(kept.ledger) if kept else None
    try:
        if kept:
            asked = {
                "task_set": name, "split": split, "fingerprint": task_set.fingerprint(), "policy": told,
                **asked_of(config),
            }  # fmt: skip
            claim(kept, f"evaluation-{label}", asked)
        with progress_bar() as progress:
            bar = progress.add_task("episodes", total=None, note="")

            def show(state: Progress) -> None:
                note = f"solved {state.solved / max(1, state.done - state.failed):.0%}"
                note += f", {state.failed} failed" if state.failed else ""
                progress.update(bar, completed=state.done, total=state.total, note=note)

            with resumable("Run the same command again to go on." if kept else "Nothing is kept without --out DIR."):
                measuring = measure(
                    agent,
                    task_set,
                    split,
                    config=config,
                    label=label,
                    policy_name=told,
                    limit=limit,
                    ledger=ledger,
                    progress=show,
                )
                evaluation = run(measuring, agent)
    finally:
        if ledger is not None:
            ledger.close()
    if kept:
        path = kept.write_json(f"evaluation/{label}.json", evaluation.to_json())
    out().print(evaluation_table(evaluation))
    if kept:
        out().print(f"Record: {path}", markup=False, soft_wrap=True)
    if as_json is not None:
        write_text(as_json, json.dumps({"summary": evaluation.digest(), **evaluation.to_json()}, indent=1))
    if kept and as_html:
        out().print(f"Page: {write_report(kept)}", markup=False, soft_wrap=True)
    if earlier is not None:
        out().print("\n" + evaluation.compared_to(earlier), markup=False, soft_wrap=True)
