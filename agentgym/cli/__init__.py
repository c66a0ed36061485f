"""The command line. `app` holds the list of commands; each command or group of commands has a module of its own.

`options` are options that commands share, `policies` reads a --policy argument, `user_code` imports what --import
names, `human` lets a person play, `console` and `tables` print. Heavy modules are imported inside the commands, so that
help is quick.
"""

from __future__ import annotations


def main() -> None:
    """The `agentgym` command."""
    import warnings

    from agentgym.cli.app import app
    from agentgym.deprecation import AgentGymDeprecationWarning

    warnings.filterwarnings("default", category=AgentGymDeprecationWarning)  # else Python shows none of them
    app()
