"""The `agentgym` command: its subcommands, old spellings that still work, and how errors are shown."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import typer

from agentgym._imports import install_command
from agentgym.cli import (
    cluster,
    compare,
    evaluate,
    export,
    listing,
    model,
    new,
    play,
    recipes,
    rerun,
    rollout,
    sandbox,
    serve,
    show,
    tasks,
    train,
)
from agentgym.cli.console import err, print_error, quieten_bitsandbytes, show_tracebacks
from agentgym.cli.fields import FieldsCommand
from agentgym.cli.help import HELP_WIDTH
from agentgym.cli.registered import OpenGroup
from agentgym.cli.termination import StopSignal, interrupted_by_signals, not_writable
from agentgym.deprecation import renamed_options, warn_renamed
from agentgym.errors import AgentGymError, LimitUnenforceable, SandboxUnavailable

FAILED = 2
OPTIONAL = dict.fromkeys(("torch", "trl", "transformers", "accelerate", "datasets", "tensorboard"), "train")
"""Packages that only some commands need, and the extra that installs them."""
RENAMED_COMMANDS: dict[tuple[str, ...], tuple[str, ...]] = {}
"""Old commands and their present names: `("tasks", "mix"): ("dev", "tasks-mix")`."""
RENAMED_OPTIONS: dict[str, dict[str, str]] = {"sandbox shell": {"--weak": "--accept-weaker=all"}}
"""Old options by command, which work until `REMOVED_IN`: `"eval": {"--samples": "--group-size"}`."""


class Commands(OpenGroup):
    """Shows an error we raise on purpose as one message, not as a traceback.

    --debug and --accept-weaker may stand anywhere.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["agentgym.debug"] = "--debug" in args
        show_tracebacks(ctx.meta["agentgym.debug"])
        quieten_bitsandbytes()
        current = current_spelling([argument for argument in args if argument != "--debug"])
        option, ctx.meta["agentgym.command"] = split_option("--accept-weaker", current)
        return super().parse_args(ctx, [*option, *ctx.meta["agentgym.command"]])

    def invoke(self, ctx: Any) -> Any:
        with interrupted_by_signals() as stop:
            return self._invoke(ctx, stop)

    def _invoke(self, ctx: Any, stop: StopSignal) -> Any:
        try:
            return super().invoke(ctx)
        except typer.Exit:
            raise
        except AgentGymError as error:
            if ctx.meta["agentgym.debug"]:
                raise
            print_error(str(error))
            if commands := remedies(error, ctx.meta["agentgym.command"]):
                err().print("\n".join(f"  {command}" for command in commands), markup=False, soft_wrap=True)
            raise typer.Exit(FAILED) from error
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if ctx.meta["agentgym.debug"] or package not in OPTIONAL:
                raise
            print_error(f"This needs {package}, which is not installed. Run: {install_command(OPTIONAL[package])}")
            raise typer.Exit(FAILED) from error
        except Exception as error:
            if ctx.meta["agentgym.debug"] or (reason := not_writable(error)) is None:
                raise
            print_error(reason)
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt as error:
            hint = getattr(error, "hint", "")
            err().print(f"\nStopped{stop.cause}. {hint}".rstrip(), markup=False, soft_wrap=True)
            raise typer.Exit(stop.exit_code) from error


def current_spelling(arguments: list[str]) -> list[str]:
    """Return arguments with old commands and options replaced by current ones; warn of deprecation for each."""
    for old_command in (tuple(arguments[:1]), tuple(arguments[:2])):
        if old_command in RENAMED_COMMANDS:
            new_command = RENAMED_COMMANDS[old_command]
            warn_renamed(f"agentgym {' '.join(old_command)}", f"agentgym {' '.join(new_command)}")
            arguments = [*new_command, *arguments[len(old_command) :]]
            break
    for command, renames in RENAMED_OPTIONS.items():
        if arguments[: len(command.split())] == command.split():
            arguments = renamed_options(arguments, renames, where=f"agentgym {command}")
    return arguments


