"""`agentgym/code-v1`: write a Python function in a sandbox, with visible tests; hidden ones judge it elsewhere."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from agentgym import Checkpoint, Environment, Message, SandboxSpec, Task, ToolError, tool
from agentgym.errors import SandboxError, TaskError
from agentgym.sandbox import ExecResult, Sandbox

from .report import last_lines, report

RUN_S = 10.0


class Code(Environment):
    """Function writing in a sandbox without network. Not isolated: the agent's own runs share its files under /work.

    Task parameters: `tests`, a list of visible assertions such as "assert f(2) == 4" (may be empty);
    `setup`, code to run before them (optional). The hidden tests are in the task's truth, which never comes
    here: the reward `hidden_tests` runs them in another sandbox.
    """

    sandbox = SandboxSpec(memory_mib=512, processes=32, disk_mib=64, preload=("json",))
    reward = "hidden_tests"

    def __init__(self) -> None:
        self._machine: Sandbox | None = None
        self._tests: list[str] = []
        self._setup = ""
        self._seen: set[str] = set()

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Open an empty sandbox. Raises: TaskError if the visible tests are no list of text."""
        self._read(task)
        if self._machine is None:
            self._machine = await self.open_sandbox()
        else:
            await self._machine.reset()
        return [Message("system", "Write the code, test it, then submit all of it."), *task.opening()]

    @tool
    async def run(self, code: str) -> str:
        """Run Python and show what it prints."""
        return self._keep(report(await self._python(code), RUN_S))

    @tool
    async def test(self, code: str) -> str:
        """Try code on the visible tests."""
        if not self._tests:
            raise ToolError("This task has no visible tests. Try the code with run.")
        program = f"{_guest()}\ntry_tests(*{[code, self._setup, self._tests]!a})\n"
        return self._keep(report(await self._python(program), RUN_S))

    @tool(final=True)
    async def submit(self, code: str) -> str:
        """Hand in the code."""
        check = await self._python(f"compile({code!a}, 'submission.py', 'exec')")
        if not check.ok and b"Error" in check.stderr:
            raise ToolError(f"The code does not compile: {last_lines(check.stderr, 3)}")
        return "Submitted."

    async def state_key(self) -> str | None:
        """Hash of the tests and of every result seen so far, in any order: what the agent knows."""
        digest = hashlib.sha256(repr(self._tests).encode())
        for result in sorted(self._seen):
            digest.update(hashlib.sha256(result.encode("utf-8", "replace")).digest())
        return digest.hexdigest()[:32]

    async def checkpoint(self) -> Checkpoint | None:
        snapshot = await self._machine.snapshot() if self._machine is not None else None
        return Checkpoint({"seen": sorted(self._seen)}, snapshot)

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self._read(task)
        self._machine = await self.open_sandbox(snapshot=checkpoint.snapshot)
        self._seen = set(checkpoint.data["seen"])

    def _read(self, task: Task) -> None:
        tests, setup = task.parameters.get("tests", []), task.parameters.get("setup", "")
        if not (isinstance(tests, list | tuple) and all(isinstance(test, str) for test in tests)):
            raise TaskError(f"{task.id}: parameters['tests'] is {tests!r}; give a list of assertions as text.")
        if not isinstance(setup, str):
            raise TaskError(f"{task.id}: parameters['setup'] is {setup!r}; give code as text.")
        self._tests, self._setup, self._seen = list(tests), setup, set()

    async def _python(self, code: str) -> ExecResult:
        if self._machine is None:
            raise SandboxError("The code environment was used before reset.")
        return await self._machine.run_python(code, timeout_s=RUN_S)

    def _keep(self, result: str) -> str:
        self._seen.add(result)
        return result


@cache
def _guest() -> str:
    return files("agentgym.sandboxes.code").joinpath("guest.py").read_text(encoding="utf-8")
