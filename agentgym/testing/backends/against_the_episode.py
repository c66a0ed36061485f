"""Attacks of an agent on its own episode: one that ends as the infrastructure's failure is left out of every rate."""

from __future__ import annotations

from agentgym.testing.backends.check import check_equal, check_not, checks_of
from agentgym.testing.backends.testbed import Target, dedented


async def steering_the_memory_killer(target: Target) -> None:
    """Exempts itself and its parents from memory kills, and fills memory that is nobody's: the guest lives on."""
    code = """
        import os, time
        for pid in ("self", os.getppid(), *filter(str.isdecimal, os.listdir("/proc"))):
            try:
                with open(f"/proc/{pid}/oom_score_adj", "w") as file: file.write("0")
                print("spared", pid, flush=True)
            except OSError: pass
        for _ in range(4):
            if os.fork() == 0: time.sleep(30)
        held = []
        while True:
            held.append(os.memfd_create("x"))
            os.write(held[-1], bytes(4 << 20))
    """
    await target.sandbox.write("fill.py", dedented(code).encode())
    for argv in (["python3", "fill.py"], None):
        result = await (target.sandbox.exec(argv, timeout_s=20) if argv else target.python(code))
        check_equal(result.stdout, b"", "processes that it spared")
        check_equal(result.oom_killed, True, "whether it was killed for its memory")
    check_equal(await target.sandbox.list(), ["fill.py"], "files of the sandbox afterwards")


async def triggers_on_memory_pressure(target: Target) -> None:
    """Asks the kernel to be woken when the whole machine runs short of memory, processors or disk, 200 times."""
    through = await target.through("""
        held = []
        def watch(kind):
            held.append(os.open(f"/proc/pressure/{kind}", os.O_RDWR))
            os.write(held[-1], b"some 150000 2000000\\0")
        for _ in range(200 // 3):
            for kind in ("memory", "cpu", "io"): attempt(kind, lambda: watch(kind))
    """)
    check_not(bool(through), f"{len(through)} triggers were set")


CHECKS = checks_of(
    "attack",
    "Its own episode",
    ("memory", steering_the_memory_killer),
    triggers_on_memory_pressure,
)
