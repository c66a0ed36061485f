"""The command line. `app` lists the commands; each command or group of commands has its own module.

`options` has shared options, `policies` reads a --policy argument, `user_code` imports --import modules, `human` lets a
person play, `console` and `tables` print. Heavy modules are imported inside the commands, so that help is quick.
`registered` finds the commands of other packages, which use the names below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym._imports import lazy_names

if TYPE_CHECKING:
    from agentgym.cli.console import out, resumable
    from agentgym.cli.fields import Fields, takes
    from agentgym.cli.options import judging_options, unhurried
    from agentgym.cli.rollout_options import RolloutOptions
    from agentgym.cli.task_offer import OfferOptions, offer_tasks
    from agentgym.cli.user_code import Import

_HOME = {
    "Fields": "fields",
    "Import": "user_code",
    "OfferOptions": "task_offer",
    "RolloutOptions": "rollout_options",
    "judging_options": "options",
    "offer_tasks": "task_offer",
    "out": "console",
    "resumable": "console",
    "takes": "fields",
    "unhurried": "options",
}

__all__ = [
    "Fields",
    "Import",
    "OfferOptions",
    "RolloutOptions",
    "judging_options",
    "offer_tasks",
    "out",
    "resumable",
    "takes",
    "unhurried",
]


__getattr__ = lazy_names(__name__, _HOME)


def main() -> None:
    """Run the `agentgym` command."""
    from agentgym.cli.app import app
    from agentgym.cli.console import show_our_warnings

    show_our_warnings()
    app()
