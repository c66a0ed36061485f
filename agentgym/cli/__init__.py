"""The command line. `app` lists the commands; each command or group of commands has its own module.

`options` has shared options, `policies` reads a --policy argument, `user_code` imports --import modules, `human` lets a
person play, `console` and `tables` print. Heavy modules are imported inside the commands, so that help is quick.
`registered` finds the commands of other packages, which use the names below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names

if TYPE_CHECKING:
    from agentgym.cli.console import err, out, progress_bar, resumable, run
    from agentgym.cli.fields import takes
    from agentgym.cli.policies import load_policy
    from agentgym.cli.task_offer import OfferedTask, OfferOptions
    from agentgym.cli.user_code import Import

_HOME = {
    "Import": "user_code",
    "OfferOptions": "task_offer",
    "OfferedTask": "task_offer",
    "err": "console",
    "load_policy": "policies",
    "out": "console",
    "progress_bar": "console",
    "resumable": "console",
    "run": "console",
    "takes": "fields",
}

__all__ = [
    "Import",
    "OfferOptions",
    "OfferedTask",
    "err",
    "load_policy",
    "out",
    "progress_bar",
    "resumable",
    "run",
    "takes",
]


__getattr__ = lazy_names(__name__, _HOME)


def main() -> None:
    """Run the `agentgym` command."""
    from agentgym.cli.termination import leaving_at_once

    with leaving_at_once():
        from agentgym.cli.app import app
        from agentgym.cli.console import show_our_warnings

        show_our_warnings()
        app()
