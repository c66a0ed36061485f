"""What test_rootless runs as an ordinary user: a sandbox with a network. Prints one JSON object."""

from __future__ import annotations

import asyncio
import json
import os

from counts import open_files
from local_network import CERTIFICATE, NAMES, LocalNetwork, service_threads

from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.namespaces.backend import NamespacesBackend


async def main() -> None:
    network = LocalNetwork()
    before = (open_files(), service_threads())
    backend = NamespacesBackend(proxy=network.proxy())
    sandbox = await backend.create(SandboxSpec(network=NAMES, accept_weaker=("all",)))
    await sandbox.write("ca.pem", CERTIFICATE.read_bytes())
    report: dict[str, object] = {"uid": os.getuid()}
    for name, url in (("plain", "http://allowed.test/a"), ("tls", "https://allowed.test/b"), ("evil", "http://evil/")):
        report[name] = (await sandbox.exec(["curl", "-sS", "--cacert", "ca.pem", url])).text
    code = f"import socket; print(socket.socket().connect_ex(('127.0.0.1', {network.plain.port})))"
    report["direct"] = (await sandbox.run_python(code)).text
    report["connections"] = [
        (connection.host, connection.port, connection.allowed) for connection in sandbox.connections
    ]
    await backend.close()
    report["left"] = [now - then for now, then in zip((open_files(), service_threads()), before, strict=True)]
    network.close()
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main())
