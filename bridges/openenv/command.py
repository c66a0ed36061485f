"""`agentgym serve openenv`: tasks of ours for the clients of OpenEnv."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli import BackendName, Import, RewardName, Seed, offer_tasks, unhurried_config


def openenv(
    tasks: Annotated[str, typer.Argument(metavar="SET[:SPLIT]", help="What a reset may choose; train by default.")],
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file of tokens, written if it does not exist; without one, none is asked for."),
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen. Only this machine reaches 127.0.0.1.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 8000,
    max_sessions: Annotated[int, typer.Option(min=1, help="Open at once. Whoever wants one more is refused.")] = 64,
    idle_s: Annotated[float, typer.Option(min=0.1, help="A session that is silent for so many seconds ends.")] = 900.0,
    manifest: Annotated[Path | None, typer.Option(metavar="DIR", help="Write DIR/openenv.yaml first.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep the episodes in DIR/ledger.sqlite.")
    ] = None,
    seed: Seed = 0,
    reward: RewardName = None,
    backend: BackendName = None,
    modules: Import = None,
) -> None:
    """Offer tasks to the clients of OpenEnv. Each session plays its own episodes; they are judged here.

    A reset chooses a task by `task_id` or `index`, else by its seed.

    Example: [b]agentgym serve openenv text/wordle-v1:train --port 8000[/b]
    """
    import os
    import time
    from importlib.util import find_spec

    from agentgym import MissingExtraError, install_command

    if find_spec("aiohttp") is None:
        raise MissingExtraError(
            f"An OpenEnv server needs aiohttp, which is not installed. Run: {install_command('openenv')}"
        )
    from .server import OpenEnvServer, ServerBounds, serve_openenv, write_manifest
    from .session import OfferedTasks

    config = unhurried_config(reward=reward, backend=backend, seed=seed)
    label = f"openenv-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    with offer_tasks(tasks, config, host=host, port=port, token_file=token_file, folder=folder) as offer:
        public_name = offer.task_set.replace("/", "-")
        if manifest is not None:
            write_manifest(manifest, public_name, port)
        offered = OfferedTasks(public_name, offer.split, offer.tasks, config, label, offer.ledger)
        serve_openenv(OpenEnvServer(offered, ServerBounds(max_sessions, idle_s), offer.tokens), offer.listening)
