"""`agentgym model`: make checkpoints of other files, and see whether a model can be played and trained."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import out
from agentgym.cli.name_values import options_for
from agentgym.visible import visible

if TYPE_CHECKING:
    from agentgym.policy.template_check import TemplateFinding

app = typer.Typer(
    help="Convert models, and check that tools reach them.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command("convert")
def convert(
    file: Annotated[Path, typer.Argument(help="A GGUF file, as llama.cpp and Ollama read them.")],
    folder: Annotated[Path, typer.Argument(help="The new folder for the checkpoint.")],
    chat_template: Annotated[
        typer.FileText | None, typer.Option(metavar="FILE", help="A Jinja template in place of the file's own.")
    ] = None,
) -> None:
    """Make a checkpoint that can be trained of a GGUF file: float32 weights, tokenizer and chat template.

    Example: [b]agentgym model convert SmolLM2-135M-Instruct.Q4_1.gguf models/smollm2-135m[/b]
    """
    from agentgym.policy.gguf import convert_gguf
    from agentgym.training.silence import silence_libraries

    progress_bar = io.StringIO()  # of the reader, for a small part of the work
    with silence_libraries(), redirect_stderr(progress_bar), out().status(f"Reading {visible(str(file))}"):
        parameters = convert_gguf(file, folder, chat_template=chat_template.read() if chat_template else None)
    out().print(f"{folder}: {parameters / 1e6:.1f} M parameters", markup=False, soft_wrap=True)


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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Check that a model's chat template and call format fit. Reads its tokenizer, not its weights.

    Ends with 0 if the model can be used, with 1 otherwise.

    Example: [b]agentgym model check runs/quickstart[/b]
    """
    from agentgym.policy.checkpoint import load_tokenizer
    from agentgym.policy.load_options import LoadOptions
    from agentgym.policy.template_check import check_template
    from agentgym.storage import checkpoint_in
    from agentgym.training.silence import silence_libraries

    given = options_for(LoadOptions, policy_options or (), "--policy-option", "a local model")
    options = LoadOptions.checked(**given)
    with silence_libraries():
        tokenizer = load_tokenizer(checkpoint_in(Path(path)) or path, options)
        findings = check_template(tokenizer, call_format, options.template_options)
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
