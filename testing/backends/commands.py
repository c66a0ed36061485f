"""Contract: commands."""

from __future__ import annotations

import asyncio

from .check import check_equal, check_raises, checks_of
from .testbed import Target


async def a_command_ends_in_a_result(target: Target) -> None:
    """Exit code, standard output and standard error are returned separately."""
    result = await target.sandbox.exec(["sh", "-c", "echo out; echo err >&2; exit 3"])
    check_equal((result.exit_code, result.stdout, result.stderr), (3, b"out\n", b"err\n"), "exit code and both streams")
    check_equal(
        (result.ok, result.timed_out, result.truncated, result.oom_killed), (False, False, False, False), "flags"
    )


async def a_signal_is_a_negative_exit_code(target: Target) -> None:
    """A command that signal 9 ends has exit code -9, and does not count as a memory kill."""
    result = await target.sandbox.exec(["sh", "-c", "kill -9 $$"])
    check_equal((result.exit_code, result.oom_killed, result.timed_out), (-9, False, False), "a killed command")


async def a_program_that_cannot_run_is_a_result(target: Target) -> None:
    """As in a shell, a missing program gives exit code 127, and a file that is not a program 126."""
    check_equal((await target.sandbox.exec(["no-such-program"])).exit_code, 127, "a program that is not there")
    check_equal((await target.sandbox.exec(["/etc/passwd"])).exit_code, 126, "a file that is no program")
    check_equal((await target.sandbox.exec(["echo", "a\0b"])).exit_code, 126, "an argument with a null character")
    check_equal((await target.sandbox.exec(["pwd"], cwd="/nowhere")).exit_code, 127, "a directory that is not there")


async def arguments_arrive_as_they_are(target: Target) -> None:
    """No shell interprets the arguments: spaces, quotes, stars and dollars are passed unchanged."""
    words = ["a b", "$HOME", "*", ";", "'", '"', "\\", "-n", "", "ümläut", "\n"]
    result = await target.sandbox.exec(["printf", "%s|", *words])
    check_equal(result.stdout.decode(), "|".join([*words, ""]), "arguments")


async def standard_input_arrives_whole(target: Target) -> None:
    """Input arrives unchanged: binary data, three megabytes, and none at all."""
    check_equal((await target.sandbox.exec(["cat"], stdin=b"in\x00put")).stdout, b"in\x00put", "binary input")
    large = bytes(range(256)) * 12_000
    result = await target.sandbox.exec(["wc", "-c"], stdin=large)
    check_equal(result.stdout.split()[:1], [b"%d" % len(large)], "bytes of large input")
    check_equal((await target.sandbox.exec(["cat"])).stdout, b"", "no input")
    check_equal((await target.sandbox.exec(["true"], stdin=large)).exit_code, 0, "input that nobody reads")


async def a_command_runs_in_its_directory_with_its_environment(target: Target) -> None:
    """The working directory is /work unless a call says otherwise; `env` is added for the one call."""
    result = await target.sandbox.exec(["sh", "-c", "pwd; echo $WORD"], cwd="/tmp", env={"WORD": "hello"})
    check_equal(result.stdout, b"/tmp\nhello\n", "cwd and env")
    check_equal((await target.sandbox.exec(["sh", "-c", "pwd; echo $WORD"])).stdout, b"/work\n\n", "the call after it")


async def output_is_capped_at_the_source(target: Target) -> None:
    """Each stream returns at most the requested bytes and reports truncation; a limit of 0 is allowed."""
    result = await target.sandbox.run_python("print('x' * 3_000_000)", max_output_bytes=1000)
    check_equal((len(result.stdout), result.truncated, result.exit_code), (1000, True, 0), "long output")
    result = await target.sandbox.run_python("print('x' * 10)", max_output_bytes=1000)
    check_equal((len(result.stdout), result.truncated), (11, False), "short output")
    result = await target.sandbox.exec(["sh", "-c", "echo a; echo b >&2"], max_output_bytes=0)
    check_equal((result.stdout, result.stderr, result.truncated), (b"", b"", True), "no output wanted")


async def long_output_arrives_where_it_is_asked_for(target: Target) -> None:
    """Three megabytes of output come back whole where the call allows them."""
    result = await target.sandbox.run_python("print('y' * 3_000_000)", max_output_bytes=4_000_000)
    check_equal((len(result.stdout), result.truncated), (3_000_001, False), "long output")


