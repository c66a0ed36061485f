"""A trainer under a memory limit of its own, as a cluster's job is: whoever fills it, the trainer is not killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.sandbox.guest import oom_score
from agentgym.sandbox.guest.cgroup_mounts import cgroup_mounts, cgroups_of

JOB_MIB, BALLAST_MIB, SANDBOX_MIB = 280, 60, 128  # four sandboxes may use twice what the job has
NAME = f"agentgym-test-job-{os.getpid()}"
TRAINER = """
import asyncio, json, sys
from agentgym.errors import SandboxDied, ToolError
from agentgym.sandbox import NamespacesBackend, SandboxSpec

def touched(mib):
    memory = bytearray(mib << 20)
    memory[:: 4096] = bytes([1]) * len(memory[:: 4096])
    return memory

async def play(sandbox, attack):
    ends = []
    for _ in range(2):
        try:
            result = await sandbox.run_python(attack, timeout_s=30)
            ends.append("killed" if result.oom_killed else "failed" if result.exit_code else "solved")
        except (ToolError, SandboxDied) as error:
            ends.append(type(error).__name__)
    return ends

async def main():
    ballast, backend = touched(int(sys.argv[1])), NamespacesBackend()
    spec = SandboxSpec(memory_mib=int(sys.argv[2]), disk_mib=int(sys.argv[2]) - 40, processes=16)
    sandboxes = [await backend.create(spec) for _ in range(4)]
    ends = await asyncio.gather(*(play(sandbox, sys.argv[3]) for sandbox in sandboxes))
    more = [touched(1) for _ in range(60)]  # it goes on working, which needs memory
    await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))
    another = await backend.create(spec)
    answer = (await another.run_python("print(6 * 7)")).text
    await backend.close()
    print(json.dumps({"ends": ends, "next": answer}))

asyncio.run(main())
"""
# Both try first to be spared by the kernel. What they fill is in the memory of no process.
SPARED = """
import os
for name in ("self", str(os.getppid()), "1"):
    for score in ("-1000", "0"):
        try: open(f"/proc/{name}/oom_score_adj", "w").write(score)
        except OSError: pass
os.fork()
"""
ATTACKS = {
    "memory files": SPARED
    + "held = []\nwhile True: held.append(os.memfd_create('x')); os.write(held[-1], bytes(1 << 20))",
    "files": SPARED
    + """
for number in range(100_000):
    for folder in ("/work", "/tmp", "/dev/shm"):
        with open(f"{folder}/{os.getpid()}-{number}", "wb") as file: file.write(bytes(1 << 20))
""",
}


@pytest.fixture
def job() -> Iterator[Path]:
    """A control group with a limit on memory, for processes to enter."""
    for mount in cgroup_mounts():
        own = mount.group_with("memory", cgroups_of())
        if own is None:
            continue
        group = Path(mount.point, own, NAME) if mount.version == 1 else Path(mount.point, NAME)
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            limit = "memory.limit_in_bytes" if mount.version == 1 else "memory.max"
            (group / limit).write_text(f"{JOB_MIB << 20}")
        except OSError:  # a group of version 2 that does not have the controller
            group.rmdir()
            continue
        yield group
        remove(group)
        return
    pytest.skip("this process may make no control group with a limit on memory")


def remove(group: Path) -> None:
    """A group of processes that have ended, and the groups that a killed spawner left in it."""
    for attempt in range(200):
        try:
            for path in sorted((path for path in group.glob("**/") if path.is_dir()), reverse=True):
                path.rmdir()
            return
        except OSError:
            if attempt == 199:
                raise
            time.sleep(0.02)


@pytest.mark.needs_namespaces
@pytest.mark.skipif(os.geteuid() != 0, reason="needs control groups")
@pytest.mark.parametrize("attack", ATTACKS)
def test_agents_that_fill_the_memory_of_a_job_end_their_own_sandboxes_and_not_the_trainer(job, attack):
    arguments = [sys.executable, "-c", TRAINER, str(BALLAST_MIB), str(SANDBOX_MIB), ATTACKS[attack]]
    enter = ["sh", "-c", f'echo $$ > {job}/cgroup.procs && exec "$@"', "sh"]
    done = subprocess.run([*enter, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    ends = {end for ends in report["ends"] for end in ends}
    # Its disk may fill first, and a guest that goes while it holds little of the job's memory has just died.
    assert ends <= {"killed", "failed", "SandboxExhausted", "SandboxDied"}, report
    assert "killed" in ends
    assert report["next"] == "42\n"


@pytest.mark.parametrize("limit_mib", [64, 128, 512, 4096])
def test_a_guest_is_killed_after_any_agent_in_its_own_group_and_before_the_trainer_in_a_wider_one(limit_mib):
    """The kernel's sum, in MiB: pages + limit x score / 1000. An agent may have no page of its own."""
    guest_mib = 12
    score = oom_score.of_guest(limit_mib << 20, guest_mib << 20)
    assert guest_mib + limit_mib * score / 1000 < limit_mib
    assert oom_score.SPAWNER <= score < 1000
    job_mib, trainer_mib = 2 * limit_mib, limit_mib
    assert guest_mib + job_mib * score / 1000 > trainer_mib
