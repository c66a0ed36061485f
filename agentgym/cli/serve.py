"""`agentgym serve`: let other hosts and other programs play in environments that run here."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import err, out, run
from agentgym.cli.fields import Fields, FieldsCommand, takes
from agentgym.cli.options import backend_option, judging_options, one_task, rollout_options, split_tasks, unhurried
from agentgym.cli.policies import AgentOptions
from agentgym.cli.rollout import ORACLE, KeepOptions, play_and_keep
from agentgym.cli.run_ledger import new_ledger
from agentgym.cli.task_offer import ListenOptions, OfferOptions
from agentgym.cli.user_code import Import
from agentgym.text import counted

if TYPE_CHECKING:
    from agentgym.cli.rollout_options import RolloutOptions
    from agentgym.cluster.served_episodes import ServerLimits
    from agentgym.trajectory.record import Trajectory

app = typer.Typer(no_args_is_help=True, help="Serve environments to other hosts and programs.")


@app.callback()
def _serve() -> None:
    """Serve environments to other hosts and programs."""


def _limit_options() -> Fields:
    from agentgym.cluster.served_episodes import ServerLimits

    names = {
        "max_episodes": "episodes",
        "per_token": "episodes_per_token",
        "lease_s": "lease_s",
        "max_connections": "connections",
    }
    return Fields(ServerLimits, names)


@app.command("environments", cls=FieldsCommand)
@takes(listening=Fields(ListenOptions, defaults={"port": 8650}), limits=_limit_options, options=backend_option)
def environments(
    listening: ListenOptions,
    limits: ServerLimits,
    options: RolloutOptions,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENVIRONMENTS]...", help="Registered ids; by default all that run on this host."),
    ] = None,
    allow_options: Annotated[
        bool, typer.Option("--allow-options", help="Let clients give options to the constructors of environments.")
    ] = False,
    modules: Import = None,
) -> None:
    """Run environments here for policies that run elsewhere. The tasks' truths and the rewards stay with the clients.

    A client gives the address of an environment, or of the server, instead of an id. It has the token in the variable
    AGENTGYM_ENVIRONMENT_TOKEN, or in the file that AGENTGYM_ENVIRONMENT_TOKEN_FILE names.

    Example: agentgym serve environments agentgym/sql-v1 --token-file token
    """
    from agentgym import registry
    from agentgym.cluster.serving import check_installed, listen, serve_environments
    from agentgym.cluster.tokens import server_tokens

    check_installed()
    for name in names or ():
        registry.load("environments", name)
    served = names or _available()
    tokens, host = server_tokens(listening.token_file), listening.host
    socket = listen(host, listening.port)
    _warn_if_unencrypted(host)
    address = f"http://{host}:{socket.getsockname()[1]}/"
    out().print(
        f"Serving {counted(len(served), 'environment')} at {address} Ctrl-C ends this.", markup=False, soft_wrap=True
    )
    with suppress(KeyboardInterrupt):  # the usual way to end it
        serve_environments(
            served, tokens, socket, limits, backend=options.config.backend, options_allowed=allow_options
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTask:
    """The task that is offered, and the folder that keeps its episode."""

    tasks: Annotated[str, typer.Argument(metavar="SET[:SPLIT]")]
    """The task set of the task, with its split; the split is train by default."""
    index: Annotated[int, typer.Option(min=0)] = 0
    """The number of the task in the split, from 0."""
    task_id: Annotated[str | None, typer.Option("--task", metavar="ID")] = None
    """The id of the task, instead of its number."""
    folder: Annotated[Path | None, typer.Option("--out", metavar="DIR")] = None
    """Keep the episode in DIR/ledger.sqlite."""


@app.command("mcp", cls=FieldsCommand)
@takes(offered=OfferedTask, options=judging_options)
def mcp(offered: OfferedTask, options: RolloutOptions, modules: Import = None) -> None:
    """Offer one episode as an MCP server on standard input and output: to any program that knows MCP.

    The task is the server's `instructions`, the environment's tools are its tools, and each call is a turn. The episode
    is judged when it ends; its outcome is printed to standard error. If the client leaves earlier, the episode fails.

    Example: agentgym serve mcp sql/store-v1:train --index 3 --out runs/offered
    """
    from agentgym import registry
    from agentgym.interop.mcp.episode_server import serve_on_stdio

    name, split = split_tasks(offered.tasks, "train")
    task = one_task(registry.load_task_set(name), split, offered.index, offered.task_id)
    config, folder = unhurried(options.make_config()), offered.folder
    with new_ledger(folder) as ledger:
        trajectory = run(serve_on_stdio(task, config, ledger))
    err().print(outcome_line(trajectory), markup=False, soft_wrap=True)


def outcome_line(trajectory: Trajectory) -> str:
    """Return a line that says how an episode ended."""
    outcome = "  ".join(f"{part} {value:+.3g}" for part, value in trajectory.outcome.items())
    stop = trajectory.stop_reason.value if trajectory.stop_reason else "not finished"
    return f"{trajectory.task.id}: {stop} after {counted(len(trajectory.turns), 'turn')}: {outcome or trajectory.error}"


@app.command("mcp-http", cls=FieldsCommand)
@takes(offered=OfferOptions.at_port(8652))
def mcp_http(
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
    from agentgym.cluster.serving import FIRST_REQUEST_S, check_installed, serve_application

    check_installed()
    from agentgym.cluster.connections import Connections
    from agentgym.interop.mcp.http import HttpAccess, HttpBounds, McpHttpServer

    connections = Connections(4 * max_episodes + 64, FIRST_REQUEST_S)
    with offered.open() as offer:
        server = McpHttpServer(
            offer.tasks,
            offer.config,
            offer.ledger,
            access=HttpAccess(offered.host, offer.tokens),
            bounds=HttpBounds(max_episodes, idle_s),
            ended=lambda trajectory: err().print(outcome_line(trajectory), markup=False, soft_wrap=True),
            accepted=connections.accept,
        )
        serve_application(server.application(), offer.listening, connections)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyService(ListenOptions):
    """The tasks that are served to programs, and where the server listens."""

    tasks: Annotated[str, typer.Argument(metavar="SET[:SPLIT]")]
    """The task set, with its split; the split is train by default."""
    limit: Annotated[int | None, typer.Option(min=1)] = None
    """Play only this many tasks, the same ones every time."""
    silence_s: Annotated[float, typer.Option(min=0.1)] = 120.0
    """End an episode that gets no request for this many seconds."""


@app.command("policy", cls=FieldsCommand)
@takes(
    service=Fields(PolicyService, defaults={"port": 8651}),
    output=Fields(KeepOptions, defaults={"label": "served"}),
    agent=ORACLE,
    options=rollout_options,
)
def policy(
    service: PolicyService, output: KeepOptions, agent: AgentOptions, options: RolloutOptions, modules: Import = None
) -> None:
    """Answer agent programs like a model's API: by chat completions, responses and Anthropic's messages.

    A program takes an episode by `POST /episodes` with a token of the file. It gets the task and the token of this
    episode, with which it asks for messages and calls the environment's tools. The command ends after the last task.

    Example: agentgym serve policy sql/store-v1:train --policy runs/sql --token-file token --out runs/served
    """
    from agentgym.cluster.tokens import server_tokens
    from agentgym.interop.gateway.gateway import PolicyGateway

    config, host = options.make_config(), service.host
    _warn_if_unencrypted(host)
    tokens = server_tokens(service.token_file)
    gateway = PolicyGateway(tokens=tokens, host=host, port=service.port, silence_s=service.silence_s)
    out().print(f"Serving the policy at {gateway.listen()} Ctrl-C ends this.", markup=False, soft_wrap=True)
    with closing(gateway):
        tasks = split_tasks(service.tasks, "train")
        play_and_keep(replace(config, engine=gateway), tasks, agent, service.limit, output)


def _warn_if_unencrypted(host: str) -> None:
    from agentgym.cluster.serving import is_loopback

    if not is_loopback(host):
        err().print(
            "Tokens and episodes travel unencrypted. Listen at 127.0.0.1 and tunnel (ssh -L), or put a proxy with TLS "
            "in front, unless every host of this network is trusted.",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )


def _available() -> list[str]:
    """Return the registered environments that this host can run."""
    from agentgym import registry
    from agentgym.errors import AgentGymError

    available = []
    for name in registry.names("environments"):
        with suppress(AgentGymError, TypeError):  # an extra is missing, or the factory needs options
            if not registry.prototype(name).unavailable_reason():
                available.append(name)
    return available
