"""Control groups of version 2, on machines that have them: limits as root, and in a group delegated to a user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.sandbox.limits import SandboxSpec

TREE = Path("/sys/fs/cgroup")
HERE = Path(__file__).parent
NOBODY = 65534


def offered() -> set[str]:
    path = TREE / "cgroup.controllers"
    return set(path.read_text().split()) if path.exists() else set()


pytestmark = [
    pytest.mark.needs_namespaces,
    pytest.mark.skipif(
        os.geteuid() != 0
        or not {"memory", "cpu", "pids"} <= offered()
        or not os.access(TREE / "cgroup.procs", os.W_OK),
        reason="needs root on a machine whose control groups are all of version 2",
    ),
]


def groups_with(name: str, content: str) -> list[Path]:
    groups = [group / name for group in TREE.glob("**/agentgym-*/*") if (group / name).exists()]
    return [path.parent for path in groups if path.read_text() == content]


async def test_every_limit_is_set_in_one_tree(backend):
    spec = SandboxSpec(memory_mib=100, disk_mib=8, processes=20, cpu_cores=0.5)
    sandbox = await backend.create(spec)
    (group,) = groups_with("memory.max", f"{100 << 20}\n")
    limits = {name: (group / name).read_text().strip() for name in ("pids.max", "cpu.max")}
    assert limits["pids.max"] == "21"
    assert limits["cpu.max"] == "50000 100000"
    result = await sandbox.run_python("x = bytearray(300 << 20)")
    assert (result.ok, result.oom_killed) == (False, True)
    assert (await sandbox.usage()).peak_memory_mib > 50
    await sandbox.close()
    assert not group.exists()


@pytest.fixture
def delegated() -> Iterator[Path]:
    """A group that belongs to an ordinary user, as systemd makes one for Delegate=yes."""
    for name in ("memory", "pids", "cpu"):
        (TREE / "cgroup.subtree_control").write_text(f"+{name}")
    group = TREE / "agentgym-test-delegated"
    group.mkdir()
    for name in ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
        os.chown(group / name, NOBODY, NOBODY)
    yield group
    for path in sorted(group.glob("**/"), reverse=True):
        path.rmdir()


def test_an_ordinary_user_with_a_delegated_group_has_every_limit(delegated):
    command = f"{sys.executable} {HERE}/as_ordinary_user.py {HERE}/rootless_checks.py"
    script = f"echo $$ > {delegated}/cgroup.procs; exec {command}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["level"], report["missing"], report["refused"]) == ("ns+cgroup", {}, "")
    assert report["findings"] == []
    left = [path.name for path in delegated.iterdir() if path.is_dir()]
    assert left == ["agentgym-host"], "where the user's own processes had to go"
