"""`agentgym/code-v1`: write a Python function in a sandbox, with visible tests; hidden ones judge it elsewhere."""

from __future__ import annotations

import hashlib

from agentgym import Checkpoint, Environment, Message, SandboxSpec, Task, ToolError, tool

from .report import report
from .workbench import RUN_S, Workbench, assertions_of, text_of


class Code(Environment):
    """Function writing in a sandbox without network. Not isolated: the agent's own runs share its files under /work.

    Task parameters: `tests`, a list of visible assertions such as "assert f(2) == 4" (may be empty);
    `setup`, code to run before them (optional). The hidden tests are in the task's truth, which never comes
    here: the reward `hidden_tests` runs them in another sandbox.
    """

    sandbox = SandboxSpec(memory_mib=512, processes=32, disk_mib=64, preload=("json",))
    reward = "hidden_tests"

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Open an empty sandbox. Raises: TaskError if the visible tests are no list of text."""
        await self._open(task, None)
        return [Message("system", "Write the code, test it, then submit all of it."), *task.opening()]

    @tool
    async def run(self, code: str) -> str:
        """Run Python and show what it prints."""
        async with self._bench.turn:
            return self._keep(report(await self._bench.python(code), RUN_S))

    @tool
    async def test(self, code: str) -> str:
        """Try code on the visible tests."""
        if not self._tests:
            raise ToolError("This task has no visible tests. Try the code with run.")
        async with self._bench.turn:
            return self._keep(report(await self._bench.tried(code, self._setup, self._tests), RUN_S))

    @tool(final=True)
    async def submit(self, code: str) -> str:
        """Hand in the code."""
        async with self._bench.turn:
            await self._bench.check_compiles(code)
        return "Submitted."

    async def state_key(self) -> str | None:
        """Hash of the tests and of every result seen so far, in any order: what the agent knows."""
        digest = hashlib.sha256(repr(self._tests).encode())
        for result in sorted(self._seen):
            digest.update(hashlib.sha256(result.encode("utf-8", "replace")).digest())
        return digest.hexdigest()[:32]

    async def checkpoint(self) -> Checkpoint | None:
        return await self._bench.checkpoint(seen=sorted(self._seen))

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self._open(task, checkpoint)

    async def _open(self, task: Task, checkpoint: Checkpoint | None) -> None:
        self._tests, self._setup = assertions_of(task), text_of(task, "setup")
        self._seen: set[str] = set(checkpoint.data["seen"] if checkpoint else ())
        self._bench = Workbench(self, {}, checkpoint=checkpoint)
        await self._bench.machine()

    def _keep(self, result: str) -> str:
        self._seen.add(result)
        return result
