"""Does a sandbox backend keep its contract? `await check_backend(backend)` runs every check and says what it found."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection

from agentgym.errors import SandboxDied
from agentgym.registry import shared_backend
from agentgym.sandbox.contract import Backend, Capabilities, Sandbox
from agentgym.sandbox.limits import SandboxSpec
from agentgym.testing.attacks import ATTACKS, Attack, Breach
from agentgym.testing.findings import Findings

Check = Callable[[Backend], Awaitable[None]]
SPEC = SandboxSpec(memory_mib=128, disk_mib=16, inodes=2000, processes=32, open_files=64, insecure_ok=True)


async def check_backend(backend: str | Backend, *, attacks: bool = True, only: Collection[str] | None = None) -> None:
    """Run every contract check, and every attack on what the backend says it enforces, each on a fresh sandbox.

    Args:
        backend: a registered name, or a Backend.
        only: names of the checks to run, as `checks` gives them; by default all.
        attacks: run hostile code too. All of it is bounded, but let it meet no backend that isolates nothing.
    Raises: ConformanceError with one finding per check that failed; UnknownNameError.
    """
    backend = shared_backend(backend)
    findings = Findings(f"backend {backend.name!r}")
    capabilities = await backend.probe()
    if not capabilities.available:
        findings.add(f"it is not available here: {capabilities.reason}")
        findings.conclude()
    for name, check in checks(capabilities, attacks=attacks).items():
        if only is not None and name not in only:
            continue
        with findings.no_exception(name.replace("_", " ")):
            await check(backend)
    findings.conclude()


def checks(capabilities: Capabilities, *, attacks: bool = True) -> dict[str, Check]:
    """The checks that a backend of these capabilities has to pass, by name."""
    chosen = {check.__name__: check for check in CHECKS}
    if not capabilities.snapshots:
        del chosen[snapshots_restore_every_file.__name__]
    for name, (needs, attack) in ATTACKS.items() if attacks else ():
        if not needs or needs in capabilities.enforced:
            chosen[name] = _withstood(attack)
    return chosen


def _withstood(attack: Attack) -> Check:
    async def check(backend: Backend) -> None:
        async with opened(backend) as sandbox:
            await attack(sandbox, SPEC)
            result = await sandbox.run_python("print(6 * 7)")
            _same((result.exit_code, result.stdout), (0, b"42\n"), "the sandbox serves the next call")

    return check


@contextlib.asynccontextmanager
async def opened(backend: Backend, spec: SandboxSpec = SPEC) -> AsyncIterator[Sandbox]:
    """A sandbox for as long as the block lasts."""
    sandbox = await backend.create(spec)
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def capabilities_say_what_is_missing(backend: Backend) -> None:
    capabilities: Capabilities = await backend.probe()
    _same(bool(capabilities.level), True, "a backend that is available names its level")
    for name, remedy in capabilities.missing:
        _same(name in capabilities.enforced, False, f"{name} is both enforced and missing")
        _same(bool(remedy), True, f"{name} is missing without a remedy")


async def a_command_ends_in_a_result(backend: Backend) -> None:
    async with opened(backend) as sandbox:
        result = await sandbox.exec(["sh", "-c", "echo out; echo err >&2; exit 3"])
        _same((result.exit_code, result.stdout, result.stderr), (3, b"out\n", b"err\n"), "exit code and both streams")
        _same((await sandbox.exec(["sh", "-c", "kill -9 $$"])).exit_code, -9, "a signal is a negative exit code")
        _same((await sandbox.exec(["no-such-program"])).exit_code, 127, "a missing program is a result")


async def a_command_gets_its_input_directory_and_environment(backend: Backend) -> None:
    async with opened(backend) as sandbox:
        result = await sandbox.exec(["cat"], stdin=b"in\x00put")
        _same(result.stdout, b"in\x00put", "standard input arrives")
        large = bytes(range(256)) * 12_000
        result = await sandbox.exec(["wc", "-c"], stdin=large)
        _same(result.stdout.split()[:1], [b"%d" % len(large)], "large standard input arrives")
        result = await sandbox.exec(["sh", "-c", "pwd; echo $WORD"], cwd="/tmp", env={"WORD": "hello"})
        _same(result.stdout, b"/tmp\nhello\n", "cwd and env")
        _same((await sandbox.exec(["pwd"])).stdout, b"/work\n", "the working directory is /work")
        _same((await sandbox.exec(["cat"])).stdout, b"", "no standard input is an empty one")


async def a_timeout_is_a_result_and_kills_the_tree(backend: Backend) -> None:
    async with opened(backend) as sandbox:
        script = "echo before; trap '' TERM INT HUP; (trap '' TERM; setsid sleep 60 &) ; sleep 60; sleep 60"
        started = time.monotonic()
        result = await sandbox.exec(["sh", "-c", script], timeout_s=0.3)
        _same(result.timed_out, True, "timed_out is set")
        _same(result.stdout, b"before\n", "what was written before the timeout is kept")
        _same(time.monotonic() - started < 10, True, "the timeout is kept")
        result = await sandbox.run_python("while True: pass", timeout_s=0.3)
        _same((result.timed_out, result.ok), (True, False), "an endless loop times out")
        _same(await _process_count(sandbox), 0, "processes left after a timeout")


async def output_is_capped_at_the_source(backend: Backend) -> None:
    async with opened(backend) as sandbox:
        result = await sandbox.run_python("print('x' * 3_000_000)", max_output_bytes=1000)
        _same((len(result.stdout), result.truncated, result.exit_code), (1000, True, 0), "long output is cut")
        result = await sandbox.run_python("print('x' * 10)", max_output_bytes=1000)
        _same(result.truncated, False, "short output is not cut")


async def python_calls_share_nothing_but_files(backend: Backend) -> None:
    async with opened(backend) as sandbox:
        await sandbox.run_python("import builtins; builtins.word = 1; open('kept', 'w').write('file')")
        result = await sandbox.run_python("import builtins; print(hasattr(builtins, 'word'), open('kept').read())")
        _same(result.stdout, b"False file\n", "variables go, files stay")
        result = await sandbox.run_python("print('a'); 1/0")
        _same((result.exit_code, result.stdout), (1, b"a\n"), "an exception is exit code 1")
        _same(b"ZeroDivisionError" in result.stderr, True, "the traceback is on stderr")
        _same(result.ok, False, "an exception is not ok")
        _same((await sandbox.run_python("import sys; sys.exit(7)")).exit_code, 7, "sys.exit sets the exit code")
        _same((await sandbox.run_python("def (")).exit_code, 1, "a syntax error is exit code 1")


async def a_session_keeps_its_variables(backend: Backend) -> None:
    async with opened(backend) as sandbox:
        await sandbox.run_python("x = 20", session="a")
        _same((await sandbox.run_python("print(x + 1)", session="a")).stdout, b"21\n", "a variable stays")
        _same((await sandbox.run_python("print(x)", session="b")).exit_code, 1, "sessions are separate")
        await sandbox.run_python("1/0", session="a")
        _same((await sandbox.run_python("print(x)", session="a")).stdout, b"20\n", "an exception ends no session")
        result = await sandbox.run_python("while True: pass", session="b", timeout_s=0.3)
        _same(result.timed_out, True, "a session call times out")
        _same(
            (await sandbox.run_python("print(x)", session="a")).stdout, b"20\n", "one session's timeout spares others"
        )
        result = await sandbox.run_python("import os; os._exit(3)", session="a")
        _same(result.exit_code, 3, "a session may end itself")
        _same((await sandbox.run_python("print(1)", session="a")).stdout, b"1\n", "and starts again")


async def files_are_read_written_and_listed(backend: Backend) -> None:
    async with opened(backend) as sandbox:
        content = bytes(range(256)) * 8000
        await sandbox.write("deep/er/file.bin", content)
        _same(await sandbox.read("/work/deep/er/file.bin"), content, "content written is content read")
        await sandbox.write("deep/er/file.bin", b"short", mode=0o755)
        _same(await sandbox.read("deep/er/file.bin"), b"short", "a file is replaced")
        await sandbox.write("b", b"")
        _same(await sandbox.list(), ["b", "deep/"], "names are sorted, directories end with a slash")
        for path, error in (("none", FileNotFoundError), ("deep", IsADirectoryError)):
            await _raises(error, sandbox.read(path), f"read({path!r})")
        await _raises(ValueError, sandbox.read("deep/er/file.bin", max_bytes=4), "read of too large a file")
        await _raises(OSError, sandbox.write("big", bytes(SPEC.disk_mib * 2**20 + 2**20)), "write to a full disk")
        await _raises(OSError, sandbox.write("/usr/x", b""), "write outside")


async def a_channel_answers_line_by_line(backend: Backend) -> None:
    script = "import sys, json\nfor line in sys.stdin: print(json.dumps(json.loads(line) * 2), flush=True)"
    async with opened(backend) as sandbox:
        channel = await sandbox.open_channel(["python3", "-c", script])
        _same([await channel.request(3), await channel.request("ab")], [6, "abab"], "answers in order")
        await sandbox.run_python("pass")
        _same(await channel.request([1]), [1, 1], "a call beside it does not end a channel")
        await channel.close()
        await channel.close()


async def calls_run_side_by_side(backend: Backend) -> None:
    async with opened(backend) as sandbox:
        results = await asyncio.gather(
            *(sandbox.run_python(f"import time; time.sleep(0.05); print({number})") for number in range(8))
        )
        _same([result.stdout for result in results], [b"%d\n" % number for number in range(8)], "each gets its own")


async def a_cancelled_call_is_killed(backend: Backend) -> None:
    async with opened(backend) as sandbox:
        running = asyncio.create_task(sandbox.run_python("import time\nwhile True: time.sleep(0.01)"))
        await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        _same(await _process_count(sandbox), 0, "processes left by a cancelled call")


async def reset_starts_afresh(backend: Backend) -> None:
    async with opened(backend) as sandbox:
        await sandbox.write("file", b"x")
        await sandbox.run_python("x = 1", session="a")
        await sandbox.reset()
        _same(await sandbox.list(), [], "files after a reset")
        _same((await sandbox.run_python("print(x)", session="a")).exit_code, 1, "a session after a reset")


async def snapshots_restore_every_file(backend: Backend) -> None:
    async with opened(backend) as sandbox:
        await sandbox.write("a/b", b"content", mode=0o750)
        await sandbox.exec(["sh", "-c", "ln -s a/b link; mkdir empty; echo t > /tmp/t"])
        first = await sandbox.snapshot()
        restored = await backend.create(SPEC, snapshot=first)
        try:
            _same(await restored.list(), ["a/", "empty/", "link"], "names restored")
            result = await restored.exec(["sh", "-c", "cat link /tmp/t; stat -c %a a/b"])
            _same(result.stdout, b"contentt\n750\n", "contents, links and modes restored")
            _same((await restored.snapshot()).id, first.id, "the same files have the same id")
            await restored.write("a/b", b"other")
            _same((await restored.snapshot()).id == first.id, False, "other files have another id")
            await restored.reset()
            _same(await restored.read("a/b"), b"content", "a reset goes back to the snapshot")
        finally:
            await restored.close()


async def close_is_final_and_may_be_repeated(backend: Backend) -> None:
    sandbox = await backend.create(SPEC)
    await sandbox.close()
    await sandbox.close()
    await _raises(SandboxDied, sandbox.run_python("pass"), "a call after close")
    await _raises(SandboxDied, sandbox.read("x"), "a read after close")


async def sandboxes_are_apart(backend: Backend) -> None:
    async with opened(backend) as one, opened(backend) as other:
        await one.exec(["sh", "-c", "echo x | tee /work/f /tmp/f /dev/shm/f"])
        result = await other.exec(["sh", "-c", "cat /work/f /tmp/f /dev/shm/f; true"])
        _same(result.stdout, b"", "files of another sandbox")


async def usage_counts(backend: Backend) -> None:
    async with opened(backend) as sandbox:
        await sandbox.write("file", bytes(2**20))
        result = await sandbox.run_python("x = sum(range(3_000_000))")
        usage = await sandbox.usage()
        _same(result.usage.cpu_s > 0 and usage.cpu_s > 0, True, "processor time is counted")
        _same(usage.disk_bytes >= 2**20, True, "disk use is counted")


CHECKS: tuple[Check, ...] = (
    capabilities_say_what_is_missing, a_command_ends_in_a_result, a_command_gets_its_input_directory_and_environment,
    a_timeout_is_a_result_and_kills_the_tree, output_is_capped_at_the_source, python_calls_share_nothing_but_files,
    a_session_keeps_its_variables, files_are_read_written_and_listed, a_channel_answers_line_by_line,
    calls_run_side_by_side, a_cancelled_call_is_killed, reset_starts_afresh, snapshots_restore_every_file,
    close_is_final_and_may_be_repeated, sandboxes_are_apart, usage_counts,
)  # fmt: skip


async def _process_count(sandbox: Sandbox) -> int:
    """Processes alive but the guest, looked for a little while: the dying are not counted."""
    for _ in range(50):
        count = (await sandbox.usage()).processes
        if count == 0:
            break
        await asyncio.sleep(0.02)
    return count


async def _raises(kind: type[BaseException], awaitable: Awaitable[object], what: str) -> None:
    try:
        got = await awaitable
    except kind:
        return
    raise Breach(f"{what} returned {got!r:.100}; {kind.__name__} was expected")


def _same(got: object, expected: object, what: str) -> None:
    if got != expected:
        raise Breach(f"{what}: got {got!r:.300}, expected {expected!r:.300}")
