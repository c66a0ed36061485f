"""Closing an environment so that it is truly closed: also when cancelled, and without waiting for ever."""

from __future__ import annotations

import asyncio

from agentgym.environment import Environment

CLOSE_S = 60.0
"""How long an environment may take to close before it is given up."""


async def close_environment(environment: Environment) -> str | None:
    """Close and wait for it, even when cancelled meanwhile; the cancellation is raised afterwards.

    Returns: what went wrong in closing, None if nothing did. It is a note and no error, because what the
        episode did before stands.
    Raises: asyncio.CancelledError
    """
    if type(environment).close is Environment.close and not environment.sandboxes:
        return None  # nothing to free
    loop = asyncio.get_running_loop()
    closing, latest = loop.create_task(environment.close()), loop.time() + CLOSE_S
    cancelled: asyncio.CancelledError | None = None
    while not closing.done() and (left := latest - loop.time()) > 0:
        try:
            await asyncio.wait({closing}, timeout=left)  # does not cancel what it waits for
        except asyncio.CancelledError as error:
            cancelled = error
    if not closing.done():
        closing.cancel()
        closing.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody else will look
        note = f"close() took longer than {CLOSE_S:g} s and was given up; something may be left behind"
    elif closing.cancelled():
        note = "close() was cancelled from within"
    elif (failure := closing.exception()) is not None:
        note = f"{type(failure).__name__}: {str(failure)[:2000]}"
    else:
        note = None
    if cancelled is not None:
        raise cancelled
    return note
