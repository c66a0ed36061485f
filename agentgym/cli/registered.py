"""Commands that packages add to the command line, by the entry-point group `agentgym.commands`.

`"tasks.mix" = "acme.mixing:mix"` adds `agentgym tasks mix`. The entry point names a function with the annotations of
Typer, or a `typer.Typer` with several commands. It is imported when that command runs, or when the help of its group
is shown, in the section that the function names as its `panel`. A built-in command keeps its name.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any

import typer
from typing_extensions import override

from agentgym.cli.fields import FieldsCommand
from agentgym.cli.help import HelpfulGroup

GROUP = "agentgym.commands"


class OpenGroup(HelpfulGroup):
    """A group of commands that packages can add to."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        prefix = "".join(f"{word}." for word in _words(ctx))
        registered = (point.name for point in entry_points(group=GROUP) if point.name.startswith(prefix))
        added = sorted({name.removeprefix(prefix) for name in registered} - self.commands.keys())
        return [*super().list_commands(ctx), *(name for name in added if "." not in name)]

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.commands or cmd_name not in self.list_commands(ctx):
            return super().get_command(ctx, cmd_name)
        return _command_from(_load(".".join([*_words(ctx), cmd_name])), cmd_name)


def _load(name: str) -> Any:
    """Return what an entry point names. The registry is imported only to report an error, so that help is quick."""
    points = entry_points(group=GROUP, name=name)
    with suppress(ImportError, AttributeError):
        if len(points) == 1:
            return next(iter(points)).load()
    from agentgym import registry

    return registry.load("commands", name)


def _words(ctx: Any) -> list[str]:
    """Return the group names on the path to a context, without the program's name."""
    return [] if ctx.parent is None else [*_words(ctx.parent), ctx.info_name]


def _command_from(registered: Any, name: str) -> Any:
    """Make a command from a function or a Typer application."""
    application = registered
    if not isinstance(registered, typer.Typer):
        application = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        application.command(name, cls=FieldsCommand, rich_help_panel=getattr(registered, "panel", None))(registered)
    command = typer.main.get_command(application)
    command.name = name
    return command
