"""`agentgym sandbox shell`: look around in a sandbox, one command after the other.

Each line runs by `sh` inside, with the directory and the variables that the lines before it left. The sandbox gets no
terminal of the host, and a terminal shows the output's control characters instead of obeying them: code in the sandbox
can neither type on the host nor redraw what its user sees.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import err, out, run
from agentgym.cli.fields import Fields, takes
from agentgym.text import counted

if TYPE_CHECKING:
    from agentgym.sandbox import ExecResult, Sandbox
    from agentgym.sandbox.limits import SandboxSpec

_STATE = "/tmp/.agentgym-shell"  # file inside, with the directory and variables that one line leaves for the next
_LINE = f"""
trap 'code=$?; pwd > {_STATE}.at; export -p > {_STATE}; exit $code' EXIT
[ -f {_STATE} ] && . {_STATE}
[ -f {_STATE}.at ] && cd "$(cat {_STATE}.at)"
eval "$1"
"""
_MAX_OUTPUT_BYTES = 4 * 2**20
_HELP = """Each line runs by sh in the sandbox; the directory and variables stay. Ctrl-C ends a line, Ctrl-D the shell.
:usage  what the sandbox has used     :reset  back to an empty sandbox     :quit  leave, and the sandbox is gone"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellOptions:
    """The sandbox of a shell, and the command that it runs."""

    backend: str = "namespaces"
    """The registered backend that makes the sandbox."""
    command: Annotated[str | None, typer.Option("-c", metavar="COMMAND")] = None
    """Run this command, print its output, and end with its exit code."""
    network: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None
    """A host that the sandbox may reach. By default it may reach none. Repeatable."""
    timeout: Annotated[float, typer.Option(metavar="SECONDS")] = 120.0
    """The time limit of one line, in seconds."""


def _limit_options() -> Fields:
    from agentgym.sandbox.limits import SandboxSpec

    renamed = {"memory": "memory_mib", "cores": "cpu_cores", "disk": "disk_mib"}
    return Fields(SandboxSpec, {"image": "image", "processes": "processes", **renamed})


@takes(options=ShellOptions, spec=_limit_options)
def shell(options: ShellOptions, spec: SandboxSpec) -> None:
    """Open a sandbox and run commands in it, to see what an agent would see. Everything in it is removed at the end.

    Example: agentgym sandbox shell -c "id; ls -la /"
    """
    spec = replace(spec, network=tuple(options.network or ()) or False)
    raise typer.Exit(run(_session(options.backend, spec, options.command, options.timeout)))


async def _session(backend: str, spec: SandboxSpec, command: str | None, timeout_s: float) -> int:
    from agentgym import registry

    sandbox = await registry.shared_backend(backend).create(spec)
    try:
        if command is not None:
            result = await _line(sandbox, command, timeout_s)
            _show(result, timeout_s)
            return _exit_code(result)
        return await _loop(sandbox, backend, timeout_s)
    finally:
        await sandbox.close()


async def _loop(sandbox: Sandbox, backend: str, timeout_s: float) -> int:
    """Read lines until the end of the input. Returns: the exit code of the last line, as any shell does."""
    interactive = sys.stdin.isatty()
    if interactive:
        out().print(f"A sandbox of {backend}. :help says what can be typed.", style="dim", markup=False)
    code, directory = 0, "/work"
    while True:
        # blocks the event loop, which has nothing else to do
        line = _read(f"sandbox:{directory}$ " if interactive else "")
        if line is None:
            return code
        command = line.strip()
        if not command:
            continue
        if command == ":quit" or command.split()[0] == "exit":
            exit_argument = command.removeprefix("exit").strip()
            return int(exit_argument) & 0xFF if exit_argument.isdigit() else code
        if command.startswith(":"):
            await _order(sandbox, command)
            continue
        result = await _interruptible(sandbox, line, timeout_s)
        if result is None:
            code = 130
            continue
        _show(result, timeout_s)
        code = _exit_code(result)
        if interactive:
            directory = await _directory(sandbox)


async def _order(sandbox: Sandbox, command: str) -> None:
    if command == ":usage":
        usage = await sandbox.usage()
        summary = f"{usage.cpu_s:.2f} s of processor time, {usage.peak_memory_mib:.1f} MiB at the peak, "
        summary += f"{counted(usage.processes, 'process')}, {usage.disk_bytes} bytes in files"
        out().print(summary, markup=False)
    elif command == ":reset":
        await sandbox.reset()
        out().print("The sandbox is empty again.")
    else:
        out().print(_HELP, style="dim", markup=False)


async def _line(sandbox: Sandbox, line: str, timeout_s: float) -> ExecResult:
    return await sandbox.exec(["sh", "-c", _LINE, "sh", line], timeout_s=timeout_s, max_output_bytes=_MAX_OUTPUT_BYTES)


async def _interruptible(sandbox: Sandbox, line: str, timeout_s: float) -> ExecResult | None:
    """Run a line; Ctrl-C ends only this line. Returns: None if it was interrupted."""
    loop, running = asyncio.get_running_loop(), asyncio.create_task(_line(sandbox, line, timeout_s))
    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, running.cancel)
    try:
        return await running
    except asyncio.CancelledError:
        if not running.cancelled():
            raise
        err().print("interrupted", style="yellow")
        return None
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


async def _directory(sandbox: Sandbox) -> str:
    from agentgym.text import visible

    result = await sandbox.exec(["cat", f"{_STATE}.at"], max_output_bytes=200)
    return visible(result.text.partition("\n")[0]) or "/work"


def _read(prompt: str) -> str | None:
    """Return a line, None at the end of the input. Ctrl-C drops what was typed, as in any shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if prompt:
            import readline  # noqa: F401 - gives `input` its editing and its history
        return input(prompt)
    except EOFError:
        return None
    except KeyboardInterrupt:
        out().print()
        return ""
    finally:
        signal.signal(signal.SIGINT, before)


def _exit_code(result: ExecResult) -> int:
    """Return the exit code as a shell does: 128 plus the signal's number, 124 for a timeout."""
    if result.timed_out:
        return 124
    return 128 - result.exit_code if result.exit_code < 0 else result.exit_code


def _show(result: ExecResult, timeout_s: float) -> None:
    """Write output unchanged into a file or pipe, and with control characters made visible on a terminal."""
    from agentgym.text import visible

    for stream, data in ((sys.stdout, result.stdout), (sys.stderr, result.stderr)):
        if not data:
            continue
        if stream.isatty() or not hasattr(stream, "buffer"):
            stream.write(visible(data.decode("utf-8", "replace")))
        else:
            stream.flush()
            stream.buffer.write(data)
        stream.flush()
    if result.truncated:
        err().print(f"[output cut after {_MAX_OUTPUT_BYTES} bytes]", style="yellow", markup=False)
    if result.timed_out:
        err().print(f"ended after {timeout_s:g} s (--timeout)", style="yellow", markup=False)
    elif result.oom_killed:
        err().print("ended: out of memory (--memory)", style="yellow", markup=False)
