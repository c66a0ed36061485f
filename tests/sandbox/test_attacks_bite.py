"""The attacks work: where nothing isolates, they get through, and say so. Else a table of them would prove nothing.

The sandbox here is none: code runs on the host, as a user who owns nothing. What the kernel itself denies such a
user stays denied, so these are the attacks that need a sandbox to be held.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile

import pytest

from agentgym.sandbox.contract import Capabilities, ExecResult, Usage
from agentgym.testing.backends.check import Breach
from agentgym.testing.backends.runs import ATTACKS
from agentgym.testing.backends.testbed import SPEC, Host, Target

PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or ""
NOBODY = 65534
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not PYTHON, reason="only root can run the attacks as a user who owns nothing"
)


class Nothing:
    """Speaks as much of a sandbox's contract as these attacks need, and isolates nothing."""

    def __init__(self, environment=()) -> None:
        self.environment = dict(environment)
        self.folder = tempfile.mkdtemp(prefix="agentgym-nothing-")
        os.chmod(self.folder, 0o777)

    async def exec(self, argv, *, stdin=b"", cwd=None, env=None, timeout_s=30, max_output_bytes=65_536) -> ExecResult:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            started = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                cwd=self.folder,
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                start_new_session=True,
                env={"PATH": "/usr/bin:/bin", **self.environment},
            )
            try:
                await asyncio.wait_for(started.wait(), timeout_s)
            except TimeoutError:
                started.kill()
                await started.wait()
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(started.pid, signal.SIGKILL)  # children it left behind
            for stream in (out, errors):
                stream.seek(0)
            return ExecResult(started.returncode or 0, out.read(max_output_bytes), errors.read(max_output_bytes))

    async def run_python(self, code, *, session=None, timeout_s=30, max_output_bytes=65_536) -> ExecResult:
        return await self.exec([PYTHON, "-I", "-c", code.replace("/work/", f"{self.folder}/")], timeout_s=timeout_s)

    async def usage(self) -> Usage:
        return Usage()

    async def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class NoBackend:
    """Makes them. Each has the environment variables of all that were made before it."""

    name = "nothing"

    def __init__(self) -> None:
        self.environment = {}

    async def create(self, spec, *, snapshot=None) -> Nothing:
        self.environment.update(spec.environment)
        return Nothing(self.environment)

    async def probe(self) -> Capabilities:
        return Capabilities(True, "process")


BITE = {
    "thread_bomb": "threads were started",
    "memory_bomb_over_many_processes": "at once",
    "memory_in_files_without_a_name": "memory files held",
    "open_files_filler": "files were open",
    "inode_filler": "files were made",
    "disk_filler": "MiB were written",
    "reaching_the_host_over_ipv4": "reached",
    "sockets_of_the_host_in_files": "reached",
    "sockets_without_a_file": "an abstract socket",
    "new_namespaces": "unshare user",
    "privileges": "it holds",
    "flushing_the_disks": "were flushed",
    "evicting_the_cache": "evicted",
    "memberships_that_take_long_to_end": "it made",
    "code_in_the_path_of_packets": "it set",
    "watching_what_others_open": "dnotify",
    "drivers_of_terminals": "line disciplines",
    "terminals_of_all": "terminals",
    "secrets_in_environments_and_arguments": "the word shows",
    "what_an_earlier_sandbox_was_told": "the memory of the next sandbox holds it",
    "files_of_the_host": "the host's own",
    "processes_of_the_host": "its command line",
    "signals_to_everybody": "in sight",
}


@pytest.mark.parametrize("name", BITE)
async def test_an_attack_gets_through_where_nothing_isolates(name):
    (case,) = [attack for attack in ATTACKS if attack.name == name]
    backend, host, sandbox, neighbour = NoBackend(), Host(), Nothing(), Nothing()
    try:
        with pytest.raises((Breach, TimeoutError, AssertionError), match=BITE[name]) as caught:
            await asyncio.wait_for(case.run(Target(backend, sandbox, neighbour, host, SPEC)), 60)
        assert "nothing is proved" not in str(caught.value)
    finally:
        host.close()
        await sandbox.close()
        await neighbour.close()
