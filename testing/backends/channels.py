"""Contract: long-lived processes spoken to line by line."""

from __future__ import annotations

from agentgym import SandboxDied

from .check import check_equal, check_raises, checks_of
from .testbed import Target

_DOUBLE = "import sys, json\nfor line in sys.stdin: print(json.dumps(json.loads(line) * 2), flush=True)"


async def a_channel_answers_line_by_line(target: Target) -> None:
    """Each request gets the next line as its answer, also values of a megabyte."""
    channel = await target.sandbox.open_channel(["python3", "-c", _DOUBLE])
    check_equal([await channel.request(3), await channel.request("ab")], [6, "abab"], "answers in order")
    check_equal(len(await channel.request("x" * 2**20)), 2**21, "a long answer")
    await channel.close()
    await channel.close()


async def a_channel_outlives_the_calls_beside_it(target: Target) -> None:
    """Neither a call that ends nor one that times out ends a channel."""
    channel = await target.sandbox.open_channel(["python3", "-c", _DOUBLE])
    await target.sandbox.run_python("pass")
    await target.sandbox.exec(["sleep", "9"], timeout_s=0.1)
    check_equal(await channel.request([1]), [1, 1], "an answer after other calls")
    await channel.close()


async def a_channel_that_is_closed_leaves_no_process(target: Target) -> None:
    """Closing a channel ends its process and all below it."""
    channel = await target.sandbox.open_channel(["sh", "-c", "sleep 60 & setsid sleep 60 & cat"])
    check_equal(await channel.request(1), 1, "an answer")
    await channel.close()
    await target.idle("after their channel was closed")
    await check_raises(SandboxDied, channel.request(1), "a request to a closed channel")


async def a_channel_that_ends_says_its_last_words(target: Target) -> None:
    """If the process ends or does not answer in JSON, SandboxDied has what it wrote to standard error."""
    for command, words in (
        (["sh", "-c", "read x; echo not json; echo why >&2; sleep 9"], "JSON"),
        (["sh", "-c", "echo why >&2; exit 1"], "why"),
    ):
        channel = await target.sandbox.open_channel(command)
        error = await check_raises(SandboxDied, channel.request(1), f"a request to {command}")
        check_equal(words in str(error), True, f"the reason is said ({error})")
        await check_raises(SandboxDied, channel.request(1), "another request")
    check_equal((await target.sandbox.exec(["echo", "on"])).stdout, b"on\n", "the sandbox goes on")


async def a_program_that_is_not_there_is_no_channel(target: Target) -> None:
    """A program that cannot be run is reported by opening the channel or by its first request."""

    async def ask() -> object:
        return await (await target.sandbox.open_channel(["no-such-program"])).request(1)

    error = await check_raises((SandboxDied, OSError), ask(), "a channel to a program that is not there")
    check_equal("o such file" in str(error), True, f"the reason is said ({error})")


async def a_channel_that_is_silent_times_out(target: Target) -> None:
    """If there is no answer in time, TimeoutError is raised; this ends the channel, not the sandbox."""
    channel = await target.sandbox.open_channel(["sleep", "30"])
    await check_raises(TimeoutError, channel.request(1, timeout_s=0.1), "a request that is not answered")
    await check_raises(SandboxDied, channel.request(1), "a request after the timeout")
    await target.idle("after their channel timed out")


CHECKS = checks_of(
    "contract",
    "Channels",
    a_channel_answers_line_by_line,
    a_channel_outlives_the_calls_beside_it,
    a_channel_that_is_closed_leaves_no_process,
    a_channel_that_ends_says_its_last_words,
    a_program_that_is_not_there_is_no_channel,
    a_channel_that_is_silent_times_out,
)