async def output_is_bytes_as_they_were_written(target: Target) -> None:
    """Every byte value arrives, with no line break added or changed."""
    every = bytes(range(256))
    await target.sandbox.write("bytes", every)
    check_equal((await target.sandbox.exec(["cat", "bytes"])).stdout, every, "bytes of a command")
    result = await target.sandbox.run_python("import sys; sys.stdout.buffer.write(bytes(range(256)))")
    check_equal(result.stdout, every, "bytes of Python")


async def a_timeout_is_a_result_and_kills_the_tree(target: Target) -> None:
    """After a timeout no process of the command lives, even if it ignores signals and started its own session."""
    script = "echo before; trap '' TERM INT HUP; (trap '' TERM; setsid sleep 60 &) ; sleep 60; sleep 60"
    async with asyncio.timeout(15):
        result = await target.sandbox.exec(["sh", "-c", script], timeout_s=0.3)
    check_equal((result.timed_out, result.ok), (True, False), "a command that takes too long")
    await target.idle("after a timeout")


async def what_was_written_before_a_timeout_is_kept(target: Target) -> None:
    """Output up to the timeout is part of the result, of commands and of Python."""
    result = await target.sandbox.exec(["sh", "-c", "echo before; sleep 60"], timeout_s=0.3)
    check_equal((result.stdout, result.timed_out), (b"before\n", True), "a command's output")
    result = await target.sandbox.run_python("print('before')\nwhile True: pass", timeout_s=0.3)
    check_equal((result.stdout, result.timed_out), (b"before\n", True), "Python's output")


async def a_cancelled_call_is_killed(target: Target) -> None:
    """Cancelling the caller ends its command, and the sandbox stays usable."""
    running = asyncio.create_task(target.sandbox.run_python("import time\nwhile True: time.sleep(0.01)"))
    await asyncio.sleep(0.1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await target.idle("after a call was cancelled")
    check_equal((await target.sandbox.exec(["echo", "on"])).stdout, b"on\n", "the call after it")


async def calls_run_side_by_side(target: Target) -> None:
    """Eight calls at once each get their own output."""
    calls = (target.sandbox.run_python(f"import time; time.sleep(0.05); print({number})") for number in range(8))
    results = await asyncio.gather(*calls)
    check_equal([result.stdout for result in results], [b"%d\n" % number for number in range(8)], "each gets its own")


async def a_call_that_makes_no_sense_is_refused_before_it_runs(target: Target) -> None:
    """A string instead of a list, no argument or an invalid timeout raises ValueError; the sandbox stays usable."""
    sandbox = target.sandbox
    await check_raises(ValueError, sandbox.exec("echo hello"), "exec of a string")
    await check_raises(ValueError, sandbox.exec([]), "exec of nothing")
    for seconds in (0, -1, float("nan"), float("inf")):
        await check_raises(ValueError, sandbox.run_python("pass", timeout_s=seconds), f"a timeout of {seconds}")
    await check_raises(ValueError, sandbox.exec(["true"], max_output_bytes=-1), "a negative output limit")
    check_equal((await sandbox.exec(["true"])).exit_code, 0, "the call after them")


async def a_result_measures_its_call(target: Target) -> None:
    """Duration and processor time cover only this call, in seconds, and are above 0."""
    result = await target.sandbox.run_python("x = sum(range(2_000_000))")
    check_equal(result.duration_s > 0, True, f"a duration ({result.duration_s})")
    check_equal(result.usage.cpu_s > 0, True, f"processor time ({result.usage.cpu_s})")
    check_equal(result.usage.peak_memory_mib > 0, True, f"peak memory ({result.usage.peak_memory_mib})")


CHECKS = checks_of(
    "contract",
    "Commands",
    a_command_ends_in_a_result,
    a_signal_is_a_negative_exit_code,
    a_program_that_cannot_run_is_a_result,
    arguments_arrive_as_they_are,
    standard_input_arrives_whole,
    a_command_runs_in_its_directory_with_its_environment,
    output_is_capped_at_the_source,
    long_output_arrives_where_it_is_asked_for,
    output_is_bytes_as_they_were_written,
    a_timeout_is_a_result_and_kills_the_tree,
    what_was_written_before_a_timeout_is_kept,
    a_cancelled_call_is_killed,
    calls_run_side_by_side,
    a_call_that_makes_no_sense_is_refused_before_it_runs,
    a_result_measures_its_call,
)
