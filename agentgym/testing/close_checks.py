"""Checks that `close` frees sandboxes, files, threads, tasks and processes, also twice, early and after cancelling."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, cast

from agentgym.testing.instance_checks import CheckSubject, RecordedEnvironment, calls_for
from agentgym.testing.leaks import LeakDetector

CLOSE_S = 30.0


class DummySandbox:
    """Takes the place of one of an environment's sandboxes, and records whether it was closed."""

    closed = False

    async def close(self) -> None:
        self.closed = True


async def check_close(subject: CheckSubject) -> None:
    """Check that `close` ends every sandbox, frees every resource, and works twice and after a cancelled call."""
    findings = subject.findings
    with findings.no_exception("close before reset"):
        await subject.make().close()
    with findings.no_exception("close after a cancelled call"):
        await _check_cancel(subject)
    calls = calls_for(subject.tools, 0, rounds=1)
    for _ in range(2):  # warm-up: creates whatever is made only once
        with findings.no_exception("An episode played by hand"):
            await RecordedEnvironment(subject, subject.task, subject.seed).play(calls)
    leftovers, kept_episodes, episodes = LeakDetector(), [], 3
    with leftovers.watching():
        for _ in range(episodes):
            recorded = RecordedEnvironment(subject, subject.task, subject.seed)
            kept_episodes.append(recorded)  # so that garbage collection closes no file before the count
            lodger = DummySandbox()
            with findings.no_exception("An episode played by hand"):
                await recorded.open()
                recorded.environment.sandboxes.add(cast("Any", lodger))
                for call in calls:
                    await recorded.call(call)
            with findings.no_exception("close, awaited twice"):
                await asyncio.wait_for(recorded.environment.close(), CLOSE_S)
                await asyncio.wait_for(recorded.environment.close(), CLOSE_S)
                if not lodger.closed:
                    findings.add(
                        "close does not end the sandboxes that open_sandbox made. An own `close` ends with "
                        "`await super().close()`."
                    )
        await asyncio.sleep(0)
        for phrase in leftovers.grown(episodes):
            findings.add(f"close forgets something: after {episodes} closed episodes there are {phrase} more.")


async def _check_cancel(subject: CheckSubject) -> None:
    recorded = RecordedEnvironment(subject, subject.task, subject.seed)
    try:
        await recorded.open()
        for call in calls_for(subject.tools, 2, rounds=1)[:2]:
            running = asyncio.ensure_future(recorded.environment.call(call))
            await asyncio.sleep(0)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
    finally:
        await asyncio.wait_for(recorded.environment.close(), CLOSE_S)
