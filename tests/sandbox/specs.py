"""The limits of the sandboxes that the tests create by the hundred, and which checks of the kit a variant is played."""

from __future__ import annotations

import os

from agentgym.sandbox.limits import SandboxSpec
from agentgym.testing.backends.runs import ATTACKS, CONTRACT

SMALL = SandboxSpec(memory_mib=64, disk_mib=8, inodes=500, processes=16, open_files=64, accept_weaker=("all",))


def checks_about(*themes: str) -> list[str]:
    """Return the names of the checks that a variant of a backend is played: those of its themes, which it could break.

    test_backend_contract.py plays every check on namespaces. `make test-all` sets AGENTGYM_TEST_ALL, and
    then every check is played on every backend and variant.
    """
    cases = (*CONTRACT, *ATTACKS)
    unknown = set(themes) - {case.theme for case in cases}
    assert not unknown, f"no check is about {unknown}"
    return [case.name for case in cases if case.theme in themes or "AGENTGYM_TEST_ALL" in os.environ]
