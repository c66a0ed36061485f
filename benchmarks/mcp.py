"""The cost of an MCP server in a sandbox: memory, the start of many at once, and a call.

    python benchmarks/mcp.py [--servers 100] [--calls 500]

Each server is that of `mcp/stockroom-v1`, in a separate sandbox behind our bridge, as in an episode. A call is
compared, in the same run, with a call of the same server as a child of this process, over plain pipes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agentgym import Call, Task, close_backends, load_task_set, make, shared_backend
from agentgym.tasks.stockroom import server_source

CALL = Call("look", {"shelf": "A1"})


def bare_call_s(task: Task, calls: int) -> float:
    """Return the seconds of a call of the server behind bare pipes."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "stock.json").write_text(task.parameters["files"]["stock.json"])
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        with subprocess.Popen([sys.executable, "-S", "-c", server_source().decode()], cwd=folder, **pipes) as server:
            params = {"name": CALL.name, "arguments": CALL.arguments}
            line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}) + "\n"
            for call in range(calls + 1):
                if call == 1:  # the first waited for the start
                    start = time.perf_counter()
                server.stdin.write(line)
                assert '"isError": false' in server.stdout.readline()
            seconds = (time.perf_counter() - start) / calls
            server.stdin.close()
    return seconds


async def measure(servers: int, calls: int) -> dict[str, str]:
    """Measure everything. Returns: the rows of the table."""
    task = load_task_set("mcp/stockroom-v1")["train"][0]
    environments = [make(task.environment) for _ in range(servers)]
    start = time.perf_counter()
    await environments[0].reset(task, seed=0)
    first_s = time.perf_counter() - start
    results = [await environments[0].call(CALL) for _ in range(calls)]
    call_s = sum(result.duration_s for result in results) / calls
    assert all(result.ok for result in results)
    start = time.perf_counter()
    await asyncio.gather(*(environment.reset(task, seed=0) for environment in environments[1:]))
    all_s = time.perf_counter() - start
    assert all(result.ok for result in await asyncio.gather(*(environment.call(CALL) for environment in environments)))
    memory = [running.memory_mib for running in await shared_backend("namespaces").running()]
    await asyncio.gather(*(environment.close() for environment in environments))
    await close_backends()
    bare_s = bare_call_s(task, calls)
    return {
        "servers at once": f"{servers}, all started in {first_s + all_s:.1f} s",
        "start of the first": f"{first_s * 1000:.0f} ms",
        "memory of a sandbox with its server": f"{sum(memory) / len(memory):.1f} MiB",
        "a call": f"{call_s * 1e6:.0f} us",
        "the same behind bare pipes": f"{bare_s * 1e6:.0f} us, a ratio of {call_s / bare_s:.1f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=int, default=100)
    parser.add_argument("--calls", type=int, default=500)
    options = parser.parse_args()
    table = Table(show_header=False)
    for name, text in asyncio.run(measure(options.servers, options.calls)).items():
        table.add_row(name, text)
    Console().print(table)


if __name__ == "__main__":
    main()
