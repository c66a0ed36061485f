"""The limits of a sandbox. A backend enforces each of them, or refuses to create the sandbox."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

from agentgym.deprecation import renamed_keywords
from agentgym.errors import LimitUnenforceable, SandboxError, UnknownNameError
from agentgym.sandbox.allow_list import AllowList

LIMITS = {
    "wall": "seconds a call may take; at its end everything it started is killed",
    "memory": "memory of all processes together",
    "processes": "processes and threads alive at once",
    "cpu": "share of processor time of all processes together",
    "disk": "bytes in files",
    "inodes": "files and directories",
    "open_files": "descriptors of each process",
    "output": "bytes of output a call gives back, cut at the source",
    "network": "what can be reached: nothing, or the names of the spec",
}
"""What each limit bounds, by the limit's name in `Capabilities`."""
ACCEPT_WEAKER = "AGENTGYM_ACCEPT_WEAKER"
"""The variable with the limits that every sandbox of this process, and of those that it starts, may lack."""
ALL = "all"


def limit_names(names: str | Iterable[str], where: str = "") -> tuple[str, ...]:
    """Return names of limits, also from a text such as "memory,cpu". The name `all` stands for every limit.

    Args:
        where: what gives the names, if the error must say it.
    Raises: UnknownNameError naming the nearest limit.
    """
    given = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    for name in filter(None, given):
        if name not in (*LIMITS, ALL):
            close = get_close_matches(name, LIMITS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise UnknownNameError(
                f"{where and where + ': '}no limit of a sandbox is named {name!r}.{hint} The names are "
                f"{', '.join(LIMITS)}, and {ALL} for every limit."
            )
    return (ALL,) if ALL in given else tuple(name for name in LIMITS if name in given)


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of limits, each once, in the order of LIMITS; names that it lacks come last."""
    return sorted({*names}, key=lambda name: ([*LIMITS, name].index(name), name))


@contextmanager
def accepting(names: Collection[str]) -> Iterator[None]:
    """Let sandboxes of this process, and of processes that it starts, lack these limits too, while the block runs."""
    before = os.environ.get(ACCEPT_WEAKER)
    if names:
        os.environ[ACCEPT_WEAKER] = ",".join(filter(None, (before, *names)))
    try:
        yield
    finally:
        if before is not None:
            os.environ[ACCEPT_WEAKER] = before
        elif names:
            os.environ.pop(ACCEPT_WEAKER, None)


def unenforceable(missing: Mapping[str, str], remedy: str = "") -> LimitUnenforceable:
    """Return the error for a sandbox that would be weaker than its spec accepts.

    Args:
        missing: why each limit cannot be enforced, and what happens instead. remedy: how to have them all enforced.
    """
    ordered = in_order(missing)
    reasons = " ".join(f"{name}: {missing[name].removesuffix('.')}." for name in ordered)
    names = ",".join(ordered) if missing.keys() <= LIMITS.keys() else ALL
    return LimitUnenforceable(
        f"This machine cannot enforce every limit of a sandbox. {reasons} {remedy}{' ' if remedy else ''}"
        f"To accept weaker limits instead, for code that you trust, add --accept-weaker {names} to the command, or "
        f"set {ACCEPT_WEAKER}={names}."
    )


@renamed_keywords(insecure_ok="accept_weaker")
@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What an environment asks of its sandbox. Everything is limited by default."""

    image: str = "host"
    """The root file system, read-only. `host` is the host's own Python and base tools, and works with every backend.

    Else it is, for `namespaces`, the path of a root file system or OCI image layout, or the name of an image in
    agentgym's cache; for `docker`, an image that the daemon has. The image's own files in /work and /tmp are hidden."""
    memory_mib: int = 512
    """The memory of all processes together, in MiB."""
    cpu_cores: float = 1.0
    """The share of processor time; 1.0 is one core."""
    processes: int = 64
    """How many processes and threads may be alive at the same time."""
    disk_mib: int = 64
    """How many MiB files may take.

    A snapshot that the sandbox starts from counts, and a file of the snapshot that is changed counts once more."""
    inodes: int = 20_000
    """How many files and directories may be created."""
    open_files: int = 256
    """How many file descriptors a process may have."""
    network: Literal[False] | tuple[str, ...] = False
    """The names that may be reached; False for no network at all, not even the host's loopback.

    They are reached only over HTTP and HTTPS, through a proxy: `("example.org", "*.example.org:8443")`.
    Without a port, 80 and 443 are meant. A name must lead to a public address; `"127.0.0.1:8000"` allows an address
    itself, here the host's loopback. `"example.org=10.0.0.5"` says to which address the name leads, which need not be
    public. `"*"` allows every public name."""
    transfer_mib: int | None = None
    """How many MiB may be sent and received over the network; None for the proxy's own limit, which is 1024."""
    preload: tuple[str, ...] = ()
    """Python modules that the warm interpreter imports once, before any agent code runs."""
    environment: tuple[tuple[str, str], ...] = field(default=())
    """Environment variables of every command. Nothing is inherited from the host."""
    writable_root: bool = False
    """Make the whole file system writable, and the agent root by name: as in a container whose image is below.

    Files of all folders count against `disk_mib`, and a snapshot holds what differs from the image. Changes of owner
    and user have no effect, but succeed. Only with an image, on the backends `namespaces` and `docker`."""
    programs: tuple[str, ...] = ()
    """Agent programs that `agentgym sandbox program` has installed, mounted read-only: "npm:@openai/codex@0.171.0"."""
    accept_weaker: tuple[str, ...] = ()
    """Names of limits that the backend need not enforce; "all" stands for every limit.

    `Capabilities.missing` says which limits it cannot enforce. The limits in the environment variable
    AGENTGYM_ACCEPT_WEAKER, which `--accept-weaker` and a recipe's `episode.accept_weaker` set, are accepted too."""

    @property
    def accepted(self) -> tuple[str, ...]:
        """The limits that need not be enforced: the spec's own, and those of the process. Raises: UnknownNameError."""
        of_process = limit_names(os.environ.get(ACCEPT_WEAKER, ""), ACCEPT_WEAKER)
        return limit_names((*self.accept_weaker, *of_process))

    def accepts(self, missing: Collection[str]) -> bool:
        """Return whether none of these limits need be enforced. Raises: UnknownNameError, as `accepted`."""
        accepted = self.accepted if missing else ()
        return ALL in accepted or set(missing) <= set(accepted)

    def __post_init__(self) -> None:
        names: tuple[str, ...] | bool = self.accept_weaker
        if isinstance(names, bool):  # of the old keyword insecure_ok
            names = (ALL,) if names else ()
        object.__setattr__(self, "accept_weaker", limit_names(names, "SandboxSpec.accept_weaker"))
        limits = ("memory_mib", "cpu_cores", "processes", "disk_mib", "inodes", "open_files", "transfer_mib")
        for name in limits:
            if (value := getattr(self, name)) is not None and value <= 0:
                raise SandboxError(f"SandboxSpec.{name} = {value!r} is not valid: a limit must be above 0.")
        if self.writable_root and self.image == "host":
            raise SandboxError(
                "SandboxSpec.writable_root needs an image: the host's own files cannot be made writable. Name one in "
                "SandboxSpec.image (`agentgym sandbox image` makes one)."
            )
        if self.network is not False and not isinstance(self.network, tuple):
            raise SandboxError(
                f"SandboxSpec.network = {self.network!r} is not valid: give False, or a tuple of the names that may "
                "be reached, such as ('example.org', '*.example.org:8443')."
            )
        if self.network:
            AllowList.parse(self.network)
        if self.memory_mib < 16:
            raise SandboxError(
                f"SandboxSpec.memory_mib = {self.memory_mib} is too little: Python itself needs at least 16."
            )
