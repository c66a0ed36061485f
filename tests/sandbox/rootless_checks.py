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
    await sandbox.run_python("import os; os.mkdir('d'); open('d/f', 'w').write('x' * 9999)")
    snapshot = await sandbox.snapshot()
    fork = await backend.create(SandboxSpec(insecure_ok=True), snapshot=snapshot)
    machine = fork._machine
    await fork.run_python("import os; os.remove('d/f'); os.rmdir('d'); open('d', 'w').close(); open('/tmp/t', 'w')")
    changed = await fork.snapshot()
    again = await backend.create(SandboxSpec(insecure_ok=True), snapshot=changed)
    await fork.reset()
    said["layers"] = {
        "stacked": machine.stacked is snapshot and again._machine.stacked is changed,
        "same": [(await fork.snapshot()).id == snapshot.id, (await again.snapshot()).id == changed.id],
        "in_place": fork._machine is machine,
        "seen": (await again.exec(["sh", "-c", "ls -a /tmp /tmp/.. /dev/shm | grep -E '^[0-9a-f]{64}$|changes'"])).text,
    }
    await backend.close()
    print(json.dumps(said))


if __name__ == "__main__":
    asyncio.run(main())
