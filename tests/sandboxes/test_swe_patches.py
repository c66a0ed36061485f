"""Patches as files and models hand them in."""

from __future__ import annotations

import pytest

from agentgym import SandboxSpec
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.sandboxes.swe.repository import ROOT, apply_patch

PATCH = """--- a/one.txt
+++ b/one.txt
@@ -1,2 +1,2 @@
 kept
-old
+new
"""


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("patch", [PATCH, PATCH.rstrip("\n")], ids=["whole", "without its last newline"])
async def test_a_patch_is_applied(patch):
    backend = NamespacesBackend()
    sandbox = await backend.create(SandboxSpec(accept_weaker=("all",)))
    try:
        await sandbox.write(f"{ROOT}/one.txt", b"kept\nold\n")
        await apply_patch(sandbox, patch)
        assert await sandbox.read(f"{ROOT}/one.txt") == b"kept\nnew\n"
    finally:
        await sandbox.close()
        await backend.close()
