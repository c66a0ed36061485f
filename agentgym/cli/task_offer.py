"""Tasks that a command offers to other programs: what each such command checks, opens and closes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.cli.console import out
from agentgym.cli.options import split_tasks

if TYPE_CHECKING:
    import socket

    from agentgym.rollout import RolloutConfig
    from agentgym.storage import Ledger
    from agentgym.task import Task


@dataclass(frozen=True, slots=True)
class TaskOffer:
    """Tasks that a server of this process offers.

    Attributes:
        task_set: name of the task set.
        split: its split that is on offer.
        tasks: the tasks of the split.
        config: how their episodes are played.
        tokens: a client has one of these; none is asked for where there are none.
        listening: the socket at which the server answers.
        ledger: keeps the episodes; None where nobody asked for that.
    """

    task_set: str
    split: str
    tasks: Sequence[Task]
    config: RolloutConfig
    tokens: Sequence[str]
    listening: socket.socket
    ledger: Ledger | None


@contextmanager
def offer_tasks(
    tasks: str, config: RolloutConfig, *, host: str, port: int, token_file: Path | None, folder: Path | None
) -> Iterator[TaskOffer]:
    """Load tasks, read the tokens of the clients, listen, and say where. The ledger is closed with the block.

    Args:
        tasks: `SET` or `SET:SPLIT`; without a split those of training.
        config: how the episodes are played.
        host: where to listen.
        port: 0 takes any free one.
        token_file: holds a token a line; it is written if it does not exist.
        folder: keeps the episodes in its ledger.
    Raises: AccessRefused if other hosts reach this one and no file of tokens is given; what `load_task_set` raises.
    """
    from agentgym import registry
    from agentgym.cluster.serving import is_loopback, listen
    from agentgym.cluster.tokens import server_tokens
    from agentgym.errors import AccessRefused
    from agentgym.storage import Ledger, RunFolder

    if token_file is None and not is_loopback(host):
        raise AccessRefused(f"Others reach {host}: give --token-file FILE, which is written if it does not exist.")
    name, split = split_tasks(tasks, "train")
    offered = registry.load_task_set(name)[split]
    tokens = server_tokens(token_file) if token_file is not None else ()
    listening = listen(host, port)
    with closing(Ledger(RunFolder(folder).create().ledger)) if folder else nullcontext() as ledger:
        address = f"http://{host}:{listening.getsockname()[1]}"
        out().print(f"Serving {len(offered)} tasks at {address} Ctrl-C ends this.", markup=False, soft_wrap=True)
        yield TaskOffer(name, split, offered, config, tokens, listening, ledger)
