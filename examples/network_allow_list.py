"""Code of the agent that may fetch from exactly one host: every other request is refused, recorded, and costs reward.

python examples/network_allow_list.py
"""

from __future__ import annotations

import asyncio
import http.server
import json
import threading

from agentgym import (
    Call,
    Environment,
    EpisodeManager,
    Message,
    RolloutConfig,
    SandboxSpec,
    ScriptedPolicy,
    Task,
    register,
    reward_function,
    tool,
)


class CodeWithOneHost(Environment):
    """Python with a network of one host. Isolated: the code runs in a sandbox, and the host's proxy connects."""

    def __init__(self, allow: str) -> None:
        # Who runs the gym says what may be reached, never a task or an agent. False would be no network at all.
        self.sandbox = SandboxSpec(network=(allow,), memory_mib=128)

    @tool
    async def python(self, code: str) -> str:
        """Run Python."""
        result = await (await self.default_sandbox()).run_python(code, timeout_s=20)
        return result.text + result.stderr.decode("utf-8", "replace")

    @tool(final=True)
    async def answer(self, text: str) -> str:
        """Give the answer."""
        connections = (await self.default_sandbox()).connections
        refused = [f"{request.host}:{request.port}" for request in connections if not request.allowed]
        return json.dumps({"answer": text, "refused": refused})


@reward_function
def right_and_inside(episode):
    """1 for the right answer, less 0.5 for each request to another host."""
    handed_in = json.loads(episode.turns[-1].results[-1].content)
    return float(handed_in["answer"] == episode.task.truth) - 0.5 * len(handed_in["refused"])


class PriceList(http.server.BaseHTTPRequestHandler):
    """Stands for the one server that the agent may ask, such as a package index or the documents of an API."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"lamp 42\n")

    def log_message(self, *_: object) -> None:
        return


FETCH = "import urllib.request as u; print(u.urlopen('{}', timeout=10).read().decode())"
DIRECT = "import socket; socket.create_connection(('1.1.1.1', 443), timeout=5)"


async def main() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), PriceList)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    allowed = f"127.0.0.1:{server.server_port}"  # of the public Internet: "example.org", "*.example.org:8443"
    register("acme/one-host-v1", CodeWithOneHost)
    task = Task("price", "acme/one-host-v1", f"What does a lamp cost? http://{allowed}/ knows.", truth="42")
    config = RolloutConfig(reward=right_and_inside, environment_options={"allow": allowed})
    addresses = (f"http://{allowed}/", "http://example.org/", f"http://127.0.0.1:{server.server_port + 1}/")
    programs = [FETCH.format(address) for address in addresses] + [DIRECT]
    calls = [Call("python", {"code": code}) for code in programs] + [Call("answer", {"text": "42"})]
    agent = ScriptedPolicy([Message("assistant", "", (call,)) for call in calls])
    [episode] = await EpisodeManager(agent, config).collect([task])
    for turn in episode.turns:
        print("agent:", *turn.calls[0].arguments.values(), "\n  ->", turn.results[0].content.strip().splitlines()[-1])
    print("reward:", episode.outcome)
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    asyncio.run(main())
