"""Servers as a client's `mcp.json` names them, each as an environment; packages come from the cache of programs.

`mcp://SERVER` is a server of the file mcp.json in the working folder, `mcp://FILE#SERVER` one of another file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgym import SandboxSpec, SandboxUnavailable, TaskError, UnknownNameError
from agentgym.sandbox import rootfs

from .environment import McpEnvironment, environment_class, register_mcp

SCHEME = "mcp://"
DEFAULT_FILE = "mcp.json"
RUNNERS = {"npx": "npm", "bunx": "npm", "uvx": "pypi"}
"""Programs that fetch a package and run it, with the package's registry."""
_QUIET = {"-y", "--yes", "-q", "--quiet"}
_NAMES_PACKAGE = {"-p", "--package", "--from"}


def register_mcp_json(path: str | Path, *, namespace: str = "mcp", sandbox: SandboxSpec | None = None) -> list[str]:
    """Offer every server of an `mcp.json`, for this process: {"mcpServers": {"time": {"command": "uvx", ...}}}.

    What `npx`, `bunx` or `uvx` would fetch is taken from the packages that `agentgym sandbox program` has installed,
    because a sandbox has no network. Other commands are those of the sandbox's image.

    Args:
        namespace: the first part of the environments' names, `NAMESPACE/SERVER-v1`.
        sandbox: the sandbox of each server that is a program; see `register_mcp`.
    Returns: the environments' names.
    Raises: TaskError for a file or an entry that cannot be read; SandboxUnavailable naming each package that is not
        installed; what `register_mcp` raises. Nothing is registered then.
    """
    arguments = {}
    missing = []
    for name, entry in entries_of(Path(path)).items():
        try:
            registered = f"{namespace}/{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}-v1"
            arguments[registered] = _read(path, name, entry, sandbox)
        except SandboxUnavailable as error:
            missing.append(str(error))
    if missing:
        raise SandboxUnavailable("\n".join(missing))
    return [register_mcp(name, **options) for name, options in arguments.items()]


def environment_at(address: str) -> type[McpEnvironment]:
    """Return the environment at `mcp://SERVER` or `mcp://FILE#SERVER`.

    Raises: UnknownNameError for a server that the file does not name; what `register_mcp_json` raises.
    """
    path, _, name = address.removeprefix(SCHEME).rpartition("#")
    path = path or DEFAULT_FILE
    if not name:
        raise UnknownNameError(f"{address!r:.200} names no server. Write mcp://SERVER, or mcp://FILE#SERVER.")
    entries = entries_of(Path(path))
    if name not in entries:
        raise UnknownNameError(
            f"{path} names no server {name!r:.200}. It names {', '.join(sorted(entries)) or 'none'}. Add it: agentgym "
            f"mcp add {name} -- npx -y PACKAGE"
        )
    return environment_for(path, name, entries[name])


def environment_for(path: str | Path, name: str, entry: Mapping[str, Any]) -> type[McpEnvironment]:
    """Return the environment of an entry of a file. Raises: TaskError; SandboxUnavailable."""
    return environment_class(f"mcp_{name}", **_read(path, name, entry, None))


def entries_of(path: Path) -> dict[str, Mapping[str, Any]]:
    """Return the servers of a file, by name. Raises: TaskError."""
    try:
        data = json.loads(path.read_text())
        entries = data["mcpServers"] if "mcpServers" in data else data["servers"]  # as VS Code has it
        return {str(name): dict(entry) for name, entry in entries.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise TaskError(
            f"{path} cannot be read as a file of MCP servers: {error!r}. "
            'Write {"mcpServers": {NAME: {"command": "npx", "args": ["-y", "PACKAGE"]}}}.'
        ) from error


def package_of(entry: Mapping[str, Any]) -> str | None:
    """Return the package that an entry's runner would fetch, as `agentgym sandbox program` names it.

    Raises: TaskError for a runner that is not given a package.
    """
    runner = Path(str(entry.get("command", ""))).name
    return _package(RUNNERS[runner], [str(word) for word in entry.get("args", ())])[0] if runner in RUNNERS else None


def _read(path: str | Path, name: str, entry: Mapping[str, Any], sandbox: SandboxSpec | None) -> dict[str, Any]:
    """Return the arguments of `register_mcp`, or raise an error that names the file and the server.

    Raises: TaskError; SandboxUnavailable for a package that is not installed.
    """
    try:
        return _options_of(entry, sandbox)
    except TaskError as error:
        raise TaskError(f"{path}: the server {name!r} cannot be used: {error}") from error


def _options_of(entry: Mapping[str, Any], sandbox: SandboxSpec | None) -> dict[str, Any]:
    if entry.get("type") == "sse":
        raise TaskError('"type": "sse" is a transport that is not spoken. Give the server\'s URL of streamable HTTP.')
    if url := entry.get("url"):
        return {"url": url, "headers": entry.get("headers", {})}
    command = [str(word) for word in (entry.get("command", ""), *entry.get("args", ()))]
    options: dict[str, Any] = {"environment": entry.get("env", {}), "sandbox": sandbox}
    runner = Path(command[0]).name
    if runner in ("docker", "podman"):
        raise TaskError(f"{runner} cannot be used in a sandbox. Name the server's package: npx -y NAME, or uvx NAME.")
    if runner not in RUNNERS:
        return {"command": command, **options}
    package, *words = _package(RUNNERS[runner], command[1:])
    program = rootfs.locate_program(package)
    spec = sandbox or SandboxSpec()
    options["sandbox"] = replace(spec, programs=(*spec.programs, program.name))
    name = words.pop(0) if _NAMES_PACKAGE & set(command) else _main_command(program.commands, package)
    return {"command": [f"{program.inside}/bin/{name}", *words], **options}


def _package(registry: str, words: Sequence[str]) -> list[str]:
    """Return the package that a runner would fetch, as `agentgym sandbox program` names it, and the words after it.

    Raises: TaskError for an option of the runner that is not known here.
    """
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in _NAMES_PACKAGE:
            break
        if option not in _QUIET:
            raise TaskError(f"the option {option!r} is not known. Leave it out, or give a command of the image.")
    if not rest:
        raise TaskError("it names no package.")
    return [f"{registry}:{_named(rest[0])}", *rest[1:]]


def _named(word: str) -> str:
    """Return a runner's word for a package as `agentgym sandbox program` has it."""
    return word.replace("==", "@").removesuffix("@latest")


def pinned(word: str, package: str, version: str) -> str:
    """Return a word of a runner's command, with the version if it is the package without one."""
    name = _named(word)
    is_open = package.partition(":")[2] == name and "@" not in name[1:]
    return f"{name}{'==' if package.startswith('pypi:') else '@'}{version}" if is_open else word


def _main_command(commands: Sequence[str], package: str) -> str:
    """Return the command that a package is run by. Raises: TaskError if it has several, and none of its own name."""
    name = re.sub("(?<=.)@.*", "", package.partition(":")[2]).rpartition("/")[2]
    if len(commands) == 1 or name in commands:
        return name if name in commands else commands[0]
    raise TaskError(f"{package} has the commands {', '.join(commands)}. Name one: --package {package} COMMAND.")
