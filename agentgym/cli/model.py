"""`agentgym model`: check whether a model can be played and trained, and plan the memory of its training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.console import out, run
from agentgym.cli.name_values import options_for
from agentgym.text import visible

if TYPE_CHECKING:
    from agentgym.policy.load_options import LoadOptions
    from agentgym.policy.template_check import TemplateFinding
    from agentgym.training.checks.memory_plan import MemoryPlan

app = typer.Typer(
    help="Convert models, check that tools reach them, and plan the memory of training.",
    no_args_is_help=True,
)


@app.command("check")
def check(
    path: Annotated[str, typer.Argument(help="A checkpoint, a run folder, or the name of a hub model.")],
    call_format: Annotated[
        str, typer.Option(metavar="NAME", help="How it writes calls; auto is how its chat template does.")
    ] = "auto",
    policy_options: Annotated[
        list[str] | None,
        typer.Option(
            "--policy-option",
            metavar="NAME=VALUE",
            help="How its tokenizer and template are loaded: tokenizer, chat_template, template_options.KEY, revision "
            "or base. Repeatable.",
        ),
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask/--no-ask", help="Let the model write one call, if its weights are in the folder.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Check that a model's chat template and call format fit, and ask it for one call if its weights are available.

    Ends with 0 if the model can be used, with 1 otherwise.

    Example: agentgym model check runs/quickstart
    """
    from agentgym.policy.checkpoint import load_tokenizer
    from agentgym.policy.formats.choice import call_format_for
    from agentgym.policy.load_options import LoadOptions
    from agentgym.policy.silence import silence_libraries
    from agentgym.policy.template_check import check_template
    from agentgym.storage.run_folder import checkpoint_in

    given = options_for(LoadOptions, policy_options or (), "--policy-option", "a local model")
    options = LoadOptions.checked(**given)
    source = checkpoint_in(Path(path)) or path
    with silence_libraries():
        tokenizer = load_tokenizer(source, options)
        findings = check_template(tokenizer, call_format, options.template_options)
        if all(finding.ok for finding in findings) and Path(source).is_dir():
            findings += _of_folder(Path(source), call_format, options, tokenizer, ask=ask)
    reason = next((f"{finding.check}: {finding.detail}" for finding in findings if not finding.ok), "")
    ok = not reason
    name = call_format_for(tokenizer, call_format, options.template_options).name if ok else None
    if as_json:
        verdict = {"ok": ok, "call_format": name, "reason": reason}
        text = json.dumps({**verdict, "findings": [asdict(finding) for finding in findings]}, indent=1)
        out().print(text, markup=False, soft_wrap=True)
    else:
        _show(findings)
        text = f"usable, with call_format = {name}" if ok else f"not usable: {visible(reason)}"
        out().print(text, markup=False, soft_wrap=True)
    if not ok:
        raise typer.Exit(1)


def _of_folder(
    folder: Path, call_format: str, options: LoadOptions, tokenizer: Any, *, ask: bool
) -> list[TemplateFinding]:
    """Return the findings of the checks of a folder, except those of its tokenizer."""
    from agentgym.policy.local import load
    from agentgym.policy.model_check import ask_model, check_generation_ends, has_weights
    from agentgym.policy.training_template import tried_renderer

    ends = check_generation_ends(tried_renderer(tokenizer, call_format, options.template_options), folder)
    findings = [] if ends is None else [ends]
    if ask and has_weights(folder):
        policy = load(str(folder), call_format=call_format, **options.model_dump(exclude_defaults=True))
        findings.append(run(ask_model(policy), policy))
    return findings


@app.command("plan")
def plan(
    recipe: Annotated[Path, typer.Argument(help="A recipe (TOML).")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe. Repeatable.")
    ] = None,
    gpu: Annotated[
        float | None,
        typer.Option(min=1, metavar="GB", help="Plan for a GPU of so much memory."),
    ] = None,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Tokens of an episode's prompt, tools included.")] = 512,
    processes: Annotated[
        int, typer.Option(min=1, help="Processes that train together; with machine.sharding they share the weights.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, in bytes.")] = False,
) -> None:
    """Plan the memory of a recipe's reinforcement, by part. Reads the model's configuration, not its weights.

    Ends with 0 if it fits, with 1 otherwise.

    Example: agentgym model plan recipes/smollm2.toml --set policy.path=models/smollm2-135m
    """
    from agentgym.policy.silence import silence_libraries
    from agentgym.training.checks.memory_plan import plan_memory
    from agentgym.training.recipe.recipe import Recipe

    device, available = (None, None) if gpu is None else ("cuda", gpu * 1e9)
    with silence_libraries():
        memory = plan_memory(
            Recipe.load(recipe, overrides or ()),
            device=device,
            available=available,
            prompt_tokens=prompt_tokens,
            processes=processes,
        )
    if as_json:
        out().print(json.dumps({**asdict(memory), "peak": memory.peak}, indent=1), markup=False, soft_wrap=True)
    else:
        _show_memory(memory)
    if memory.peak > memory.available:
        raise typer.Exit(1)


def _show_memory(memory: MemoryPlan) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("", "", "GB"):
        table.add_column(column, justify="right" if column else "left")
    for phase, parts in (
        ("always", memory.always),
        ("in a gradient step", memory.training),
        ("while sampling", memory.sampling),
    ):
        for i, (name, size) in enumerate(parts.items()):
            table.add_row("" if i else phase, name, f"{size / 1e9:.2f}")
    table.add_row("at the peak", "", f"{memory.peak / 1e9:.2f}", style="bold")
    table.add_row("free", "", f"{memory.available / 1e9:.2f}")
    out().print(f"{memory.parameters} parameters, {memory.trained} of them trained", highlight=False)
    out().print(table)


def _show(findings: Sequence[TemplateFinding]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        verdict = Text("yes", style="green") if finding.ok else Text("no", style="bold red")
        table.add_row(Text(finding.check, style="bold"), verdict, Text(visible(finding.detail)))
    out().print(table)
