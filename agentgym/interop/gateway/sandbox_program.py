"""A program in the sandbox of its episode, with the rights of the agent's own commands.

It reaches one address: the gateway's, over the sandbox's relay. Its files and caches are in a home of its own, which is
never handed in. The sandbox's limits apply to the program and the agent's commands together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentgym.environment.contract import Environment
from agentgym.environment.workspace import Workspace
from agentgym.errors import AgentGymError, PolicyError
from agentgym.sandbox import Sandbox, rootfs
from agentgym.threads import in_thread

from .program_end import ProgramEnd, output_end
from .program_loop import ProgramLoop

HOME = "/tmp/home"
LONGEST_S = 7 * 86_400.0
"""The time limit of the program's process. The budgets of its episode end it earlier."""
KEPT_BYTES = 1 << 20
"""How much of each output stream the sandbox keeps: its beginning."""
NOT_FOUND = 127
_START = 'mkdir -p "$HOME" && PATH="$1$PATH" && export PATH && shift && exec "$@"'


def check_sandbox(environment: Environment) -> None:
    """Check that programs can work in an environment. Raises: AgentGymError saying what to do."""
    name = type(environment).__qualname__
    if environment.sandbox is None or environment.backend is None:
        raise AgentGymError(
            f"The environment {name} has no sandbox for a program. Play tasks of one that has, or set where = 'host'."
        )
    if not getattr(environment.backend, "has_relay", False):
        raise AgentGymError(_no_relay(environment.backend.name))


@asynccontextmanager
async def start_in_sandbox(
    loop: ProgramLoop,
    command: Sequence[str],
    url: str,
    variables_for: Callable[[str], Mapping[str, str]],
    *,
    files: Sequence[str] = (),
    installed: rootfs.InstalledProgram | None = None,
) -> AsyncIterator[asyncio.Task[ProgramEnd]]:
    """Run a program in the episode's sandbox; end it and its children after the block. Yields: its end.

    Args:
        url: the gateway's URL on this host. variables_for: the program's variables, given the URL in the sandbox.
        files: files of this host to copy into its home. installed: the package that the sandbox has, if any.
    Raises: AgentGymError if the environment or the backend cannot do this; SandboxError.
    """
    workspace = await loop.environment.workspace()
    if workspace is None:
        name = type(loop.environment).__qualname__
        raise PolicyError(
            f"The environment {name} has no workspace for a program. Override `workspace`, or set where = 'host'."
        )
    relayed_url = await _relay(workspace.sandbox, url)
    for name in files:
        await workspace.sandbox.write(f"{HOME}/{Path(name).name}", await in_thread(Path(name).read_bytes), 0o755)
    variables = {**workspace.variables, **variables_for(relayed_url), "HOME": HOME, "AGENTGYM_HOME": HOME}
    path = "".join(f"{folder}:" for folder in (*workspace.path, *([f"{installed.inside}/bin"] if installed else ())))
    words = [part.replace("{home}", HOME) for part in command]
    running = asyncio.create_task(_run(loop, workspace, words, variables, path))
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _relay(sandbox: Sandbox, url: str) -> str:
    """Make the gateway reachable from a sandbox. Returns: its URL there. Raises: AgentGymError; SandboxError."""
    relay: Any = getattr(sandbox, "relay", None)
    if relay is None:
        raise PolicyError(_no_relay(type(sandbox).__name__))
    address = urlsplit(url)
    host, port = await relay((address.hostname, address.port))
    return f"http://{host}:{port}"


def _no_relay(name: str) -> str:
    return (
        f"Sandboxes of {name!r} cannot reach the gateway. Use the backend 'namespaces' or 'docker', or set "
        "where = 'host'."
    )


async def _run(
    loop: ProgramLoop, workspace: Workspace, command: Sequence[str], variables: Mapping[str, str], path: str
) -> ProgramEnd:
    """Run the program to its end. Raises: PolicyError if the sandbox does not have it; SandboxError."""
    result = await workspace.sandbox.exec(
        ["sh", "-c", _START, "sh", path, *command],
        cwd=workspace.folder,
        env=variables,
        timeout_s=LONGEST_S,
        max_output_bytes=KEPT_BYTES,
    )
    output = output_end(result.stdout) + output_end(result.stderr)
    if result.exit_code == NOT_FOUND and not loop.has_answered:  # a program that has started may end with it too
        raise PolicyError(
            f"The program {command[0]!r} cannot be started in the sandbox: {output!r}. The sandbox has the programs of "
            "its image, those of the program's `package` (agentgym sandbox program NAME adds one), and its `files`."
        )
    return ProgramEnd(result.exit_code, output, workspace.hand_in)
