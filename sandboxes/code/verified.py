"""`agentgym/code-verified-v1`: write a function, and tests that show that it is correct; both are judged."""

from __future__ import annotations

from agentgym import Checkpoint, Environment, Message, SandboxSpec, Task, ToolError, tool

from .transcript import report
from .workbench import RUN_S, Workbench

MAX_TESTS, MAX_LENGTH = 20, 500
SYSTEM = (
    "Write the function and tests for it: assertions such as 'assert f(2) == 4' with plain values. Check the one with "
    "the other, then submit both."
)


class CodeVerified(Environment):
    """Function writing with the agent's own tests, in a sandbox without network. Not isolated: runs share files.

    Turns alternate between writing code and checking it. No tests are given. The hidden tests, the gold solution that
    judges the agent's tests, and the mutants that these tests should detect are in the task's truth, which an
    environment never gets.
    """

    sandbox = SandboxSpec(memory_mib=512, processes=32, disk_mib=64, preload=("json",))
    reward = "verified_code"
    task_set = "code/verified-v1"
    _bench: Workbench

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self._bench = Workbench(self, {})
        return [Message("system", SYSTEM), *task.opening()]

    @tool(parallel=False)
    async def run(self, code: str) -> str:
        """Run Python and show what it prints."""
        return report(await self._bench.python(code), RUN_S)

    @tool(parallel=False)
    async def check(self, code: str, tests: list[str]) -> str:
        """Try code on tests of your own.

        Args:
            code: the function.
            tests: assertions, at most 20.
        """
        _check_tests(tests)
        return report(await self._bench.run_tests(code, "", tests), RUN_S)

    @tool(final=True, parallel=False)
    async def submit(self, code: str, tests: list[str]) -> str:
        """Hand in the function and its tests.

        Args:
            code: the function.
            tests: assertions, at most 20.
        """
        _check_tests(tests)
        await self._bench.check_compiles(code)
        return "Submitted."

    async def state_key(self) -> str | None:
        """Hash of all files; runs leave nothing else behind."""
        return await self._bench.state_key()

    async def checkpoint(self) -> Checkpoint | None:
        return await self._bench.checkpoint()

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self._bench = Workbench(self, {}, checkpoint=checkpoint)


def _check_tests(tests: list[str]) -> None:
    if len(tests) > MAX_TESTS or any(len(test) > MAX_LENGTH for test in tests):
        raise ToolError(f"At most {MAX_TESTS} tests of {MAX_LENGTH} characters each.")
