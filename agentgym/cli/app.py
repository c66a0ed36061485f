"""The commands put together, and what happens when one of them fails."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agentgym.cli import (
    again,
    check,
    compare,
    credit,
    evaluate,
    export,
    listing,
    play,
    report,
    rollout,
    sandbox,
    show,
    tasks,
    train,
    view,
)
from agentgym.cli.screen import complain, err
from agentgym.deprecation import renamed_options
from agentgym.errors import AgentGymError

FAILED, INTERRUPTED = 2, 130
OPTIONAL = dict.fromkeys(("torch", "trl", "transformers", "accelerate", "datasets", "tensorboard"), "train")
"""Packages that only some commands need, and the extra that brings them."""
RENAMED_OPTIONS = {
    "eval": {"--samples": "--group-size", "--max-tokens": "--max-turn-tokens"},
    "rollout": {"--max-tokens": "--max-turn-tokens"},
    "fork": {"--samples": "--group-size", "--max-tokens": "--max-turn-tokens"},
}
"""Old options of each command, and what they are called now."""


class Commands(TyperGroup):
    """Shows an error we raise on purpose as one message, not as a traceback; --debug may stand anywhere."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["agentgym.debug"] = "--debug" in args
        current = [argument for argument in args if argument != "--debug"]
        if current and current[0] in RENAMED_OPTIONS:
            current = renamed_options(current, RENAMED_OPTIONS[current[0]], where=f"agentgym {current[0]}")
        return super().parse_args(ctx, current)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except AgentGymError as error:
            if ctx.meta["agentgym.debug"]:
                raise
            complain(str(error))
            raise typer.Exit(FAILED) from error
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if ctx.meta["agentgym.debug"] or package not in OPTIONAL:
                raise
            complain(
                f"This needs {package}, which is not installed. Run: pip install 'agentgym-core[{OPTIONAL[package]}]'"
            )
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt as error:
            hint = getattr(error, "hint", "")
            err().print(f"\nStopped. {hint}".rstrip(), markup=False, soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from error


app = typer.Typer(
    cls=Commands, no_args_is_help=True, add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


def _version(value: bool) -> None:
    if value:
        from agentgym import __version__

        sys.stdout.write(f"agentgym {__version__}\n")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Train and evaluate LLM agents that use tools, in sandboxes.

    First steps: [b]agentgym list[/b], then [b]agentgym play agentgym/sql-v1[/b], then
    [b]agentgym train recipes/quickstart.toml[/b].
    """


app.command("list")(listing.list_names)
app.command("play")(play.play)
app.command("rollout")(rollout.rollout)
app.command("train")(train.train)
app.command("eval")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("power")(compare.power)
app.command("rescore")(again.rescore)
app.command("replay")(again.replay)
app.command("fork")(again.fork)
app.command("export")(export.export)
app.command("show")(show.show)
app.command("report")(report.report)
app.command("view")(view.view)
app.command("check")(check.check)
app.add_typer(tasks.app, name="tasks")
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(credit.app, name="credit")
