"""`agentgym serve environments`: let other hosts play in environments that live here."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli.console import err, out
from agentgym.cli.options import BackendName
from agentgym.cli.user_code import Import

app = typer.Typer(no_args_is_help=True, help="Serve environments to other hosts.")


@app.callback()
def _serve() -> None:
    """Serve environments to other hosts."""


@app.command("environments")
def environments(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENVIRONMENTS]...", help="Registered ids; by default all that run on this host."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file of tokens, one a line. It is written, with one, if it does not exist."),
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen. Only this machine reaches 127.0.0.1.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 8650,
    max_episodes: Annotated[int, typer.Option(min=1, help="Open at once. Whoever wants one more waits.")] = 64,
    per_token: Annotated[
        int | None, typer.Option(min=1, help="Episodes open at once of the clients with one token.")
    ] = None,
    lease_s: Annotated[
        float, typer.Option(min=0.1, help="An episode whose client was silent for so many seconds is closed.")
    ] = 60.0,
    max_connections: Annotated[int, typer.Option(min=8, help="Open at once, all clients together.")] = 2048,
    backend: BackendName = None,
    allow_options: Annotated[
        bool, typer.Option("--allow-options", help="Let clients give options to the constructors of environments.")
    ] = False,
    modules: Import = None,
) -> None:
    """Run environments here for policies that run elsewhere. The tasks' truths and the rewards stay with the clients.

    A client gives the address of an environment, or of the server, instead of an id. It has the token in the variable
    AGENTGYM_ENVIRONMENT_TOKEN, or in the file that AGENTGYM_ENVIRONMENT_TOKEN_FILE names.

    Example: [b]agentgym serve environments agentgym/sql-v1 --token-file token[/b]
    """
    from agentgym import registry
    from agentgym.cluster.served_episodes import ServerLimits
    from agentgym.cluster.serving import check_installed, is_loopback, listen, serve_environments
    from agentgym.cluster.tokens import server_tokens

    check_installed()
    for name in names or ():
        registry.load("environments", name)
    served = names or _available()
    tokens = server_tokens(token_file)
    limits = ServerLimits(
        episodes=max_episodes, episodes_per_token=per_token, lease_s=lease_s, connections=max_connections
    )
    listening = listen(host, port)
    if not is_loopback(host):
        err().print(
            "Tokens and episodes travel unencrypted. Listen at 127.0.0.1 and tunnel (ssh -L), or put a proxy with TLS "
            "in front, unless every host of this network is trusted.",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
    address = f"http://{host}:{listening.getsockname()[1]}/"
    out().print(f"Serving {len(served)} environment(s) at {address} Ctrl-C ends this.", markup=False, soft_wrap=True)
    with suppress(KeyboardInterrupt):  # how one ends it
        serve_environments(served, tokens, listening, limits, backend=backend, options_allowed=allow_options)


def _available() -> list[str]:
    """The registered environments that this host can run."""
    from agentgym import registry
    from agentgym.errors import AgentGymError

    available = []
    for name in registry.names("environments"):
        with suppress(AgentGymError, TypeError):  # an extra is missing, or its factory wants options
            if not registry.prototype(name).unavailable_reason():
                available.append(name)
    return available
