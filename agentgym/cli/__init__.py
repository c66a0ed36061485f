"""The command line: one module per command, `app` puts them together.

`user_code` imports what a user registered, `policies` reads a --policy argument, `human` lets a person be the
policy, `tables` and `screen` show things. What is heavy is imported inside the commands, so that help is quick.
"""

from __future__ import annotations


def main() -> None:
    """The `agentgym` command."""
    import warnings

    from agentgym.cli.app import app
    from agentgym.deprecation import AgentGymDeprecationWarning

    warnings.filterwarnings("default", category=AgentGymDeprecationWarning)  # else Python shows none of them
    app()
