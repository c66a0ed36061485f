"""`agentgym serve`: let other hosts, and other programs, play in environments that live here."""

from __future__ import annotations

from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import err, out
from agentgym.cli.options import (
    BackendName,
    Limit,
    RewardName,
    Seed,
    one_task,
    split_tasks,
    takes_rollout_config,
    unhurried_config,
)
from agentgym.cli.policies import ApiKeyEnv, CallFormat, Device, PolicyOptions, load_policy
from agentgym.cli.task_offer import offer_tasks
from agentgym.cli.user_code import Import

if TYPE_CHECKING:
    from agentgym.rollout import RolloutConfig
    from agentgym.trajectory import Trajectory

app = typer.Typer(no_args_is_help=True, help="Serve environments to other hosts and programs.")


@app.callback()
def _serve() -> None:
    """Serve environments to other hosts and programs."""


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
    from agentgym.cluster.serving import check_installed, listen, serve_environments
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
    _warn_if_unencrypted(host)
    address = f"http://{host}:{listening.getsockname()[1]}/"
    out().print(f"Serving {len(served)} environment(s) at {address} Ctrl-C ends this.", markup=False, soft_wrap=True)
    with suppress(KeyboardInterrupt):  # how one ends it
        serve_environments(served, tokens, listening, limits, backend=backend, options_allowed=allow_options)


@app.command("mcp")
def mcp(
    tasks: Annotated[str, typer.Argument(metavar="SET[:SPLIT]", help="Where the task comes from; train by default.")],
    index: Annotated[int, typer.Option(min=0, help="Which task of the split.")] = 0,
    task_id: Annotated[str | None, typer.Option("--task", metavar="ID", help="Which task, by its id.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep the episode in DIR/ledger.sqlite.")
    ] = None,
    seed: Seed = 0,
    reward: RewardName = None,
    backend: BackendName = None,
    modules: Import = None,
) -> None:
    """Offer one episode as an MCP server on standard input and output: to any program that knows MCP.

    The task is the server's `instructions`, the environment's tools are its tools, and each call is a turn. The episode
    is judged when it ends; its outcome is printed to standard error. A client that leaves before has failed it.

    Example: [b]agentgym serve mcp sql/store-v1:train --index 3 --out runs/offered[/b]
    """
    from agentgym import registry
    from agentgym.cli.console import run
    from agentgym.interop.mcp.stdio import serve_on_stdio
    from agentgym.storage.ledger import Ledger
    from agentgym.storage.run_folder import RunFolder

    name, split = split_tasks(tasks, "train")
    task = one_task(registry.load_task_set(name), split, index, task_id)
    config = unhurried_config(reward=reward, backend=backend, seed=seed)
    with closing(Ledger(RunFolder(folder).create().ledger)) if folder else nullcontext() as ledger:
        trajectory = run(serve_on_stdio(task, config, ledger))
    err().print(outcome_line(trajectory), markup=False, soft_wrap=True)


def outcome_line(trajectory: Trajectory) -> str:
    """How an episode ended, in a line."""
    outcome = "  ".join(f"{part} {value:+.3g}" for part, value in trajectory.outcome.items())
    stop = trajectory.stop_reason.value if trajectory.stop_reason else "not finished"
    return f"{trajectory.task.id}: {stop} after {len(trajectory.turns)} turns: {outcome or trajectory.error}"


