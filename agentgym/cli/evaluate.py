"""`agentgym eval`: measure a policy on a fixed list of tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli.choosing import BackendName, Concurrency, Limit, MaxTokens, MaxTurns, RewardName, Seed, Tasks
from agentgym.cli.choosing import split_tasks as split_of
from agentgym.cli.policies import ApiKeyEnv, CallFormat, Device, PolicyArgument, load_policy
from agentgym.cli.screen import out, progress_bar, resumable, run, write_text
from agentgym.cli.user_code import Import


def evaluate(
    tasks: Tasks,
    policy: PolicyArgument,
    samples: Annotated[int, typer.Option(min=1, help="Episodes per task.")] = 1,
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
    temperature: Annotated[float | None, typer.Option(min=0.0, help="By default 0 for one sample, 1 for more.")] = None,
    max_turns: MaxTurns = 16,
    max_tokens: MaxTokens = 512,
    concurrency: Concurrency = 64,
    seed: Seed = 0,
    reward: RewardName = None,
    backend: BackendName = None,
    call_format: CallFormat = None,
    api_key_env: ApiKeyEnv = None,
    device: Device = "auto",
    modules: Import = None,
) -> None:
    """Measure a policy: success with intervals, pass@k, what goes wrong, and the gain over an earlier evaluation.

    Example: [b]agentgym eval --tasks sql/store-v1:held_out --policy runs/quickstart --samples 4 --out runs/eval[/b]
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
    from agentgym.policy.contract import Sampling
    from agentgym.rollout.budgets import Budgets
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
    heat = temperature if temperature is not None else 0.0 if samples == 1 else 1.0
    kept = RunFolder(folder).create() if folder else None
    ledger = Ledger(kept.ledger) if kept else None
    try:
        if kept:
            asked = {
                "task_set": name, "split": split, "fingerprint": task_set.fingerprint(), "policy": told, "seed": seed,
                "temperature": heat, "max_turns": max_turns, "max_tokens": max_tokens, "reward": reward,
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
                    agent, task_set, split, label=label, policy_name=told, limit=limit, samples=samples,
                    sampling=Sampling(temperature=heat, max_tokens=max_tokens), seed=seed, reward=reward,
                    backend=backend, budgets=Budgets(max_turns=max_turns), concurrency=concurrency, ledger=ledger,
                    progress=show,
                )  # fmt: skip
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
