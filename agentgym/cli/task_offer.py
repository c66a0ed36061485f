"""Tasks that a command offers to other programs: the checks, setup and cleanup shared by such commands."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.console import err, out, run
from agentgym.cli.fields import Fields
from agentgym.cli.options import JUDGING, check_sandboxes, one_task, rollout_options, split_tasks, unhurried
from agentgym.cli.run_ledger import new_ledger
from agentgym.text import counted

if TYPE_CHECKING:
    import socket

    from agentgym.rollout.config import RolloutConfig
    from agentgym.storage import Ledger
    from agentgym.task.definition import Task
    from agentgym.trajectory.record import Trajectory


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

    def serve(self, make_application: Callable[[Callable[[object], None]], Any], *, connections: int) -> None:
        """Serve an ASGI application until the process is interrupted or told to end.

        Args:
            make_application: makes the application from a function, which the application calls with the address of
                each connection on which it accepted a request. Other connections are closed soon.
            connections: the maximum number of connections at once.
        Raises: MissingExtraError without the extra `serve`.
        """
        from agentgym.cluster.serving import FIRST_REQUEST_S, check_installed, serve_application

        check_installed()
        from agentgym.cluster.connections import Connections

        bounded = Connections(connections, FIRST_REQUEST_S)
        serve_application(make_application(bounded.accept), self.listening, bounded)

    def show(self, trajectory: Trajectory) -> None:
        """Print how an episode ended."""
        _show_outcome(trajectory)


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
    """The seed, reward and backend of single episodes, as RolloutOptions, whose import takes a while."""

    @classmethod
    def at_port(cls, port: int) -> Fields:
        """Return the options of a command that listens at this port by default."""
        return _with_judging(cls, {"port": port})

    @contextmanager
    def open(self) -> Iterator[TaskOffer]:
        """Load tasks, read the clients' tokens, listen, and print the address. Close the ledger after the block.

        Raises: AccessRefused if other hosts reach this one and no file of tokens is given; what `load_task_set` raises.
        """
        from agentgym import registry
        from agentgym.cluster.serving import is_loopback, listen
        from agentgym.cluster.tokens import server_tokens
        from agentgym.errors import AccessRefused

        host, token_file, folder = self.host, self.token_file, self.folder
        if token_file is None and not is_loopback(host):
            raise AccessRefused(
                f"Other machines can reach {host}, so a token is required. Give --token-file FILE, which is written if "
                "it does not exist."
            )
        name, split = split_tasks(self.tasks, "train")
        config = unhurried(self.episodes.make_config())
        offered = registry.load_task_set(name)[split]
        check_sandboxes(offered, config)
        tokens = server_tokens(token_file) if token_file is not None else ()
        listening = listen(host, self.port)
        with new_ledger(folder) as ledger:
            address = f"http://{host}:{listening.getsockname()[1]}"
            out().print(
                f"Serving {counted(len(offered), 'task')} at {address} Ctrl-C ends this.", markup=False, soft_wrap=True
            )
            yield TaskOffer(name, split, offered, config, tokens, listening, ledger)


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
    episodes: Any = dataclass_field(default_factory=lambda: rollout_options()())
    """How the episode is seeded and judged, and where: RolloutOptions, whose import takes a while."""

    @classmethod
    def options(cls) -> Fields:
        """Return the options of a command that offers one task."""
        return _with_judging(cls)

    def play(self, offer: Callable[[Task, RolloutConfig, Ledger | None], Coroutine[Any, Any, Trajectory]]) -> None:
        """Offer the task, and print how its episode ended.

        Args:
            offer: offers a task, whose episode has a config and is kept in a ledger if there is one.
        Raises: TaskError naming the available tasks; what `load_task_set` and `offer` raise.
        """
        from agentgym import registry

        name, split = split_tasks(self.tasks, "train")
        task = one_task(registry.load_task_set(name), split, self.index, self.task_id)
        config = unhurried(self.episodes.make_config())
        check_sandboxes([task], config)
        with new_ledger(self.folder) as ledger:
            trajectory = run(offer(task, config, ledger))
        _show_outcome(trajectory)


def _with_judging(cls: type, defaults: Mapping[str, Any] = {}) -> Fields:
    """Return the options for the fields of a class, with those of judging in place of its field `episodes`."""
    return Fields(cls, (*(field.name for field in fields(cls) if field.name != "episodes"), *JUDGING), dict(defaults))


def _show_outcome(trajectory: Trajectory) -> None:
    """Print a line that says how an offered episode ended to standard error."""
    outcome = "  ".join(f"{part} {value:+.3g}" for part, value in trajectory.outcome.items())
    stop = trajectory.stop_reason.value if trajectory.stop_reason else "not finished"
    turns = counted(len(trajectory.turns), "turn")
    line = f"{trajectory.task.id}: {stop} after {turns}: {outcome or trajectory.error}"
    err().print(line, markup=False, soft_wrap=True)
