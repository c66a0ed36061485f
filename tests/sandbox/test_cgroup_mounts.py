"""Where the groups of a process are, for both versions of control groups and behind a container's own view."""

from __future__ import annotations

import pytest

from agentgym.sandbox.guest import cgroup_mounts as module
from agentgym.sandbox.guest.cgroup_mounts import CgroupMount, cgroup_mounts, cgroups_of

MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 /docker/4f /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
38 31 0:35 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
"""
GROUPS = "5:memory:/docker/4f/agentgym-7\n3:cpu,cpuacct:/user.slice\n1:name=systemd:/\n0::/user.slice/session-2.scope\n"


@pytest.fixture
def _kernel(monkeypatch):
    texts = {"/proc/self/mountinfo": MOUNTS, "/proc/7/cgroup": GROUPS}
    monkeypatch.setattr(module, "_lines", lambda path: texts.get(path, "").splitlines())


@pytest.mark.usefixtures("_kernel")
def test_a_group_is_found_in_each_hierarchy_that_has_the_controller():
    memory, cpu, unified = cgroup_mounts()
    groups = cgroups_of(7)
    assert memory == CgroupMount(1, "/sys/fs/cgroup/memory", "/docker/4f", ("rw", "memory"))
    assert memory.group_with("memory", groups) == "agentgym-7"
    assert memory.group_with("cpu", groups) is None
    assert cpu.group_with("cpuacct", groups) == "user.slice"
    assert unified.group_with("memory", groups) == "user.slice/session-2.scope"
    assert cgroups_of(8) == {}
    assert memory.group_with("memory", {}) is None


@pytest.mark.parametrize(
    ("root", "group", "inside"),
    [("/", "/", ""), ("/", "/a/b", "a/b"), ("/a", "/a", ""), ("/a", "/a/b", "b"), ("/a", "/ab", "ab")],
)
def test_a_path_counts_from_the_group_that_is_mounted(root, group, inside):
    assert CgroupMount(2, "/sys/fs/cgroup", root, ()).inside(group) == inside
