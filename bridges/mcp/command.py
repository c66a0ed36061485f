"""`agentgym serve mcp` and `agentgym serve mcp-http`: our tasks for the clients of MCP."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Annotated, Any

import typer

from agentgym.cli import Import, OfferedTask, OfferOptions, takes


@takes(offered=OfferedTask.options())
def serve_episode(offered: OfferedTask, modules: Import = None) -> None:
    """Offer one episode as an MCP server on standard input and output: to any program that knows MCP.

    The task is the server's `instructions`, the environment's tools are its tools, and each call is a turn. The episode
    is judged when it ends; its outcome is printed to standard error. If the client leaves earlier, the episode fails.

    Example: agentgym serve mcp sql/store-v1:train --index 3 --out runs/offered
    """
    from .episode_server import serve_on_stdio

    offered.play(serve_on_stdio)


@takes(offered=OfferOptions.at_port(8652))
def serve_tasks(
    offered: OfferOptions,
    max_episodes: Annotated[
        int, typer.Option(min=1, help="Episodes that may be open at the same time. A further one is refused.")
    ] = 64,
    idle_s: Annotated[
        float, typer.Option(min=0.1, help="An episode that is silent for this many seconds ends.")
    ] = 900.0,
    modules: Import = None,
) -> None:
    """Offer tasks as MCP servers over HTTP: an episode for each client, judged here.

    A client connects to /tasks/ID/mcp, and each handshake there begins an episode. A client without sessions needs the
    URL of an episode: POST /episodes returns one, and DELETE on it ends the episode and returns the outcome.

    Example: agentgym serve mcp-http sql/store-v1:train --out runs/offered
    """
    from agentgym import MissingExtraError, install_command

    if find_spec("starlette") is None:
        raise MissingExtraError(
            f"An MCP server over HTTP needs the package starlette, which is not installed. Run: "
            f"{install_command('serve')}"
        )
    from .http import HttpAccess, HttpBounds, McpHttpServer

    with offered.open() as offer:

        def application(accepted: Callable[[object], None]) -> Any:
            return McpHttpServer(
                offer.tasks,
                offer.config,
                offer.ledger,
                access=HttpAccess(offered.host, offer.tokens),
                bounds=HttpBounds(max_episodes, idle_s),
                ended=offer.show,
                accepted=accepted,
            ).application()

        offer.serve(application, connections=4 * max_episodes + 64)
