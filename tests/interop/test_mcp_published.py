"""Servers of a client's `mcp.json`, from packages that are installed for sandboxes; and servers that start slowly."""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym import Call, SandboxSpec, Task, load, make, registry
from agentgym.bridges.mcp import register_mcp_json
from agentgym.bridges.mcp.guest_bridge import NO_HANDSHAKE, STATELESS, Client, RpcError
from agentgym.bridges.mcp.guest_transports import ServerLate
from agentgym.bridges.mcp.published import pinned
from agentgym.cli.app import app
from agentgym.errors import SandboxUnavailable, TaskError, UnknownNameError

SERVER = Path(__file__).with_name("mcp_servers.py").read_text()


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    """Install a package with one command, and one with two, and forget what a test registers."""
    monkeypatch.setattr(registry, "_registered", deepcopy({kind: {} for kind in registry.KINDS}))
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    for package, commands in (("npm:@some/server", ["talks"]), ("pypi:many", ["one", "two"])):
        kind, _, name = package.partition(":")
        folder = tmp_path / "programs" / f"{kind}-{name.replace('/', '-').removeprefix('@')}@1.0"
        (folder / "bin").mkdir(parents=True)
        for command in commands:
            (folder / "bin" / command).write_text(f"#!/usr/bin/env python3\n{SERVER}")
            (folder / "bin" / command).chmod(0o755)
        record = {"name": f"{package}@1.0", "digest": "sha256:0", "commands": commands}
        (folder / "program.json").write_text(json.dumps(record))


def written(folder: Path, **servers: dict) -> Path:
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return folder / "mcp.json"


@pytest.mark.needs_namespaces
async def test_a_server_is_played_as_its_mcp_json_names_it(tmp_path):
    entry = {"command": "npx", "args": ["-y", "@some/server@latest", "good"], "env": {"LANG": "C"}}
    [name] = register_mcp_json(written(tmp_path, **{"Some Server": entry}), namespace="test")
    assert name == "test/some-server-v1"
    environment = make(name)
    await environment.reset(Task("t", name, "Speak."), seed=0)
    assert (await environment.call(Call("echo", {"text": "hi"}))).ok
    await environment.close()


def test_each_form_of_an_entry_becomes_a_command_or_a_url(tmp_path):
    names = register_mcp_json(
        written(
            tmp_path,
            npm={"command": "/usr/bin/npx", "args": ["--yes", "@some/server", "-v"]},
            of_many={"command": "uvx", "args": ["--from", "many==1.0", "two", "x"]},
            plain={"command": "python3", "args": ["server.py"]},
            far={"url": "https://example.org/mcp", "headers": {"a": "b"}},
        ),
        sandbox=SandboxSpec(memory_mib=64),
    )
    npm, of_many, plain, far = (load("environments", name) for name in names)
    assert npm.server.command == ("/.agentgym/programs/npm-some-server@1.0/bin/talks", "-v")
    assert of_many.server.command == ("/.agentgym/programs/pypi-many@1.0/bin/two", "x")
    assert (npm.sandbox.programs, npm.sandbox.memory_mib) == (("npm:@some/server@1.0",), 64)
    assert (plain.server.command, plain.sandbox.programs) == (("python3", "server.py"), ())
    assert (far.server.url, far.sandbox.network) == ("https://example.org/mcp", ("example.org:443",))


@pytest.mark.parametrize(
    ("entry", "error", "words"),
    [
        ({"command": "npx", "args": ["-y", "absent"]}, SandboxUnavailable, "agentgym sandbox program npm:absent"),
        ({"command": "uvx", "args": ["many"]}, TaskError, "has the commands one, two"),
        ({"command": "uvx", "args": ["--python", "3.12", "many"]}, TaskError, "'--python' is not known"),
        ({"command": "npx", "args": ["-y"]}, TaskError, "names no package"),
        ({"command": "docker", "args": ["run", "mcp/time"]}, TaskError, "docker cannot be used in a sandbox"),
        ({"type": "sse", "url": "https://example.org"}, TaskError, "is not spoken"),
        ("npx", TaskError, "cannot be read as a file of MCP servers"),
    ],
)
def test_what_cannot_be_used_is_named_and_nothing_is_registered(entry, error, words, tmp_path):
    path = written(tmp_path, good={"command": sys.executable}, other=entry)
    with pytest.raises(error, match=words):
        register_mcp_json(path)
    assert "mcp/good-v1" not in registry.names("environments")


