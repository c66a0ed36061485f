"""What test_rootless runs as an ordinary user; prints one JSON object."""

from __future__ import annotations

import asyncio
import json
import os
import time

from agentgym.errors import ConformanceError, LimitUnenforceable
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.namespaces import NamespacesBackend
from agentgym.testing.backends import check_backend


async def main() -> None:
    backend = NamespacesBackend()
    capabilities = await backend.probe()
    said: dict[str, object] = {
        "uid": os.getuid(), "available": capabilities.available, "level": capabilities.level,
        "missing": dict(capabilities.missing), "reason": capabilities.reason, "refused": "", "findings": [],
    }  # fmt: skip
    try:
        await (await backend.create(SandboxSpec())).close()
    except LimitUnenforceable as error:
        said["refused"] = str(error)
    try:
        await check_backend(backend)
    except ConformanceError as error:
        said["findings"] = error.findings
    sandbox = await backend.create(SandboxSpec(insecure_ok=True))
    said["outside"] = (await sandbox.run_python("print(open('/proc/self/uid_map').read())")).text.split()
    times = []
    for _ in range(20):
        started = time.perf_counter()
        await sandbox.run_python("pass")
        times.append(time.perf_counter() - started)
    said["run_ms"] = sorted(times)[10] * 1000
    await backend.close()
    print(json.dumps(said))


asyncio.run(main())
