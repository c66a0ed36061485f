"""Checks that `close` frees sandboxes, files, threads, tasks and processes, also if called early or twice."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from .instance_checks import CheckSubject, RecordedEnvironment, calls_for

_watching: list[list[str]] = []


class LeakDetector:
    """Finds leaked resources. Create it after a warm-up, play episodes inside `watching`, then call `grown`."""

    def __init__(self) -> None:
        self._before = self._count()
        self._temporary: list[str] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record the temporary files and folders made inside the block."""
        if not _hooked:
            sys.addaudithook(_note_temporary)
            _hooked.append(True)
        _watching.append(self._temporary)
        try:
            yield
        finally:
            _watching.remove(self._temporary)

    def grown(self, episodes: int) -> list[str]:
        """Return resources that grew by at least one per episode, as phrases such as "3 open files (...)"."""
        now = self._count()
        phrases = []
        for kind, items in now.items():
            new = items - self._before[kind]
            if len(items) - len(self._before[kind]) >= episodes:
                phrases.append(f"{len(new)} {kind} ({', '.join(sorted(new)[:3])})")
        created_paths = [path for path in self._temporary if os.path.exists(path)]
        if len(created_paths) >= episodes:
            phrases.append(f"{len(created_paths)} temporary files or folders ({created_paths[0]})")
        return phrases

    @staticmethod
    def _count() -> dict[str, set[str]]:
        gc.collect()
        return {
            "open files": _open_files(),
            "threads": {f"{t.name} {t.ident}" for t in threading.enumerate() if not t.name.startswith("agentgym-tool")},
            "asyncio tasks": {task.get_name() for task in asyncio.all_tasks() if not task.done()},
            "processes": _children(),
        }


_hooked: list[bool] = []


def _note_temporary(event: str, arguments: tuple[Any, ...]) -> None:
    """Record temporary files while a detector watches. This audit hook stays installed: Python cannot remove one."""
    if _watching and event in ("tempfile.mkdtemp", "tempfile.mkstemp"):
        _watching[-1].append(str(arguments[0]))


def _open_files() -> set[str]:
    descriptors = set()
    folder = Path("/proc/self/fd")
    if folder.is_dir():
        for name in os.listdir(folder):
            with suppress(OSError):
                descriptors.add(f"{name}: {os.readlink(folder / name)}")
    return descriptors


def _children() -> set[str]:
    process_ids: set[str] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            process_ids.update(path.read_text().split())
    return process_ids


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
    for _ in range(2):  # warm-up: create whatever is created only once
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
                await recorded.close()
                await recorded.close()
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
        await recorded.close()
