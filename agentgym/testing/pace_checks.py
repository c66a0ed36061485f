"""Checks that tools return, and do not block the event loop for other episodes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable
from typing import TypeVar

from agentgym.messages import Call, ResultStatus
from agentgym.testing.arguments import plausible
from agentgym.testing.findings import short
from agentgym.testing.instance_checks import CheckSubject, RecordedEnvironment

T = TypeVar("T")
LONGEST_S = 1.0
"""The seconds for which a tool may block the event loop."""
CERTAIN_S = 5.0
"""A pause this long, in seconds, cannot come from a busy machine. A shorter pause counts only if it occurs twice."""


async def check_pace(subject: CheckSubject) -> bool:
    """Call each tool that is not final. Returns: whether all returned and none blocked the event loop."""
    count = len(subject.findings.messages)
    recorded = RecordedEnvironment(subject, subject.task, subject.seed)
    try:
        await recorded.open()
        for tool in list(recorded.environment.tools.values()):
            if tool.options.final:
                continue
            call = Call(tool.name, plausible(tool, random.Random(subject.seed)), "pace")
            try:
                result, pause_s = await _with_longest_pause(recorded.environment.call(call))
                if LONGEST_S < pause_s < CERTAIN_S:
                    result, again_s = await _with_longest_pause(recorded.environment.call(call))
                    pause_s = min(pause_s, again_s)
            except Exception:  # noqa: BLE001  later checks report what a call raises
                continue
            written = f"{tool.name}({short(call.arguments, 60)})"
            if pause_s > LONGEST_S:
                subject.findings.add(
                    f"{written} blocked the event loop for {pause_s:.1f} s, in which all other episodes stood still. "
                    "Define the tool without `async` and without inline=True, so that it runs in a thread, or await "
                    "what takes long."
                )
            elif result.status is ResultStatus.TIMEOUT:
                subject.findings.add(
                    f"{written} did not return in {tool.options.timeout_s:g} s. Raise the tool's timeout_s if it is "
                    "meant to take so long."
                )
    finally:
        await recorded.environment.close()
    return len(subject.findings.messages) == count


async def _with_longest_pause(work: Awaitable[T]) -> tuple[T, float]:
    """Return the result of `work`, and the longest time for which it blocked the event loop, in seconds."""
    now, longest_s = asyncio.get_running_loop().time, 0.0

    async def beat() -> None:
        nonlocal longest_s
        last = now()
        try:
            while True:
                await asyncio.sleep(0.02)
                longest_s, last = max(longest_s, now() - last), now()
        finally:
            longest_s = max(longest_s, now() - last)

    beating = asyncio.ensure_future(beat())
    await asyncio.sleep(0)
    try:
        result = await work
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
    return result, longest_s
