"""`agentgym mcp add`: write an MCP server into mcp.json, installed and tried in a sandbox first."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli import out, run
from agentgym.text import counted

if TYPE_CHECKING:
    from .environment import McpEnvironment


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of your choice: the environment is mcp://NAME.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="The server's command, such as npx -y PACKAGE.")
    ] = None,
    url: Annotated[str, typer.Option(metavar="URL", help="Instead of a command: a server over HTTP.")] = "",
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="A header of every request to the URL. Repeatable.")
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="A variable of the command. Repeatable.")
    ] = None,
    file: Annotated[Path, typer.Option(metavar="FILE", help="The file to write the server into.")] = Path("mcp.json"),
) -> None:
    """Add an MCP server to mcp.json, as clients read it, and play it as the environment mcp://NAME.

    The package that npx, bunx or uvx would fetch is installed for sandboxes. The server is started once, in a sandbox,
    before the file is written.

    Example: agentgym mcp add time -- uvx mcp-server-time
    """
    from agentgym import TaskError
    from agentgym.sandbox import rootfs

    from .published import DEFAULT_FILE, SCHEME, entries_of, environment_for, package_of, pinned

    if bool(command) == bool(url):
        raise TaskError(
            f"The server {name!r} needs either a command or a --url. Give one: "
            f"agentgym mcp add {name} -- npx -y PACKAGE"
        )
    if not name or "#" in name:
        raise TaskError(f"{name!r} cannot be the name of a server. Choose one without '#'.")
    if not file.parent.is_dir():
        raise TaskError(f"{file.parent}, the folder of {file}, does not exist. Make it, or give another --file.")
    present = entries_of(file) if file.exists() else {}
    if name in present:
        raise TaskError(f"{file} names a server {name!r} already. Choose another name, or remove that entry first.")
    entry = _entry(command or [], url, _pairs("--header", header), _pairs("--env", env))
    if package := package_of(entry):
        out().print(f"installing {package}", markup=False, soft_wrap=True)
        version = rootfs.install_program(package).name.rpartition("@")[2]
        entry["args"] = [pinned(word, package, version) for word in entry["args"]]
    tools = run(_tools_of(environment_for(file, name, entry)))
    _write(file, name, entry)
    address = f"{SCHEME}{name}" if file == Path(DEFAULT_FILE) else f"{SCHEME}{file}#{name}"
    out().print(
        f"{address} has {counted(len(tools), 'tool')}: {', '.join(tools)}\n"
        f"Play it: agentgym play {address} --prompt 'What the agent is to do.'",
        markup=False,
        soft_wrap=True,
    )


def _entry(
    command: Sequence[str], url: str, headers: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, Any]:
    if url:
        return {"type": "http", "url": url, **({"headers": headers} if headers else {})}
    return {"command": command[0], "args": [*command[1:]], **({"env": environment} if environment else {})}


def _pairs(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """Read NAME=TEXT arguments. Raises: TaskError for one without a name."""
    from agentgym import TaskError

    pairs = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise TaskError(f"{option} {text!r} is not NAME=TEXT.")
        pairs[name] = value
    return pairs


async def _tools_of(environment_class: type[McpEnvironment]) -> list[str]:
    """Start a server in a sandbox and return its tools' names. Raises: SandboxUnavailable; TaskError."""
    from agentgym import Task, close_backends, make

    environment = make(environment_class)
    try:
        await environment.reset(Task("added", "mcp", "Start."), seed=0)
        return [name for name in environment.tools if name != "answer"]
    finally:
        await environment.close()
        await close_backends()


def _write(file: Path, name: str, entry: Mapping[str, Any]) -> None:
    """Add an entry to a file, which is replaced as a whole. Its other contents and its permissions stay; a new file is
    for its owner alone, because headers and variables may be secrets.
    """
    data = json.loads(file.read_text()) if file.exists() else {"mcpServers": {}}
    data["mcpServers" if "mcpServers" in data else "servers"][name] = entry
    scratch = file.with_name(f".{file.name}.new")
    scratch.unlink(missing_ok=True)
    scratch.touch(mode=0o600)
    scratch.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    if file.exists():
        shutil.copymode(file, scratch)
    os.replace(scratch, file)
