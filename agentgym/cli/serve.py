"""`agentgym serve`: let other hosts and other programs play in environments that run here."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import err, out
from agentgym.cli.fields import Fields, FieldsCommand, takes
from agentgym.cli.options import backend_option, rollout_options, split_tasks
from agentgym.cli.policies import AgentOptions
from agentgym.cli.rollout import ORACLE, KeepOptions, play_and_keep
from agentgym.cli.task_offer import ListenOptions
from agentgym.cli.user_code import Import
from agentgym.text import counted

if TYPE_CHECKING:
    from agentgym.cli.rollout_options import RolloutOptions
    from agentgym.cluster.served_episodes import ServerLimits

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
    from agentgym.rollout.sandbox_check import check_enforced

    check_installed()
    for name in names or ():
        registry.load("environments", name)
    served = names or _available()
    asyncio.run(check_enforced(served, options.make_config()))
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
