"""The command line. `app` holds the list of commands; each command or group of commands has a module of its own.

`options` are options that commands share, `policies` reads a --policy argument, `user_code` imports what --import
names, `human` lets a person play, `console` and `tables` print. Heavy modules are imported inside the commands, so that
help is quick.
"""

from __future__ import annotations


def main() -> None:
    """The `agentgym` command."""
    from agentgym.cli.app import app
    from agentgym.cli.console import show_our_warnings

    show_our_warnings()
    app()
