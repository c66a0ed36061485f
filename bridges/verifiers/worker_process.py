"""Our side of the process that runs an environment of verifiers: `worker.py` in another Python environment."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from agentgym import EnvironmentServerError

WORKER = Path(__file__).with_name("worker.py")
MAX_LINE_BYTES = 16 * 2**20
_MAX_ANSWERS = 16  # the most answers that may wait to be taken
_WORDS = 4000  # how many characters of standard error an error message shows at most
_OPEN_S, _END_S = 600.0, 5.0


class WorkerProcess:
    """One process and its open episodes. Made by `start`.

    Attributes:
        tasks: `key` and `messages` of each task.
        is_sound: whether every answer has arrived in time. If not, no more episodes begin here.
    """

    def __init__(self, process: asyncio.subprocess.Process, answer_s: float) -> None:
        self._process, self._answer_s = process, answer_s
        self._numbers = count()
        self._answers: dict[str, asyncio.Queue[Mapping[str, Any] | EnvironmentServerError]] = {}
        self._opened: asyncio.Queue[Mapping[str, Any] | EnvironmentServerError] = asyncio.Queue(_MAX_ANSWERS)
        self._words = ""
        self._failure: EnvironmentServerError | None = None
        self._reading = [asyncio.create_task(self._read()), asyncio.create_task(self._listen())]
        self.tasks: list[dict[str, Any]] = []
        self.is_sound = True

    @classmethod
    async def start(cls, python: str, config: Mapping[str, Any], most: int, answer_s: float) -> WorkerProcess:
        """Start a worker. Raises: EnvironmentServerError with the process's output, if it does not start."""
        try:
            process = await asyncio.create_subprocess_exec(
                python,
                "-P",  # do not import from the worker's own folder
                str(WORKER),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=MAX_LINE_BYTES,
                start_new_session=True,
            )
        except OSError as error:
            raise EnvironmentServerError(
                f"{python!r} cannot be started: {error}. Give the path of a Python."
            ) from error
        worker = cls(process, answer_s)
        try:
            await worker._write({"op": "open", "config": dict(config), "most": most})
            opened = await worker._next(worker._opened, "open the taskset", _OPEN_S)
            tasks = opened.get("opened")
            if not isinstance(tasks, list) or not all(isinstance(row, dict) and "key" in row for row in tasks):
                raise EnvironmentServerError(f"{python!r} should list tasks, but it answered {str(opened)[:500]}.")
        except BaseException:
            await worker.close()
            raise
        worker.tasks = tasks
        return worker

    async def begin(self, index: int, key: str) -> str:
        """Begin an episode of a task. Returns: the episode's name in this process."""
        name = str(next(self._numbers))
        self._answers[name] = asyncio.Queue(_MAX_ANSWERS)
        await self._write({"op": "begin", "episode": name, "index": index, "key": key})
        return name

    async def say(self, episode: str, message: Mapping[str, Any]) -> None:
        """Answer the waiting model call."""
        await self._write({"op": "say", "episode": episode, "message": dict(message)})

    async def end(self, episode: str) -> None:
        """Stop an episode; it is judged as it is."""
        await self._write({"op": "end", "episode": episode})

    async def answer(self, episode: str) -> Mapping[str, Any]:
        """Return an episode's next answer: `messages` and `tools`, or `over`.

        Raises: EnvironmentServerError if the episode failed there, the answer is late or invalid, or the process
            ended.
        """
        answer = await self._next(self._answers[episode], f"go on with episode {episode}", self._answer_s)
        if "failed" in answer:
            raise EnvironmentServerError(f"The episode failed in verifiers: {str(answer['failed'])[:2000]}")
        return answer

    def forget(self, episode: str) -> None:
        """Discard further answers of an episode."""
        self._answers.pop(episode, None)

    async def close(self) -> None:
        """End the process and everything it started. May be called twice."""
        self._fail("it was closed")
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _END_S)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        for reading in self._reading:
            reading.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)

    async def _write(self, line: Mapping[str, Any]) -> None:
        if self._failure is not None:
            raise self._failure
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            await asyncio.wait_for(self._process.stdin.drain(), self._answer_s)
        except (OSError, TimeoutError) as error:
            self._fail("it takes no more input")
            raise self._failure or EnvironmentServerError(str(error)) from error

    async def _next(self, queue: asyncio.Queue[Any], purpose: str, within_s: float) -> Mapping[str, Any]:
        if self._failure is not None and queue.empty():
            raise self._failure
        try:
            answer = await asyncio.wait_for(queue.get(), within_s)
        except TimeoutError:
            self.is_sound = False
            raise EnvironmentServerError(
                f"The verifiers process did not {purpose} within {within_s:g} s.{self._last_words()} Raise `answer_s` "
                "if it may take longer."
            ) from None
        if isinstance(answer, EnvironmentServerError):
            raise answer
        if "failed" in answer and queue is self._opened:
            raise EnvironmentServerError(f"The taskset cannot be opened: {str(answer['failed'])[:2000]}")
        return answer  # type: ignore[no-any-return]

    async def _read(self) -> None:
        """Pass each line of output to the episode that it belongs to, until the output ends or a line is invalid."""
        assert self._process.stdout is not None
        try:
            while text := await self._process.stdout.readline():
                line = json.loads(text)
                if not isinstance(line, dict):
                    raise ValueError("it is not a JSON object")
                if "episode" not in line:
                    self._opened.put_nowait(line)
                elif (queue := self._answers.get(str(line["episode"]))) is not None:
                    queue.put_nowait(line)
            await asyncio.sleep(0.1)  # wait for its last output
            self._fail("it has ended")
        except (ValueError, RecursionError) as error:
            self._fail(f"it wrote a line that makes no sense: {str(error)[:200]}")
        except asyncio.QueueFull:
            self._fail("it says more than it was asked")

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        while text := await self._process.stderr.read(4096):
            self._words = (self._words + text.decode("utf-8", "replace"))[-_WORDS:]

    def _fail(self, why: str) -> None:
        """Report a failure to all current and later requests."""
        self.is_sound = False
        if self._failure is None:
            self._failure = EnvironmentServerError(f"The verifiers process failed: {why}.{self._last_words()}")
            for queue in (self._opened, *self._answers.values()):
                if not queue.full():  # if the queue is full, no reader is waiting
                    queue.put_nowait(self._failure)

    def _last_words(self) -> str:
        return f" Its last words: {self._words[-1500:].strip()}" if self._words.strip() else ""


