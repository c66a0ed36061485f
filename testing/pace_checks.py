"""Checks of calls: each gets an answer, changes its own environment alone, returns, and blocks no other episode."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable
from typing import TypeVar

from agentgym import Call, Content, Environment, ImagePart, Result, ResultStatus, Task, TextPart

from .arguments import hostile, plausible, wrong
from .findings import Findings, short
from .instance_checks import CheckSubject, RecordedEnvironment, plain


async def check_answers(subject: CheckSubject) -> None:
    """Check that every call is answered with a result: unknown tools, wrong arguments, hostile arguments.

    Neither these calls nor the reset may change a task.
    """
    findings = subject.findings
    recorded = RecordedEnvironment(subject, subject.task, subject.seed)
    try:
        await recorded.open()
        cases = [("a tool that does not exist", Call("no_such_tool", {"x": 1}), ResultStatus.UNKNOWN_TOOL)]
        cases.append(
            ("a call that cannot be read", Call("", {}, error="This call cannot be read."), ResultStatus.MALFORMED)
        )
        for case, call, status in cases:
            await _check_result(recorded, findings, case, call, status)
        for tool in recorded.environment.tools.values():
            for case, arguments in wrong(tool):
                call = Call(tool.name, arguments)
                await _check_result(recorded, findings, f"{tool.name} with {case}", call, ResultStatus.WRONG_ARGUMENTS)
            for arguments in hostile(tool):
                await _check_result(
                    recorded, findings, f"{tool.name}({short(arguments, 60)})", Call(tool.name, arguments)
                )
    finally:
        await recorded.close()
    _check_untouched(findings, subject.task.public(), recorded.task)


async def _check_result(
    recorded: RecordedEnvironment, findings: Findings, case: str, call: Call, status: ResultStatus | None = None
) -> None:
    call = Call(call.name, call.arguments, "probe_7", call.error)
    try:
        result = await recorded.environment.call(call)
    except Exception as error:  # noqa: BLE001  nothing that the agent writes may raise
        findings.add(
            f"{case} raised {type(error).__name__}: {short(error)}. What the agent does wrong is a result: raise "
            "ToolError with a sentence for it."
        )
        return
    if not isinstance(result, Result):
        findings.add(f"{case} gave {short(result)}, which is not a Result.")
        return
    if status is not None and result.status is not status:
        findings.add(f"{case} came back as {result.status}, expected {status}: {short(plain(result.content))}")
    if result.final and not result.ok:
        findings.add(f"{case} ended the episode although it failed ({result.status}).")
    if result.call_id != "probe_7":
        findings.add(f"The result of {case} has call_id {result.call_id!r}, the call had 'probe_7'.")
    if complaint := _unfit(result.content, recorded.environment, call.name):
        findings.add(f"The result of {case} {complaint}")


def _unfit(content: Content, environment: Environment, name: str) -> str:
    """Describe the fault in a result's content, or return an empty string."""
    if not isinstance(content, str):
        if isinstance(content, tuple) and all(isinstance(part, (TextPart, ImagePart)) for part in content):
            return ""
        return f"is {type(content).__name__}: content is text, or a tuple of text and image parts."
    try:
        json.dumps(content).encode()
        content.encode()
    except UnicodeEncodeError:
        return f"holds half a character, which no tokenizer takes: {content[:60]!r}."
    tool = environment.tools.get(name)
    if tool is not None and len(content) > tool.options.max_output_chars + 200:
        return f"is {len(content)} characters long, max_output_chars is {tool.options.max_output_chars}."
    return ""


def _check_untouched(findings: Findings, given: Task, after: Task) -> None:
    """Check that neither reset nor a tool changed the task given to the environment."""
    if _frozen(after) != (was := _frozen(given)):
        findings.add(
            f"The task {given.id!r} was changed by playing it: {was} became {_frozen(after)}. Copy what you change: "
            "code that makes environments by hand gives the same task to several."
        )


def _frozen(task: Task) -> str:
    return short(json.dumps(task.to_json(), sort_keys=True, default=str), 100_000)


T = TypeVar("T")
LONGEST_S = 1.0
"""How long a tool may block the event loop, in seconds."""
CERTAIN_S = 5.0
"""A pause this long, in seconds, cannot come from a busy machine. A shorter pause counts only if it occurs twice."""


async def check_pace(subject: CheckSubject) -> bool:
    """Call each tool, those that end an episode last. Returns: whether all returned and none blocked the event loop."""
    count = len(subject.findings.messages)
    recorded = RecordedEnvironment(subject, subject.task, subject.seed)
    try:
        await recorded.open()
        for tool in sorted(recorded.environment.tools.values(), key=lambda tool: tool.options.final):
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
        await recorded.close()
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
