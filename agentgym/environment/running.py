"""Turn an agent's call into a result: validate it, run it, meter it, and handle every way in which it can end."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from agentgym.errors import SandboxError, ToolError
from agentgym.messages import Call, Result, ResultStatus
from agentgym.sandbox.metering import metered, usage_counts
from agentgym.sandbox.time_limit import ThreadLimit, TimeLimit
from agentgym.threads import in_thread
from agentgym.tools import WrongArguments
from agentgym.tools.definition import Tool
from agentgym.tools.shown import render_output

Run = Callable[[Tool, object, Call], Coroutine[Any, Any, Result]]


def run_call(
    tools: Mapping[str, Tool], owner: object, call: Call, lock: asyncio.Lock, *, meter: bool
) -> Coroutine[Any, Any, Result]:
    """Return the coroutine that runs one call of an agent and returns its result.

    Args:
        tools: the agent's current tools, by name.
        owner: the environment, passed to a tool's function as the first argument.
        lock: held while a call of a tool with `parallel=False` runs.
        meter: whether the result has the sandbox usage of the call.
    Raises, when awaited: SandboxError from a sandbox; any other exception from a broken tool.
    """
    tool = tools.get(call.name) if call.error is None else None
    if tool is None:
        return _refuse(tools, call)
    run = _run_metered if meter else _run
    return run(tool, owner, call) if tool.options.parallel else _run_in_order(lock, run, tool, owner, call)


async def _refuse(tools: Mapping[str, Tool], call: Call) -> Result:
    if call.error is not None:
        return Result(call.error, ResultStatus.MALFORMED, call.name, call.id)
    known = "; ".join(each.signature() for each in tools.values())
    text = f"There is no tool named {str(call.name)[:60]!r}. Tools: {known or 'none'}."
    return Result(text, ResultStatus.UNKNOWN_TOOL, call.name, call.id)


async def _run_in_order(lock: asyncio.Lock, run: Run, tool: Tool, owner: object, call: Call) -> Result:
    async with lock:
        return await run(tool, owner, call)


async def _run_metered(tool: Tool, owner: object, call: Call) -> Result:
    with metered() as meter:
        result = await _run(tool, owner, call)
    return replace(result, usage=counts) if (counts := usage_counts(meter.used)) else result


async def _run(tool: Tool, owner: object, call: Call) -> Result:
    """Run one call of an existing tool. However the call ends, return a result."""
    started = time.perf_counter()
    status, truncated = ResultStatus.OK, False
    options = tool.options
    limit: TimeLimit | None = None
    try:
        arguments = tool.validate(call.arguments)
        if options.inline and not tool.is_async:
            value = tool.function(owner, **arguments)
        else:
            limit = TimeLimit(options.timeout_s) if tool.is_async else ThreadLimit(options.timeout_s)
            with limit:
                value = await _answer(tool, owner, arguments, limit)
        content, truncated = render_output(value, options.max_output_chars)
    except ToolError as error:
        cause = error.__cause__
        if isinstance(cause, SandboxError) and not isinstance(cause, ToolError):
            # SandboxDied is a ConnectionError, so a tool that handles errors of its files may catch it by mistake.
            raise cause from cause.__cause__
        content, truncated = render_output(str(error), options.max_output_chars)
        status = ResultStatus.TOOL_ERROR
    except WrongArguments as error:
        content, status = str(error), ResultStatus.WRONG_ARGUMENTS
    except TimeoutError:
        if limit is None or not limit.expired:
            raise  # not our timeout: the tool did not handle one of its own
        content, status = f"{call.name} took longer than {options.timeout_s:g} s.", ResultStatus.TIMEOUT
        if not tool.is_async:  # the thread of a synchronous tool cannot be stopped
            content += " It is still running: what it changes may come later."
    except SystemExit as error:  # SystemExit would end the whole run, not only the tool
        raise RuntimeError(
            f"The tool {call.name!r} called sys.exit({error.code!r}). A tool must return, or raise ToolError."
        ) from error
    final = options.final and status is ResultStatus.OK
    return Result(content, status, call.name, call.id, final, truncated, time.perf_counter() - started)


async def _answer(tool: Tool, owner: object, arguments: Mapping[str, Any], limit: TimeLimit) -> Any:
    if not isinstance(limit, ThreadLimit):
        return await tool.function(owner, **arguments)
    value = await in_thread(limit.run, tool.function, owner, **arguments)
    if inspect.isawaitable(value):  # a lambda that returns a coroutine, for example
        value = await value
    return value