@pytest.mark.parametrize(
    ("word", "package", "expected"),
    [
        ("mcp-server-time", "pypi:mcp-server-time", "mcp-server-time==2.0"),
        ("@some/server@latest", "npm:@some/server", "@some/server@2.0"),
        ("many==1.0", "pypi:many@1.0", "many==1.0"),
        ("@some/server@1.0", "npm:@some/server@1.0", "@some/server@1.0"),
        ("-y", "npm:@some/server", "-y"),
    ],
)
def test_the_version_that_was_installed_is_written_unless_one_was_given(word, package, expected):
    assert pinned(word, package, "2.0") == expected


ADDED = ["mcp", "add", "--file", "mcp.json", "talks", "--", "npx", "-y", "@some/server@1.0", "good"]


@pytest.mark.needs_namespaces
def test_a_server_is_added_after_it_has_shown_its_tools_and_is_played_by_its_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, there={"command": "python3"})
    added = CliRunner().invoke(app, ADDED)
    assert added.exit_code == 0, added.output
    assert "mcp://talks has" in added.output
    assert "echo" in added.output
    servers = json.loads(path.read_text())["mcpServers"]
    assert servers == {
        "there": {"command": "python3"},
        "talks": {"command": "npx", "args": ["-y", "@some/server@1.0", "good"]},
    }
    call = 'echo(text="hi")\nanswer(text="hi")\n'
    ended = CliRunner().invoke(app, ["play", "mcp://talks", "--prompt", "Speak."], input=call)
    assert "ended after 2 turns: its reward needs --truth" in ended.output
    words = ["play", f"mcp://{path}#talks", "--prompt", "Speak.", "--truth", '{"answer": "hi"}']
    ended = CliRunner().invoke(app, words, input=call)
    assert "answered after 2 turns: success +1" in ended.output
    with pytest.raises(UnknownNameError, match=r"names no server 'absent'. It names talks, there. .* mcp add absent"):
        make("mcp://absent")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["there", "--", "python3"], "names a server 'there' already"),
        (["new"], "needs either a command or a --url"),
        (["--url", "example.org", "new"], "'example.org' of an MCP server is not valid"),
        (
            ["--file", "absent/mcp.json", "new", "--", "python3"],
            "absent, the folder of absent/mcp.json, does not exist",
        ),
        (["--env", "TOKEN", "new", "--", "python3"], "--env 'TOKEN' is not NAME=TEXT"),
        (["new", "--", "python3", "-c", ""], "cannot be started: The server ended with exit code 0"),
    ],
)
@pytest.mark.needs_namespaces
def test_a_server_that_cannot_be_added_leaves_the_file_as_it_was(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = written(tmp_path, there={"command": "python3"}).read_bytes()
    refused = CliRunner().invoke(app, ["mcp", "add", *words], env={"COLUMNS": "300"})
    assert refused.exit_code == 2
    assert message in refused.output
    assert (tmp_path / "mcp.json").read_bytes() == before


class SlowToStart:
    """A server that leaves the first request unanswered, as one does that takes long to start."""

    def __init__(self, speaks_stateless: bool) -> None:
        self._speaks_stateless = speaks_stateless
        self.methods: list[str] = []

    def ask(self, message, deadline):
        method = message["method"]
        self.methods.append(method)
        if len(self.methods) == 1:
            raise ServerLate
        reply = {"id": message["id"]}
        if method == "initialize" and self._speaks_stateless:
            yield reply | {"error": {"code": NO_HANDSHAKE, "message": "the initialize handshake is not accepted"}}
        elif method == "initialize":
            yield reply | {"result": {"protocolVersion": "2025-11-25"}}
        else:
            yield reply | {"result": {"supportedVersions": [STATELESS]}}

    def send(self, message, deadline):
        pass


@pytest.mark.parametrize("speaks_stateless", [True, False])
def test_a_server_that_starts_slowly_is_spoken_to_as_it_asks(speaks_stateless):
    server = SlowToStart(speaks_stateless)
    about = Client(server, "auto").start(float("inf"))
    retried = ["server/discover"] if speaks_stateless else []
    assert server.methods == ["server/discover", "initialize", *retried]
    assert about["protocol"] == (STATELESS if speaks_stateless else "2025-11-25")


def test_a_server_that_refuses_the_handshake_is_refused_where_a_handshake_was_asked_for():
    server = SlowToStart(speaks_stateless=True)
    server.methods.append("earlier")
    with pytest.raises(RpcError, match="not accepted"):
        Client(server, "sessions").start(float("inf"))
