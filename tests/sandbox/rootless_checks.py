"""What test_rootless runs as an ordinary user; prints one JSON object."""

from __future__ import annotations

import asyncio
import json
import os

from specs import checks_about

from agentgym.errors import ConformanceError, LimitUnenforceable
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.testing import check_backend
from agentgym.testing.backends.testbed import SPEC

SUM = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        held = []
        while True: held.append(bytearray(2 << 20)); time.sleep(0.005)
print([os.wait()[1] for _ in range(6)].count(9))
"""
HIDDEN = """
import os, time
held = [os.memfd_create(str(n)) for n in range(40)]
for descriptor in held:
    for _ in range(15): os.write(descriptor, bytes(1 << 20))
    time.sleep(0.02)
time.sleep(20)
"""
MODEST = """
import os, time
for _ in range(20):
    if os.fork() == 0: time.sleep(0.5); os._exit(0)
held = bytearray(60 << 20)
for _ in range(20): os.wait()
print("done")
"""


SPIN = """
import os, time
started = time.monotonic()
for _ in range(3):
    if os.fork() == 0:
        while time.monotonic() - started < 1.5: pass
        os._exit(0)
for _ in range(3): os.wait()
took = os.times()
print((took.children_user + took.children_system) / (time.monotonic() - started))
"""


async def watched(backend: NamespacesBackend) -> dict[str, object]:
    """What the watchdog does to more memory, and more processors, than the spec gives all processes together."""
    sandbox = await backend.create(SPEC)
    await sandbox.run_python("x = 1", session="kept")
    results = {
        name: await sandbox.run_python(code, timeout_s=20)
        for name, code in (("sum", SUM), ("hidden", HIDDEN), ("modest", MODEST), ("spin", SPIN))
    }
    return {
        **{name: [result.ok, result.oom_killed] for name, result in results.items()},
        "killed": int(results["sum"].text),
        "cores": float(results["spin"].text),
        "kept": (await sandbox.run_python("print(x)", session="kept")).text,
        "peak_mib": (await sandbox.usage()).peak_memory_mib,
    }


async def main() -> None:
    backend = NamespacesBackend()
    capabilities = await backend.probe()
    report: dict[str, object] = {
        "uid": os.getuid(),
        "available": capabilities.available,
        "level": capabilities.level,
        "missing": dict(capabilities.missing),
        "reason": capabilities.reason,
        "refused": "",
        "findings": [],
    }
    try:
        await (await backend.create(SandboxSpec())).close()
    except LimitUnenforceable as error:
        report["refused"] = str(error)
    try:
        # Without root there are other limits, and the host's files belong to the user of the sandboxes.
        themes = ("What a backend promises", "Using up what there is", "The host")
        await check_backend(backend, only=checks_about(*themes))
    except ConformanceError as error:
        report["findings"] = error.findings
    sandbox = await backend.create(SandboxSpec(accept_weaker=("all",)))
    report["outside"] = (await sandbox.run_python("print(open('/proc/self/uid_map').read())")).text.split()
    report["watched"] = dict.fromkeys(capabilities.watched, "")
    if capabilities.watched:
        report["watchdog"] = await watched(backend)
    await sandbox.run_python("import os; os.mkdir('d'); open('d/f', 'w').write('x' * 9999)")
    snapshot = await sandbox.snapshot()
    fork = await backend.create(SandboxSpec(accept_weaker=("all",)), snapshot=snapshot)
    guest = fork._guest
    await fork.run_python("import os; os.remove('d/f'); os.rmdir('d'); open('d', 'w').close(); open('/tmp/t', 'w')")
    changed = await fork.snapshot()
    second = await backend.create(SandboxSpec(accept_weaker=("all",)), snapshot=changed)
    await fork.reset()
    report["layers"] = {
        "stacked": guest.base_snapshot is snapshot and second._guest.base_snapshot is changed,
        "same": [(await fork.snapshot()).id == snapshot.id, (await second.snapshot()).id == changed.id],
        "seen": (
            await second.exec(["sh", "-c", "ls -a /tmp /tmp/.. /dev/shm | grep -E '^[0-9a-f]{64}$|changes'"])
        ).text,
    }
    await backend.close()
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main())
