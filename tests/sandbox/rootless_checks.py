"""What test_rootless runs as an ordinary user; prints one JSON object."""

from __future__ import annotations

import asyncio
import json
import os

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
    await backend.close()
    print(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main())
