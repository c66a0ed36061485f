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
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.testing import check_backend
from agentgym.testing.backends.testbed import SPEC


class OfImage(NamespacesBackend):
    """Every sandbox on an image made of the system's Python."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        os.environ["AGENTGYM_CACHE"] = str(folder / "cache")
        self._rootfs = str(assemble(folder / "rootfs", shutil.which("python3", path="/usr/bin") or sys.executable))

    async def create(self, spec, *, snapshot=None):
        image = self._rootfs if spec.image == "host" else spec.image
        return await super().create(dataclasses.replace(spec, image=image), snapshot=snapshot)


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
        await backend.close()
    print(json.dumps({"findings": findings, "digest": sandbox.image_digest[:7], "stacked": stacked}))


if __name__ == "__main__":
    asyncio.run(main())