class SharedWorker:
    """One process for all episodes open at the same time; it ends with the last of them.

    Episodes of another event loop, and episodes that begin after an answer has not arrived in time, get another
    process.
    """

    def __init__(self, python: str, config: Mapping[str, Any], most: int, answer_s: float) -> None:
        self._arguments = (python, config, most, answer_s)
        self._starting: dict[asyncio.AbstractEventLoop, asyncio.Task[WorkerProcess]] = {}
        self._users: dict[asyncio.Task[WorkerProcess], int] = {}

    async def borrow(self) -> WorkerProcess:
        """Return the worker of this event loop, started at first use. Raises: EnvironmentServerError."""
        loop = asyncio.get_running_loop()
        starting = self._starting.get(loop)
        if starting is None or (starting.done() and (starting.exception() or not starting.result().is_sound)):
            starting = self._starting[loop] = asyncio.create_task(WorkerProcess.start(*self._arguments))
        self._users[starting] = self._users.get(starting, 0) + 1
        try:
            return await asyncio.shield(starting)
        except BaseException:
            await self._leave(starting)
            raise

    async def give_back(self, worker: WorkerProcess) -> None:
        """Return a worker. The last user ends the process."""
        for starting in list(self._users):
            if starting.done() and not starting.exception() and starting.result() is worker:
                await self._leave(starting)

    async def _leave(self, starting: asyncio.Task[WorkerProcess]) -> None:
        self._users[starting] -= 1
        if self._users[starting]:
            return
        del self._users[starting]
        loop = asyncio.get_running_loop()
        if self._starting.get(loop) is starting:
            del self._starting[loop]
        starting.cancel()
        with suppress(asyncio.CancelledError, EnvironmentServerError):
            await (await starting).close()
