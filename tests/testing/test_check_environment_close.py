"""check_environment names what an environment forgets when it is closed."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading

import pytest
from breaches import assert_names
from shelf import Shelf, findings_of

from agentgym import Call, Message, Result, Task


class Forgetful(Shelf):
    """Overrides close and forgets the sandboxes."""

    async def close(self) -> None:
        self.boxes = []


async def test_a_close_that_forgets_the_sandboxes_is_caught():
    assert_names(await findings_of(Forgetful), "does not end the sandboxes", "super().close()")


class FileKeeper(Shelf):
    """Opens a file at reset and never closes it."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.file = open("/dev/null")  # noqa: SIM115, ASYNC230  the fault
        return await super().reset(task, seed=seed)

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.file.close()


class FolderKeeper(Shelf):
    """Makes a temporary folder at reset and leaves it."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.folder = tempfile.mkdtemp(prefix="folder_keeper_")
        made_folders.append(self.folder)
        return await super().reset(task, seed=seed)


made_folders: list[str] = []


class ThreadKeeper(Shelf):
    """Starts a thread at reset and never ends it."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        threading.Thread(target=all_may_end.wait, daemon=True).start()
        return await super().reset(task, seed=seed)


all_may_end = threading.Event()


class TaskKeeper(Shelf):
    """Starts an asyncio task at reset and never cancels it."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        started.append(asyncio.ensure_future(asyncio.sleep(3600)))
        return await super().reset(task, seed=seed)


started: list[asyncio.Future] = []


@pytest.fixture
def cleaned_up():
    all_may_end.clear()
    yield
    all_may_end.set()
    for task in started:
        task.cancel()
    started.clear()
    for folder in made_folders:
        os.rmdir(folder)
    made_folders.clear()


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        (FileKeeper, "3 open files"),
        (FolderKeeper, "3 temporary files or folders"),
        (ThreadKeeper, "3 threads"),
        (TaskKeeper, "3 asyncio tasks"),
    ],
)
async def test_a_close_that_forgets_a_resource_is_caught_with_its_kind(environment, kind, cleaned_up):
    assert_names(await findings_of(environment), "close forgets something", kind)


class OnlyOnce(Shelf):
    """Cannot be closed twice."""

    closed = False

    async def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True
        await super().close()


async def test_a_close_that_cannot_be_awaited_twice_is_caught():
    assert_names(await findings_of(OnlyOnce), "close, awaited twice", "closed already")


class ClosesOnlyOpened(Shelf):
    """Its close trusts that reset came before it, which a cancelled episode does not give."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.handle = object()
        return await super().reset(task, seed=seed)

    async def close(self) -> None:
        del self.__dict__["handle"]
        self.handle = None
        await super().close()


async def test_a_close_that_needs_a_reset_is_caught():
    assert_names(await findings_of(ClosesOnlyOpened), "close before reset", "KeyError")


class CloseUnlessCancelled(Shelf):
    """Ends its sandboxes only once the agent has done something."""

    done = False

    async def call(self, call: Call) -> Result:
        self.done = True
        return await super().call(call)

    async def close(self) -> None:
        if self.done:
            await super().close()


async def test_a_sandbox_left_open_by_a_cancelled_episode_is_caught():
    assert_names(await findings_of(CloseUnlessCancelled), "cancelled episode leaves a sandbox open")
