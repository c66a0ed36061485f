"""Every command with its arguments and options, as --help has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from research.reference.entries import one_line, table

INTRODUCTION = """\
`--debug` may stand anywhere and shows the traceback of an error. Exit codes: 0; 1 where episodes or checks failed; 2
for an error that is named in one line; 130 after Ctrl-C."""


def lines() -> list[str]:
    """The page, without its title."""
    import typer

    from agentgym.cli.app import app

    page = [INTRODUCTION]
    for words, command in _commands(typer.main.get_command(app), "agentgym", None):
        help_text = re.sub(r"\[/?b\]", "`", command.help or "")
        text, _, example = help_text.partition("Example:")
        page += ["", f"## `{words}`", "", one_line(text)]
        page += ["", f"Example: {' '.join(example.split())}"] if example else []
        rows = [row for row in map(_row, command.params) if row]
        page += ["", *table(["argument or option", "default", "meaning"], rows)] if rows else []
    return page


def _commands(command: Any, name: str, parent: Any) -> Iterator[tuple[str, Any]]:
    """Yield the commands in the order of --help, without hidden ones and without groups, each after what is typed."""
    import typer

    if command.hidden:
        return
    context = typer.Context(command, info_name=name, parent=parent)
    if not hasattr(command, "list_commands"):
        yield context.command_path, command
        return
    for inner in command.list_commands(context):
        yield from _commands(command.get_command(context, inner), inner, context)


def _row(parameter: Any) -> list[str] | None:
    if getattr(parameter, "hidden", False) or parameter.name == "help":
        return None
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
        spelling = f"`{name}`"
    else:
        value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
        names = [*parameter.opts, *parameter.secondary_opts]
        spelling = f"`{', '.join(names)}{value}`"
    default = parameter.default
    is_shown = default not in (None, False, "", ()) and not callable(default)
    default_text = "required" if parameter.required else f"`{default}`" if is_shown else ""
    if parameter.param_type_name != "argument" and parameter.is_flag and parameter.secondary_opts:
        default_text = f"`{parameter.opts[0] if default else parameter.secondary_opts[0]}`"
    return [spelling, default_text, one_line(parameter.help or "")]
