"""The work that every peer does, and its timing. Standard library only: each runs in its own environment.

A driver has a coroutine `start()` that returns an open sandbox with coroutines `write(path, text)`, `read(path)`,
`run(argv)` (standard output) and `close()`. Prints, as JSON, the milliseconds of each whole life, of the script again
in a running sandbox, and of `true` there.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

DATA = "\n".join(str(number) for number in range(1000))
SCRIPT = """numbers = [int(line) for line in open("data.txt")]
with open("result.txt", "w") as file:
    file.write(str(sum(numbers)))
"""
RESULT = str(sum(range(1000)))
RUN = ["python3", "-S", "script.py"]  # without the packages of the host, which not every peer sees


async def life(start: Callable[[], Awaitable[Any]]) -> None:
    """Create a sandbox, write a file and a script, run it, read its result, and close."""
    box = await start()
    try:
        await box.write("data.txt", DATA)
        await box.write("script.py", SCRIPT)
        await box.run(RUN)
        data = await box.read("result.txt")
    finally:
        await box.close()
    if data.strip() != RESULT:
        raise RuntimeError(f"The script wrote {data!r} instead of {RESULT!r}, so its time says nothing.")


async def measured(start: Callable[[], Awaitable[Any]], repeats: int) -> dict[str, list[float]]:
    """Return milliseconds by kind of work. The first of each kind does not count."""
    times: dict[str, list[float]] = {"life": [], "script": [], "true": []}

    async def take(name: str, work: Awaitable[Any]) -> None:
        began = time.perf_counter()
        await work
        times[name].append(1000 * (time.perf_counter() - began))

    for _ in range(repeats + 1):
        await take("life", life(start))
    box = await start()
    try:
        await box.write("data.txt", DATA)
        await box.write("script.py", SCRIPT)
        for _ in range(repeats + 1):
            await take("script", box.run(RUN))
            await take("true", box.run(["true"]))
    finally:
        await box.close()
    return {name: values[1:] for name, values in times.items()}


def main(start: Callable[[], Awaitable[Any]], package: str = "", version: str = "") -> None:
    """The program of a driver: `--repeats N`, and JSON on the last line of standard output."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    times = asyncio.run(measured(start, options.repeats))
    if package:
        version = importlib.metadata.version(package)
    print(json.dumps({"version": version, "times": times}))
