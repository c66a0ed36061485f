"""The command line. `app` holds the list of commands; each command or group of commands has a module of its own.

`options` are options that commands share, `policies` reads a --policy argument, `user_code` imports what --import
names, `human` lets a person play, `console` and `tables` print. Heavy modules are imported inside the commands, so that
help is quick. `registered` finds the commands of other packages, which use the names below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym._imports import lazy_names

if TYPE_CHECKING:
    from agentgym.cli.console import out, resumable
    from agentgym.cli.options import BackendName, RewardName, Seed, unhurried_config
    from agentgym.cli.task_offer import TaskOffer, offer_tasks
    from agentgym.cli.user_code import Import

_HOME = {
    "BackendName": "options",
    "Import": "user_code",
    "RewardName": "options",
    "Seed": "options",
    "TaskOffer": "task_offer",
    "offer_tasks": "task_offer",
    "out": "console",
    "resumable": "console",
    "unhurried_config": "options",
}

__all__ = [
    "BackendName",
    "Import",
    "RewardName",
    "Seed",
    "TaskOffer",
    "offer_tasks",
    "out",
    "resumable",
    "unhurried_config",
]


__getattr__ = lazy_names(__name__, _HOME)


def main() -> None:
    """The `agentgym` command."""
    from agentgym.cli.app import app
    from agentgym.cli.console import show_our_warnings

    show_our_warnings()
    app()
