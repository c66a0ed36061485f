"""`agentgym model`: whether a model can be played and trained token by token."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import out
from agentgym.visible import visible

if TYPE_CHECKING:
    from agentgym.policy.template_check import TemplateFinding

app = typer.Typer(
    help="Models: whether tools reach one, and its calls are read.", no_args_is_help=True, rich_markup_mode="rich"
)


@app.command("check")
def check(
    path: Annotated[str, typer.Argument(help="A checkpoint, a run folder, or the name of a hub model.")],
    call_format: Annotated[
        str, typer.Option(metavar="NAME", help="How it writes calls; auto is how its chat template does.")
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Check that a model's chat template and call format fit. Reads its tokenizer, not its weights.

    Ends with 0 if the model can be used, with 1 otherwise.

    Example: [b]agentgym model check runs/quickstart[/b]
    """
    from agentgym.policy.checkpoint import load_tokenizer
    from agentgym.policy.template_check import check_template
    from agentgym.storage import checkpoint_in
    from agentgym.training.silence import silence_libraries

    with silence_libraries():
        tokenizer = load_tokenizer(checkpoint_in(Path(path)) or path)
        findings = check_template(tokenizer, call_format)
    ok = all(finding.ok for finding in findings)
    if as_json:
        text = json.dumps({"ok": ok, "findings": [asdict(finding) for finding in findings]}, indent=1)
        out().print(text, markup=False, soft_wrap=True)
    else:
        _show(findings)
    if not ok:
        raise typer.Exit(1)


def _show(findings: Sequence[TemplateFinding]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        verdict = Text("yes", style="green") if finding.ok else Text("no", style="bold red")
        table.add_row(Text(finding.check, style="bold"), verdict, Text(visible(finding.detail)))
    out().print(table)