def split_option(option: str, arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return an option with its value, from anywhere before `--`, and the other arguments."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for position, argument in enumerate(arguments[:end]):
        if argument.partition("=")[0] == option:
            after = position + (1 if "=" in argument else 2)
            return arguments[position:after], [*arguments[:position], *arguments[after:]]
    return [], arguments


def remedies(error: AgentGymError, arguments: list[str]) -> list[str]:
    """Return the command again, with what would help: another backend, a control group, weaker limits."""
    command = shlex.join(["agentgym", *arguments])
    if isinstance(error, LimitUnenforceable) and error.limits:
        return [
            f"systemd-run --user --scope -p Delegate=yes {command}",
            f"{command} --accept-weaker {error.limits}",
        ]
    if not isinstance(error, SandboxUnavailable):
        return []
    option = "--set episode.backend=" if arguments[:1] == ["train"] else "--backend "
    return [f"{command} {words.replace('--backend ', option)}" for words in error.options]


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH},
)


def _version(value: bool) -> None:
    if value:
        from agentgym import __version__

        sys.stdout.write(f"agentgym {__version__}\n")
        raise typer.Exit


@app.callback()
def _top(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    accept_weaker: Annotated[
        str,
        typer.Option(
            metavar="LIMITS", help="Play even if these limits of sandboxes are not enforced here: memory,cpu, or all."
        ),
    ] = "",
) -> None:
    """Train and evaluate LLM agents that use tools, in sandboxes.

    First steps: agentgym demo, or agentgym list, then agentgym play agentgym/sql-v1, then
    agentgym rollout sql/store-v1:train --policy oracle --limit 4 --out runs/look and agentgym view.
    """
    if accept_weaker:
        from agentgym.sandbox.limits import accepting, limit_names

        ctx.with_resource(accepting(limit_names(accept_weaker, "--accept-weaker")))


START, MEASURE, INSPECT, BUILD = "Play and train", "Evaluate", "Look at runs", "Tasks and sandboxes"

for name, command, panel in (
    ("demo", recipes.demo, START),
    ("list", listing.list_names, START),
    ("play", play.play, START),
    ("rollout", rollout.rollout, START),
    ("train", train.train, START),
    ("recipes", recipes.recipes, START),
    ("eval", evaluate.evaluate, MEASURE),
    ("compare", compare.compare, MEASURE),
    ("power", compare.power, MEASURE),
    ("show", show.show, INSPECT),
    ("view", show.view, INSPECT),
    ("report", show.report, INSPECT),
    ("export", export.export, INSPECT),
):
    app.command(name, cls=FieldsCommand, rich_help_panel=panel)(command)
app.add_typer(tasks.app, name="tasks", cls=OpenGroup, rich_help_panel=BUILD)
app.add_typer(new.app, name="new", cls=OpenGroup, rich_help_panel=BUILD)
app.add_typer(model.app, name="model", cls=OpenGroup, rich_help_panel=START)
app.add_typer(sandbox.app, name="sandbox", cls=OpenGroup, rich_help_panel=BUILD)
app.add_typer(serve.app, name="serve", cls=OpenGroup, rich_help_panel=START)
app.add_typer(cluster.app, name="cluster", cls=OpenGroup, rich_help_panel=START)
app.add_typer(rerun.app, name="episodes", cls=OpenGroup, rich_help_panel=INSPECT)
credit = typer.Typer(help="Audit how a run assigned credit to its turns.", no_args_is_help=True)
credit.callback()(lambda: None)  # a group, whose commands are all registered, as are those of `dev`
app.add_typer(credit, name="credit", cls=OpenGroup, rich_help_panel=INSPECT)
mcp = typer.Typer(help="Add MCP servers, to play with their tools.", no_args_is_help=True)
mcp.callback()(lambda: None)
app.add_typer(mcp, name="mcp", cls=OpenGroup, rich_help_panel=BUILD)
dev = typer.Typer(help="For maintainers: benchmarks of estimators, attacks on sandboxes.", no_args_is_help=True)
dev.callback()(lambda: None)
app.add_typer(dev, name="dev", cls=OpenGroup, hidden=True)
