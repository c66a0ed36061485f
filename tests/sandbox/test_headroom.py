"""Memory that a process has freed goes back to the system when asked, so that sandboxes can take it."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

PROGRAM = """
from pathlib import Path
from agentgym.sandbox.pool.headroom import return_freed_memory

def resident_mib():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) / 1024

blocks = [bytearray(100_000) for _ in range(2000)]
last = blocks[-1]  # the heap ends with it, so that the allocator keeps what is freed below
del blocks
kept = resident_mib()
return_freed_memory()
print(kept - resident_mib())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc returns memory on request")
def test_freed_memory_that_the_allocator_keeps_is_returned():
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert float(done.stdout) > 100  # of 190 MiB


FAULTS = """
import resource, sys
from agentgym.sandbox.pool.headroom import reuse_freed_memory

if sys.argv[1] == "reuse":
    reuse_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    block = bytearray(b"x" * (64 << 20))
    del block
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="only glibc can be told what to keep")
def test_large_blocks_are_reused_and_not_cleared_anew_each_time():
    def faults(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", FAULTS, how], check=True, capture_output=True, text=True)
        return int(done.stdout)

    assert faults("reuse") < 0.3 * faults("")
