"""The limits of the sandboxes that the tests create by the hundred."""

from __future__ import annotations

from agentgym.sandbox.limits import SandboxSpec

SMALL = SandboxSpec(memory_mib=64, disk_mib=8, inodes=500, processes=16, open_files=64, insecure_ok=True)
