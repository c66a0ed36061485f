"""Tasks that a command offers to other programs: the checks, setup and cleanup shared by such commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, fields
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.console import out
from agentgym.cli.fields import Fields
from agentgym.cli.options import JUDGING, rollout_options, split_tasks, unhurried
from agentgym.text import counted

if TYPE_CHECKING:
    import socket

    from agentgym.rollout.config import RolloutConfig
    from agentgym.storage import Ledger
    from agentgym.task.definition import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Where a server listens, and which clients it accepts."""

    token_file: Path | None = None
    """A file of tokens, one a line. It is written, with one token, if it does not exist."""
    host: str = "127.0.0.1"
    """The address to listen on. Only this machine can reach 127.0.0.1."""
    port: Annotated[int, typer.Option(min=0, max=65535)] = 0
    """The port to listen at; 0 takes any free one."""


@dataclass(frozen=True, slots=True)
class TaskOffer:
    """Tasks that a server of this process offers."""

    task_set: str
    """The name of the task set."""
    split: str
    """The split that is on offer."""
    tasks: Sequence[Task]
    """The tasks of the split."""
    config: RolloutConfig
    """How their episodes are played."""
    tokens: Sequence[str]
    """The accepted tokens, one of which a client must send. If empty, no token is needed."""
    listening: socket.socket
    """The socket at which the server answers."""
    ledger: Ledger | None
    """The ledger that keeps the episodes; None where they are not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferOptions(ListenOptions):
    """Which tasks a server offers, where it listens, and where the episodes are kept."""

    token_file: Path | None = None
    """A file of tokens, written if it does not exist. Without it no token is asked for."""
    tasks: Annotated[str, typer.Argument(metavar="SET[:SPLIT]")]
    """The task set on offer, with its split; the split is train by default."""
    folder: Annotated[Path | None, typer.Option("--out", metavar="DIR")] = None
    """Keep the episodes in DIR/ledger.sqlite."""
    episodes: Any = dataclass_field(default_factory=lambda: rollout_options()())
    """How single episodes are seeded and judged, and where: RolloutOptions, whose import takes a while."""

    @classmethod
    def at_port(cls, port: int) -> Fields:
        """Return the options of a command that listens at this port by default."""
        names = (*(field.name for field in fields(cls) if field.name != "episodes"), *JUDGING)
        return Fields(cls, names, {"port": port})

    @contextmanager
    def open(self) -> Iterator[TaskOffer]:
        """Load tasks, read the clients' tokens, listen, and print the address. Close the ledger after the block.

        Raises: AccessRefused if other hosts reach this one and no file of tokens is given; what `load_task_set` raises.
        """
        from agentgym import registry
        from agentgym.cluster.serving import is_loopback, listen
        from agentgym.cluster.tokens import server_tokens
        from agentgym.errors import AccessRefused
        from agentgym.storage import Ledger, RunFolder

        host, token_file, folder = self.host, self.token_file, self.folder
        if token_file is None and not is_loopback(host):
            raise AccessRefused(
                f"Other machines can reach {host}, so a token is required. Give --token-file FILE, which is written if "
                "it does not exist."
            )
        name, split = split_tasks(self.tasks, "train")
        config = unhurried(self.episodes.make_config())
        offered = registry.load_task_set(name)[split]
        tokens = server_tokens(token_file) if token_file is not None else ()
        listening = listen(host, self.port)
        with closing(Ledger(RunFolder(folder).create().ledger)) if folder else nullcontext() as ledger:
            address = f"http://{host}:{listening.getsockname()[1]}"
            out().print(
                f"Serving {counted(len(offered), 'task')} at {address} Ctrl-C ends this.", markup=False, soft_wrap=True
            )
            yield TaskOffer(name, split, offered, config, tokens, listening, ledger)
