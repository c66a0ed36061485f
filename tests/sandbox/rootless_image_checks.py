"""What test_rootless runs as an ordinary user on an image, whose Python is this user's from its start; prints JSON."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from rootfs import assemble
from specs import checks_about

from agentgym.errors import ConformanceError
from agentgym.sandbox import rootfs as rootfs_store
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.testing import check_backend
from agentgym.testing.backends.testbed import SPEC


class OfImage(NamespacesBackend):
    """Every sandbox on an image made of the system's Python."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        os.environ["AGENTGYM_CACHE"] = str(folder / "cache")
        self.rootfs = str(assemble(folder / "rootfs", shutil.which("python3", path="/usr/bin") or sys.executable))

    async def create(self, spec, *, snapshot=None):
        image = self.rootfs if spec.image == "host" else spec.image
        return await super().create(dataclasses.replace(spec, image=image), snapshot=snapshot)


async def in_a_writable_root(backend: OfImage) -> str:
    """Return what an image says that a sandbox with a writable root has made."""
    spec = dataclasses.replace(SPEC, image=backend.rootfs, writable_root=True)
    first = await backend.create(spec)
    await first.exec(["sh", "-c", "id -u > /etc/made; rm /usr/bin/seq; chmod 0 /etc/made"])
    base = rootfs_store.prepare_rootfs(backend.rootfs, as_root=True)
    image = rootfs_store.add_layer(base, await first.snapshot(), dict(base.environment))
    second = await backend.create(dataclasses.replace(spec, image=image.digest))
    return (await second.exec(["sh", "-c", "cat /etc/made; ls /usr/bin/seq || echo gone"])).text


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        backend = OfImage(Path(folder))
        try:
            await check_backend(backend, only=checks_about("The guest"))  # rootless_checks.py plays the host's
            findings = []
        except ConformanceError as error:
            findings = error.findings
        sandbox = await backend.create(SPEC)
        await sandbox.write("f", b"x")
        snapshot = await sandbox.snapshot()
        fork = await backend.create(SPEC, snapshot=snapshot)
        stacked = fork._guest.base_snapshot is snapshot
        writable = await in_a_writable_root(backend)
        await backend.close()
    report = {"findings": findings, "digest": sandbox.image_digest[:7], "stacked": stacked, "writable": writable}
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main())
