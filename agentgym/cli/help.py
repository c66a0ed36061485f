"""The help of commands, in sections of options and commands.

The boxes that Typer draws truncate long names at 80 columns, also in a pipe. Here a name that does not fit its column
is on a separate line, above its text.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

HELP_WIDTH = 100
"""The width of help in columns, if the terminal is wide enough."""


class HelpfulCommand(TyperCommand):
    """A command that lists its arguments and options in the sections that they name."""

    @override
    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_sections(formatter, _options(self, ctx))


class HelpfulGroup(TyperGroup):
    """A group that lists its options, and its commands in the sections that they name.

    For an unknown command, it names the subgroups that have a command of this name.
    """

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        within = [name for name, command in self.commands.items() if args[0] in getattr(command, "commands", ())]
        if within and self.get_command(ctx, args[0]) is None:
            meant = " or ".join(repr(f"{ctx.command_path} {name} {args[0]}") for name in within)
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant}?")
        return super().resolve_command(ctx, args)

    @override
    def format_options(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, command) for name in self.list_commands(ctx) if (command := self.get_command(ctx, name))]
        _write_sections(
            formatter,
            [
                *(
                    (_section(command, "Commands"), name, command.get_short_help_str(limit=1_000))
                    for name, command in commands
                    if not command.hidden
                ),
                *_options(self, ctx),
            ],
        )


def _options(command: Any, ctx: Any) -> list[tuple[str, str, str]]:
    """Return the section, the spelling and the text of each argument and option, arguments first."""
    default = {"argument": "Arguments", "option": "Options"}
    parameters = sorted(command.get_params(ctx), key=lambda parameter: list(default).index(parameter.param_type_name))
    records = [(parameter, parameter.get_help_record(ctx)) for parameter in parameters]
    return [
        (_section(parameter, default[parameter.param_type_name]), *record) for parameter, record in records if record
    ]


def _section(listed: Any, default: str) -> str:
    return getattr(listed, "rich_help_panel", None) or default


def _write_sections(formatter: Any, rows: list[tuple[str, str, str]]) -> None:
    """Write each section with its rows, in the order in which the sections appear."""
    for name in dict.fromkeys(section for section, _, _ in rows):
        with formatter.section(name):
            formatter.write_dl([(spelling, text) for section, spelling, text in rows if section == name])