@app.command("mcp-http")
def mcp_http(
    tasks: Annotated[str, typer.Argument(metavar="SET[:SPLIT]", help="The tasks on offer; train by default.")],
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file of tokens, written if it does not exist; without one, none is asked for."),
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen. Only this machine reaches 127.0.0.1.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 8652,
    max_episodes: Annotated[int, typer.Option(min=1, help="Open at once. Whoever wants one more is refused.")] = 64,
    idle_s: Annotated[float, typer.Option(min=0.1, help="An episode that is silent for so many seconds ends.")] = 900.0,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep the episodes in DIR/ledger.sqlite.")
    ] = None,
    seed: Seed = 0,
    reward: RewardName = None,
    backend: BackendName = None,
    modules: Import = None,
) -> None:
    """Offer tasks as MCP servers over HTTP: an episode for each client, judged here.

    A client connects to /tasks/ID/mcp, and each handshake there begins an episode. One that knows no sessions is given
    the URL of an episode: POST /episodes answers one, DELETE on it ends the episode and answers the outcome.

    Example: [b]agentgym serve mcp-http sql/store-v1:train --out runs/offered[/b]
    """
    from agentgym.cluster.serving import FIRST_REQUEST_S, check_installed, serve_application

    check_installed()
    from agentgym.cluster.connections import Connections
    from agentgym.interop.mcp.http import HttpBounds, McpHttpServer

    config = unhurried_config(reward=reward, backend=backend, seed=seed)
    connections = Connections(4 * max_episodes + 64, FIRST_REQUEST_S)
    with offer_tasks(tasks, config, host=host, port=port, token_file=token_file, folder=folder) as offer:
        server = McpHttpServer(
            offer.tasks,
            config,
            offer.ledger,
            host=host,
            tokens=offer.tokens,
            bounds=HttpBounds(max_episodes, idle_s),
            ended=lambda trajectory: err().print(outcome_line(trajectory), markup=False, soft_wrap=True),
            accepted=connections.accept,
        )
        serve_application(server.application(), offer.listening, connections)


@app.command("policy")
@takes_rollout_config
def policy(
    config: RolloutConfig,
    tasks: Annotated[str, typer.Argument(metavar="SET[:SPLIT]", help="The tasks; of the training split by default.")],
    policy_name: Annotated[str, typer.Option("--policy", help="Who answers; as for `agentgym rollout`.")] = "oracle",
    limit: Limit = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep the episodes in DIR/ledger.sqlite, and resume.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file of tokens, one a line. It is written, with one, if it does not exist."),
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen. Only this machine reaches 127.0.0.1.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free one.")] = 8651,
    silence_s: Annotated[
        float, typer.Option(min=0.1, help="An episode in which nothing is asked for so many seconds is ended.")
    ] = 120.0,
    call_format: CallFormat = None,
    api_key_env: ApiKeyEnv = None,
    policy_options: PolicyOptions = None,
    device: Device = "auto",
    label: Annotated[str, typer.Option(help="Begins the id of every episode.")] = "served",
    modules: Import = None,
) -> None:
    """Answer agent programs as a model would: over chat completions, responses and Anthropic's messages.

    A program takes an episode by `POST /episodes` with a token of the file. It gets the task and the token of this
    episode, with which it asks for messages and calls the environment's tools. The command ends when all are played.

    Example: [b]agentgym serve policy sql/store-v1:train --policy runs/sql --token-file token --out runs/served[/b]
    """
    from agentgym.cli.rollout import play_and_keep
    from agentgym.cluster.tokens import server_tokens
    from agentgym.interop.gateway import PolicyGateway

    _warn_if_unencrypted(host)
    gateway = PolicyGateway(tokens=server_tokens(token_file), host=host, port=port, silence_s=silence_s)
    out().print(f"Serving the policy at {gateway.listen()} Ctrl-C ends this.", markup=False, soft_wrap=True)
    load = partial(
        load_policy, policy_name, call_format=call_format, api_key_env=api_key_env, device=device, pairs=policy_options
    )
    with closing(gateway):
        play_and_keep(replace(config, engine=gateway), split_tasks(tasks, "train"), load, limit, folder, label)


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
    """The registered environments that this host can run."""
    from agentgym import registry
    from agentgym.errors import AgentGymError

    available = []
    for name in registry.names("environments"):
        with suppress(AgentGymError, TypeError):  # an extra is missing, or its factory wants options
            if not registry.prototype(name).unavailable_reason():
                available.append(name)
    return available
