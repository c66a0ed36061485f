"""The limits of the sandboxes that the tests create by the hundred."""

from __future__ import annotations

from agentgym.sandbox.limits import SandboxSpec
from agentgym.testing.backends import ATTACKS, CONTRACT

SMALL = SandboxSpec(memory_mib=64, disk_mib=8, inodes=500, processes=16, open_files=64, insecure_ok=True)

OF_THE_HOST = ("A guest that was taken over", "A channel's process")
"""Themes of attacks on the host's own code, which is the same whatever a sandbox is made of."""
OF_THE_SANDBOX = [check.name for check in (*CONTRACT, *ATTACKS) if check.theme not in OF_THE_HOST]
"""The checks for sandboxes that differ only inside; test_backend_contract runs all of them on every backend."""
