"""`agentgym serve openenv`: tasks of ours for the clients of OpenEnv."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli import Import, OfferOptions, takes


@takes(offered=OfferOptions.at_port(8000))
def openenv(
    offered: OfferOptions,
    max_sessions: Annotated[
        int, typer.Option(min=1, help="Sessions that may be open at the same time. A further one is refused.")
    ] = 64,
    idle_s: Annotated[
        float, typer.Option(min=0.1, help="A session that is silent for this many seconds ends.")
    ] = 900.0,
    manifest: Annotated[Path | None, typer.Option(metavar="DIR", help="Write DIR/openenv.yaml first.")] = None,
    modules: Import = None,
) -> None:
    """Offer tasks to the clients of OpenEnv. Each session plays its own episodes; they are judged here.

    A reset chooses a task by `task_id` or `index`, else by its seed.

    Example: agentgym serve openenv text/wordle-v1:train --port 8000
    """
    import os
    import time
    from importlib.util import find_spec

    from agentgym import MissingExtraError, install_command

    if find_spec("aiohttp") is None:
        raise MissingExtraError(
            f"An OpenEnv server needs the package aiohttp, which is not installed. Run: {install_command('openenv')}"
        )
    from .server import OpenEnvServer, ServerBounds, serve_openenv, write_manifest
    from .session import OfferedTasks

    label = f"openenv-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    with offered.open() as offer:
        public_name = offer.task_set.replace("/", "-")
        if manifest is not None:
            write_manifest(manifest, public_name, offered.port)
        episodes = OfferedTasks(public_name, offer.split, offer.tasks, offer.config, label, offer.ledger)
        serve_openenv(OpenEnvServer(episodes, ServerBounds(max_sessions, idle_s), offer.tokens), offer.listening)
