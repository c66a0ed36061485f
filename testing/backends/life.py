"""Contract: from creation to close."""

from __future__ import annotations

import asyncio

from agentgym import SandboxDied
from agentgym.sandbox import Sandbox

from .check import check_equal, check_raises, checks_of
from .testbed import Target, growth, settled


async def a_new_sandbox_is_empty(target: Target) -> None:
    """A new sandbox has no file in /work and /tmp and no process; the agent starts in /work as its own user."""
    check_equal([await target.sandbox.list(), await target.sandbox.list("/tmp")], [[], []], "files of a new sandbox")
    check_equal((await target.sandbox.usage()).processes, 0, "processes of a new sandbox")
    result = await target.sandbox.run_python("import os; print(os.getcwd(), os.getuid() != 0, os.getgid() != 0)")
    check_equal(result.stdout, b"/work True True\n", "directory and user")


async def reset_starts_afresh(target: Target) -> None:
    """After a reset no earlier file and no earlier session exists."""
    await target.sandbox.exec(["sh", "-c", "echo x | tee /work/f /tmp/f /dev/shm/f"])
    await target.sandbox.run_python("x = 1", session="a")
    await target.sandbox.reset()
    result = await target.sandbox.exec(["sh", "-c", "ls -A /work /tmp; cat /dev/shm/f"])
    check_equal(result.stdout, b"/tmp:\n\n/work:\n", "files after a reset")
    check_equal((await target.sandbox.run_python("print(x)", session="a")).exit_code, 1, "a session after a reset")
    await target.sandbox.write("f", b"y")
    check_equal(await target.sandbox.read("f"), b"y", "a file written after a reset")


async def reset_ends_what_ran(target: Target) -> None:
    """A reset ends the processes of sessions and channels, and earlier channels are dead."""
    await target.sandbox.run_python("import subprocess; p = subprocess.Popen(['sleep', '50'])", session="a")
    channel = await target.sandbox.open_channel(["cat"])
    await target.sandbox.reset()
    await target.idle("after a reset")
    await check_raises(SandboxDied, channel.request(1), "a request to a channel of before the reset")


async def reset_may_be_repeated(target: Target) -> None:
    """Ten resets in a row, with work in between, leave a sandbox that works."""
    for number in range(10):
        await target.sandbox.write("f", b"%d" % number)
        await target.sandbox.reset()
    check_equal(await target.sandbox.list(), [], "files")
    check_equal((await target.sandbox.run_python("print(1)")).stdout, b"1\n", "an answer")


async def close_is_final_and_may_be_repeated(target: Target) -> None:
    """Every call after close raises SandboxDied; closing twice, or concurrently, is not an error."""
    sandbox = await target.backend.create(target.spec)
    await asyncio.gather(sandbox.close(), sandbox.close())
    await sandbox.close()
    await check_raises(SandboxDied, sandbox.run_python("pass"), "a Python call after close")
    await check_raises(SandboxDied, sandbox.exec(["true"]), "a command after close")
    await check_raises(SandboxDied, sandbox.read("x"), "a read after close")


async def close_ends_the_calls_under_way(target: Target) -> None:
    """Every waiting call raises SandboxDied when the sandbox is closed."""
    sandbox = await target.backend.create(target.spec)
    waiting = [
        asyncio.create_task(sandbox.exec(["sleep", "60"], timeout_s=90)),
        asyncio.create_task(sandbox.run_python("while True: pass", timeout_s=90)),
    ]
    await asyncio.sleep(0.1)
    async with asyncio.timeout(20):
        await sandbox.close()
        for task in waiting:
            await check_raises(SandboxDied, task, "a call under way at close")


async def sandboxes_are_apart(target: Target) -> None:
    """No sandbox sees the files that another one writes, at any writable path."""
    await target.sandbox.exec(["sh", "-c", "echo x | tee /work/f /tmp/f /dev/shm/f"])
    async with target.another() as other:
        result = await other.exec(["sh", "-c", "cat /work/f /tmp/f /dev/shm/f; true"])
        check_equal(result.stdout, b"", "files of another sandbox")


async def a_cancelled_creation_leaves_nothing(target: Target) -> None:
    """Creations cancelled at different moments leave no sandbox, process or descriptor."""
    before = await settled(target.backend)
    for pause in (0.0, 0.002, 0.006, 0.02):
        creating: asyncio.Task[Sandbox] = asyncio.create_task(target.backend.create(target.spec))
        await asyncio.sleep(pause)
        creating.cancel()
        for created in await asyncio.gather(creating, return_exceptions=True):
            if not isinstance(created, BaseException):
                await created.close()
    check_equal(await growth(target.backend, before), {}, "left by creations that were cancelled")


async def a_closed_sandbox_leaves_nothing(target: Target) -> None:
    """With a session, a channel and a file: after close the host has as many processes and descriptors as before."""
    before = await settled(target.backend)
    for _ in range(10):
        async with target.another() as sandbox:
            await sandbox.run_python("x = 1", session="a")
            await sandbox.open_channel(["cat"])
            await sandbox.write("file", bytes(2**20))
    check_equal(await growth(target.backend, before), {}, "left by sandboxes that were closed")


CHECKS = checks_of(
    "contract",
    "From creation to close",
    a_new_sandbox_is_empty,
    reset_starts_afresh,
    reset_ends_what_ran,
    reset_may_be_repeated,
    close_is_final_and_may_be_repeated,
    close_ends_the_calls_under_way,
    sandboxes_are_apart,
    a_cancelled_creation_leaves_nothing,
    a_closed_sandbox_leaves_nothing,
)
